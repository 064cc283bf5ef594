#include <algorithm>

#include "base/text.hpp"
#include "hardware/cost.hpp"
#include "trace/name_tables.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/rewrite/compiling.hpp"

namespace foretrace::whatif {

namespace {

using work::Dtype;
using work::Family;
using work::Work;

/// Whether the layers are those of a library that passes attention masks only while it is traced: eagerly, transformers.masking_utils
/// leaves a mask out that hides nothing, or only the future. src/trace/names/libraries.csv says how its layers are recognised.
bool masks_when_traced(const Graph& g) {
  const auto rows = trace::name_table("libraries", 3);
  return std::any_of(g.layers.begin(), g.layers.end(), [&](const graph::Layer& layer) {
    const std::string_view type = layer.type.valid() ? g.strings[layer.type] : std::string_view();
    const std::string_view name = layer.name.valid() ? g.strings[layer.name] : std::string_view();
    return std::any_of(rows.begin(), rows.end(), [&](const trace::NameRow& row) {
      return row[0] == "transformers" && trace::matches(row[1] == "type" ? type : name, row[2]);
    });
  });
}

/// Blocks that stay for the backward pass, by the unit of the forward pass that allocated them.
using KeptBlocks = std::vector<std::vector<memory::Block*>>;

KeptBlocks kept_blocks(Compiling& c) {
  KeptBlocks kept(c.flow.units.size());
  if (!c.model.memory) return kept;
  for (memory::Block& b : c.model.memory->blocks) {
    if (b.kind != memory::Kind::kActivation || b.op == kNone) continue;
    if (const std::uint32_t unit = c.flow.unit_of(b.op); unit != kNone) kept[unit].push_back(&b);
  }
  return kept;
}

// Attention computed from its parts by generated kernels and batched products.
struct Parts {
  double batch = 0, queries = 0, keys = 0, size = 0;  ///< batch: sequences times heads
  bool half = false, dropout = false;
  [[nodiscard]] double scores() const { return batch * queries * keys; }
  [[nodiscard]] double operand() const { return batch * queries * size; }
  [[nodiscard]] double pair() const { return batch * keys * size; }

  // Operands are scaled and converted to FP32, and kept in half for the backward pass; scores stay in place. Kernels of
  // BERT under torch.compile 2.11, operand by operand.
  [[nodiscard]] Generated forward() const {
    const double element = half ? 2 : 4;
    Generated all;
    all.bytes = (operand() + 2 * pair()) * (half ? 2 + 4 + 2 : 4 + 4);
    all.bytes += scores() * (dropout ? 4 + 4 + 4 + 1 : 8) + operand() * (4 + element);
    all.random = dropout ? scores() : 0;
    return all;
  }
  [[nodiscard]] Generated backward() const {
    const double element = half ? 2 : 4;
    Generated all;
    all.bytes = (2 * operand() + 2 * pair()) * 2 * element;
    all.bytes += scores() * (element + 4 + element + (dropout ? 1 + element : 0));
    return all;
  }
  static constexpr double kForwardKernels = 5, kBackwardKernels = 5;  // that Inductor makes of it
  [[nodiscard]] double held() const { return scores() * (dropout ? 5 : 4); }

  [[nodiscard]] double products(bool backward_pass, const hardware::Device& d) const {
    const auto time = [&](double m, double n, double k, Dtype dtype) {
      return predict(work::gemm_work(static_cast<std::int64_t>(batch), static_cast<std::int64_t>(m),
                                     static_cast<std::int64_t>(n), static_cast<std::int64_t>(k), dtype),
                     d)
          .ns;
    };
    if (!backward_pass) return time(queries, keys, size, Dtype::kFp32) + time(queries, size, keys, Dtype::kFp32);
    const Dtype dtype = half ? Dtype::kBf16 : Dtype::kFp32;
    return time(queries, keys, size, dtype) + time(keys, size, queries, dtype) + time(queries, size, keys, dtype) +
           time(keys, size, queries, dtype);
  }
};

// A kernel each for the operands, the scores and the result.
double time_apart(const Generated& all, double kernels, const hardware::Device& d) {
  const double starts = time_of(Generated{.bytes = 1}, d);
  return time_of(all, d) + (kernels - 1) * starts;
}

// Whether the program passes a mask: a tensor in addition to queries, keys and values.
bool has_mask(const Compiling& c, std::uint32_t event) {
  for (std::uint32_t e = event; e != kNone; e = c.model.chains->around(e)) {
    if (c.model.trace->name(e) != "aten::scaled_dot_product_attention") continue;
    const work::OpView view(*c.model.trace, c.model.trace->events.args[e]);
    return view.size() > 3 && view[3].tensor();
  }
  return false;
}

// Fused kernels of PyTorch work through queries in tiles of so many rows. A causal one leaves out the tiles of keys behind each; with a
// mask it computes all of them (GPT-2, 512 positions: 1.68 times the time forward and backward; tiles say 1.6).
constexpr double kTile = 128;

void masked(Compiling& c, const Row& row) {
  Work becomes = c.model.works[row.work];
  auto& attention = std::get<work::Attention>(becomes.kind);
  attention.causal = false;
  const double tiles = std::max(1.0, static_cast<double>(attention.queries) / kTile);
  const double all = 2 / (1 + 1 / tiles);
  set_row(c.model, c.draft, row, static_cast<double>(row.time) * all, becomes, graph::Origin::kModelled);
}

void in_parts(Compiling& c, const Row& row, bool backward, const KeptBlocks& kept) {
  const Work w = c.model.works[row.work];  // a copy: the table grows
  const auto& a = std::get<work::Attention>(w.kind);
  const Parts parts{.batch = static_cast<double>(a.batch * a.heads),
                    .queries = static_cast<double>(a.queries),
                    .keys = static_cast<double>(a.keys),
                    .size = static_cast<double>(a.head_size),
                    .half = is_half(w.dtype),
                    .dropout = a.dropout};
  if (parts.scores() <= 0) return;
  const hardware::Device& d = c.model.device;
  const double kernels = backward ? Parts::kBackwardKernels : Parts::kForwardKernels;
  const double time = times_run(c.model, row) * (time_apart(backward ? parts.backward() : parts.forward(), kernels, d) +
                                                 parts.products(backward, d));
  // The row's own tasks are counted with all calls.
  c.launches[backward ? 1 : 0] += kernels + (backward ? 4 : 2) - static_cast<double>(row.tasks.size());
  set_row(c.model, c.draft, row, time, w, graph::Origin::kModelled);
  const std::uint32_t unit = c.flow.unit_of(w.op_event);
  if (backward || unit == kNone || kept[unit].empty()) return;
  // Scores and the elements dropped stay for the backward pass.
  memory::Block* const largest = *std::max_element(kept[unit].begin(), kept[unit].end(),
                                                   [](const auto* x, const auto* y) { return x->bytes < y->bytes; });
  largest->bytes += static_cast<std::int64_t>(parts.held());
}

// Attention that the library computes from its parts already.
void fuse_parts(Compiling& c, std::uint32_t unit, const std::vector<std::uint32_t>& forward,
                const std::vector<std::uint32_t>& backward, const std::vector<memory::Block*>& blocks) {
  const work::OpView view(*c.model.trace, c.model.trace->events.args[c.flow.units[unit].event]);
  if (!view.tensor(0, 4) || !view.tensor(1, 4)) return;
  const work::Shape &q = view[0].shape(), &k = view[1].shape();
  Parts parts{.batch = static_cast<double>(q[0] * q[1]),
              .queries = static_cast<double>(q[2]),
              .keys = static_cast<double>(k[2]),
              .size = static_cast<double>(q[3]),
              .half = work::element_bytes(view[0].type) == 2,
              .dropout = view.size() > 4 && view.number(4) > 0};
  for (const bool back : {false, true}) {
    std::uint32_t largest = kNone;
    double eager = 0;
    std::vector<std::uint32_t> others;
    for (const std::uint32_t r : back ? backward : forward) {
      const Row& row = c.rows[r];
      const Work& w = c.model.works[row.work];
      if (w.family == Family::kGemm) {
        c.launches[back ? 1 : 0] += static_cast<double>(row.tasks.size());
        if (back && parts.half && !is_half(w.dtype)) {
          const Work becomes = with_dtype(w, Dtype::kBf16);
          if (const hardware::Cost cost = rescale_row(c.model, row, becomes); cost.known)
            set_row(c.model, c.draft, row, cost.ns, becomes, graph::Origin::kModelled);
        }
        continue;
      }
      eager += static_cast<double>(row.time);
      if (largest == kNone || row.time > c.rows[largest].time) largest = r;
      others.push_back(r);
    }
    if (largest == kNone) continue;
    const double kernels = back ? Parts::kBackwardKernels : Parts::kForwardKernels;
    const double time = time_apart(back ? parts.backward() : parts.forward(), kernels, c.model.device);
    c.launches[back ? 1 : 0] += kernels;
    for (const std::uint32_t r : others) {
      if (r != largest) c.gone.insert(c.gone.end(), c.rows[r].tasks.begin(), c.rows[r].tasks.end());
    }
    Work fused = c.model.works[c.rows[largest].work];
    fused.become(Family::kElementwise);
    set_row(c.model, c.draft, c.rows[largest], std::min(time, eager), fused, graph::Origin::kModelled);
  }
  double before = 0;
  for (const memory::Block* b : blocks) before += static_cast<double>(b->bytes);
  const double element = parts.half ? 2 : 4;
  const double after = parts.held() + (2 * parts.operand() + 2 * parts.pair()) * element;
  for (memory::Block* b : blocks) {
    if (before > after) b->bytes = static_cast<std::int64_t>(static_cast<double>(b->bytes) * after / before);
  }
}

}  // namespace

bool is_library_attention(std::string_view name) { return contains(name, "scaled_dot_product"); }

void compile_attention(Compiling& c) {
  std::vector<std::vector<std::uint32_t>> forward(c.flow.units.size()), backward(c.flow.units.size());
  const KeptBlocks kept = kept_blocks(c);
  const bool masks = c.whole && masks_when_traced(c.model.graph);
  for (std::uint32_t r = 0; r < c.rows.size(); ++r) {
    const Row& row = c.rows[r];
    const Work& w = c.model.works[row.work];
    if (c.region[r] == kNone || w.op_event == kNone) continue;
    const bool back = row.phase == Phase::kBackward;
    if (!back && row.phase != Phase::kForward) continue;
    if (w.family == Family::kAttention) {
      if (!masks || has_mask(c, w.op_event) || !std::holds_alternative<work::Attention>(w.kind)) continue;
      if (std::get<work::Attention>(w.kind).causal)
        masked(c, row);
      else
        in_parts(c, row, back, kept);
      continue;
    }
    const std::uint32_t unit = back ? c.flow.backward_of(w.op_event).unit : c.flow.unit_of(w.op_event);
    if (unit != kNone && is_library_attention(c.flow.units[unit].name)) (back ? backward : forward)[unit].push_back(r);
  }
  for (std::uint32_t u = 0; u < c.flow.units.size(); ++u) {
    const bool products = std::any_of(forward[u].begin(), forward[u].end(), [&](std::uint32_t r) {
      return c.model.works[c.rows[r].work].family == Family::kGemm;
    });
    if (products) fuse_parts(c, u, forward[u], backward[u], kept[u]);
  }
}

}  // namespace foretrace::whatif
