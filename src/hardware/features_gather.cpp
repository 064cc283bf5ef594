// Laws and features of embeddings, index, gather and scatter.

#include "foretrace/work/work.hpp"
#include "hardware/features_builder.hpp"

namespace foretrace::hardware {

namespace {

using Operation = Gather::Operation;

// A radix sort takes eight bits of the key in a pass. One block alone sorts as many keys as a tile has, 9 to each of 256 threads (published by NVIDIA
// in CUB; of data/h200-operations 2,224 and not 2,320). More: a histogram, then a fill and a kernel a pass, that read and write keys and values
// of 8 bytes.
constexpr double kOneTile = 2304;
double passes_of(double largest) { return std::ceil(std::log2(std::max(largest, 2.0)) / 8); }
double sort_us(double keys, double passes, const Device& d, const Clocks& c) {
  if (keys <= kOneTile) return clocks_us(c.tile_sort + c.tile_pass * passes, d);
  return clocks_us(c.sort + c.sort_pass * passes, d) + stream_us(passes * keys * 32, d);
}

// Alike indices are added up one after the other. Evenly drawn ones: the longest of many runs.
double longest_run(double rows, double table) {
  const double mean = rows / std::max(table, 1.0);
  return mean + 3 * std::sqrt(mean);
}

struct Sizes {
  double rows, columns, table, row_bytes, bytes, table_bytes, elements;
  explicit Sizes(const Work& w, const Gather& g)
      : rows(as_double(g.rows)),
        columns(as_double(g.columns)),
        table(as_double(std::max<std::int64_t>(1, g.table)) * as_double(std::max<std::int64_t>(1, g.sets))),
        row_bytes(columns * as_double(work::bytes_of(w.dtype))),
        bytes(rows * row_bytes),
        table_bytes(table * row_bytes),
        elements(rows * columns) {}
  [[nodiscard]] double fullness() const { return std::log(std::max(rows / table, 1e-3)); }
};

// How wide the accesses are that a row allows: 0 for 16 bytes, 4 for one.
double narrowness(double row_bytes) {
  const auto bytes = static_cast<std::int64_t>(std::min(row_bytes, 1e15));
  return bytes % 16 == 0 ? 0 : bytes % 8 == 0 ? 1 : bytes % 4 == 0 ? 2 : bytes % 2 == 0 ? 3 : 4;
}

// Rows that are named again come out of L2 as far as the table fits into it.
double rows_read_us(const Work& w, const Sizes& s, const Device& d) {
  const double missed = std::clamp(1 - d.l2_mb * 1e6 / std::max(s.table_bytes, 1.0), 0.0, 1.0);
  const double again = std::max(0.0, s.rows - s.table) * s.row_bytes;
  return stream_us(w.bytes() + missed * again, d);
}

// Blocks start one behind the other, whatever they move.
KernelFeatures taken(Builder at, const Work& w, const Gather& g, const Device& d, const Clocks& c) {
  const Sizes s(w, g);
  const bool rows = g.columns > 1;  // single elements have another kernel
  return at.feature(log_of(s.rows))
      .feature(log_of(s.row_bytes))
      .feature(log_of(s.bytes))
      .feature(log_of(s.table_bytes))
      .feature(s.fullness())
      .feature(rows ? 0 : 1)
      .feature(narrowness(s.row_bytes))
      .feature(log_of(as_double(g.sets)))
      .law_of(kKernelUs, rows_read_us(w, s, d), rows ? clocks_us(c.row_block * s.rows, d) : 0);
}

// Atomic additions, which wait for nothing.
KernelFeatures added(Builder at, const Work& w, const Gather& g, const Device& d, const Clocks& c) {
  const Sizes s(w, g);
  return at.feature(log_of(s.columns))
      .feature(log_of(s.elements))
      .feature(s.fullness())
      .feature(log_of(s.table_bytes))
      .feature(misalignment(g.columns))
      .feature(log_of(as_double(g.sets)))
      .feature(g.columns > 1 ? 0 : 1)
      .law_of(kKernelUs, stream_us(w.bytes(), d), clocks_us(c.addition * s.elements / std::max(1, d.sm_count), d));
}

KernelFeatures sorted(Builder at, const Work& w, const Gather& g, const Device& d, const Clocks& c) {
  const Sizes s(w, g);
  const double keys = s.rows / as_double(std::max<std::int64_t>(1, g.sets));
  const double passes = passes_of(as_double(g.table));
  // Four indices and 128 columns to a block.
  const double blocks = std::ceil(keys / 4) * std::ceil(s.columns / 128) * as_double(g.sets);
  const double memory = stream_us(w.bytes(), d);
  const double starts = clocks_us(c.pair_block * blocks, d);
  const double sorting = sort_us(keys, passes, d, c);
  const double runs = clocks_us(c.same_row * longest_run(keys, as_double(g.table)), d);
  return at.feature(log_of(keys))
      .feature(log_of(s.columns))
      .feature(log_of(s.elements))
      .feature(s.fullness())
      .feature(log_of(s.table_bytes))
      .feature(g.columns == 1    ? 0
               : g.columns <= 32 ? 1
                                 : 2)  // single elements, up to a warp, more: a kernel each
      .feature(passes)
      .feature(keys > kOneTile ? 1 : 0)
      .feature(log_of(as_double(g.sets)))
      .law(kKernelUs + sorting + std::max(memory, starts) + runs, sorting + runs + (starts > memory ? starts : 0));
}

// Few indices: one kernel walks them. More: a sort over all 64 bits, the ends of runs, pieces of runs, their sums.
KernelFeatures table_grad(Builder at, const Work& w, const Gather& g, const Device& d, const Clocks& c) {
  constexpr double kMaxWalkedRows = 3072;  // PyTorch's embedding_dense_backward
  const Sizes s(w, g);
  const bool bags = g.operation == Operation::kBagsGrad;
  const bool few = !bags && s.rows <= kMaxWalkedRows;
  const double walk = clocks_us(c.walked_index * s.rows, d);
  const double steps = 7 * kKernelUs + sort_us(s.rows, 8, d, c);
  return at.feature(log_of(s.rows))
      .feature(log_of(s.columns))
      .feature(log_of(s.bytes))
      .feature(s.fullness())
      .feature(log_of(s.table_bytes))
      .feature(few ? 0 : 1)
      .feature(s.rows <= kOneTile ? 0 : 1)
      .feature(log_of(s.rows / as_double(std::max<std::int64_t>(1, g.bags > 0 ? g.bags : g.rows))))
      .law(kKernelUs + (few ? walk : steps + stream_us(3 * s.bytes, d)), few ? walk : steps);
}

// Warps take 32 columns of a bag each, one bag after the other: 1,024 blocks of eight warps (PyTorch's EmbeddingBag.cu).
KernelFeatures bags(Builder at, const Work& w, const Gather& g, const Device& d, const Clocks& c) {
  constexpr double kWarps = 8192, kColumns = 32;  // PyTorch's
  const Sizes s(w, g);
  const double count = as_double(std::max<std::int64_t>(1, g.bags));
  const double each = s.rows / count;
  const double pieces = count * std::ceil(s.columns / kColumns);
  const double rounds = std::max(1.0, pieces / kWarps);
  return at.feature(log_of(each))
      .feature(log_of(pieces))
      .feature(log_of(rounds))
      .feature(log_of(s.columns))
      .feature(log_of(s.table_bytes))
      .feature(s.fullness())
      .feature(log_of(s.bytes))
      .law_of(kKernelUs, rows_read_us(w, s, d), clocks_us(rounds * (c.bag + c.in_bag * each), d));
}

}  // namespace

std::optional<KernelFeatures> features(const Work& w, const Gather& g, const Device& d, const Clocks& c) {
  if (g.rows <= 0 || g.columns <= 0 || w.bytes() <= 0) return std::nullopt;
  const auto of_category = [&](std::string_view name) {
    return Builder(std::string(name).append(" fwd ").append(width_of(w)));
  };
  switch (g.operation) {
    case Operation::kTaken:
      return taken(of_category("taken"), w, g, d, c);
    case Operation::kWritten:
      return added(of_category("written"), w, g, d, c);
    case Operation::kAdded:
      return added(of_category("added"), w, g, d, c);
    case Operation::kScattered:
      return added(of_category("scattered"), w, g, d, c);
    case Operation::kSorted:
      return sorted(of_category("sorted"), w, g, d, c);
    case Operation::kTableGrad:
      return table_grad(of_category("table_grad"), w, g, d, c);
    case Operation::kBags:
      return bags(of_category("bags"), w, g, d, c);
    case Operation::kBagsGrad:
      return table_grad(of_category("bags_grad"), w, g, d, c);
    case Operation::kOther:
      break;
  }
  return std::nullopt;
}

}  // namespace foretrace::hardware
