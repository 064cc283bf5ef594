// The tables of measured operations (kernels/*.csv), and the model that asks them.

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/data_files.hpp"
#include "foretrace/base/result.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/measured.hpp"

namespace foretrace::hardware {

namespace {

std::string_view next(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view one = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return one;
}

template <class Number>
Number number(std::string_view text) {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

struct Line {
  Scales scales;
  double spread = 0, from_fp32 = 0, from_layout = 0, tuned = 0;
};

// "pool,samples,spread,from fp32,from the other layout,tuned,noise,rough or smooth,middle,scales": a line per pool, as
// tools/fit_kernels.py writes them.
const std::map<std::string, Line, std::less<>>& fitted() {
  static const std::map<std::string, Line, std::less<>> kLines = [] {
    std::map<std::string, Line, std::less<>> all;
    for (const DataFile& file : data_files_in("hardware/kernels")) {
      std::string_view stem = file.stem(), text = file.text;
      if (!stem.ends_with(".scales")) continue;
      while (!text.empty()) {
        std::string_view line = next(text, '\n');
        if (line.empty() || line.front() == '#') continue;
        Line& one = all[std::string(next(line, ','))];
        next(line, ',');
        one.spread = number<double>(next(line, ','));
        one.from_fp32 = number<double>(next(line, ','));
        one.from_layout = number<double>(next(line, ','));
        one.tuned = number<double>(next(line, ','));
        one.scales.noise = number<double>(next(line, ','));
        one.scales.smooth = next(line, ',') == "smooth";
        one.scales.middle = number<double>(next(line, ','));
        for (std::size_t f = 0; f < kMostFeatures && !line.empty(); ++f) {
          one.scales.scales[f] = number<double>(next(line, ' '));
        }
      }
    }
    return all;
  }();
  return kLines;
}

// The operation whose pools a table belongs to: log_softmax's kernels are softmax's.
std::string_view pools_of(std::string_view table) { return table == "log_softmax" ? "softmax" : table; }

/// One time of a table.
struct Cell {
  std::size_t column = 0;
  Work work;
  double us = 0;
  std::uint32_t group = 0, shape = 0;
  bool misguessed = false;
};

// A header of sizes (one word) and columns of times (three words), and a line per shape; what was not measured is empty. A time with ? behind it
// is that of a bad guess of the library's (tools/fit_kernels.py).
// `type`: only the columns of one element type, where their bounds take long to compute.
template <class Use>
void read_cells(std::string_view operation, std::string_view type, std::string_view text, Use&& use) {
  std::vector<std::string_view> header;
  std::map<std::string, std::uint32_t> groups;
  std::uint32_t line_number = 0;
  while (!text.empty()) {
    std::string_view line = next(text, '\n');
    if (line.empty() || line.front() == '#') continue;
    if (header.empty()) {
      while (!line.empty()) header.push_back(next(line, ','));
      continue;
    }
    ++line_number;
    MeasuredSizes sizes;
    std::string group;
    std::optional<std::uint32_t> group_id;
    for (std::size_t i = 0; i < header.size(); ++i) {
      const std::string_view name = header[i];
      const std::string_view cell = next(line, ',');
      if (name.find(' ') == std::string_view::npos) {
        // The first size is the batch: shapes that differ in it alone, or in how they were measured, say nearly the same.
        if ((i > 0 || operation != "conv") && name != "tuned") group.append(cell).push_back(',');
        sizes.set(name, number<std::int64_t>(cell));
        continue;
      }
      if (!group_id) {  // the same in all parts of a table, whatever was measured there
        group_id = groups.try_emplace(group, static_cast<std::uint32_t>(groups.size())).first->second;
      }
      if (name.find(type) == std::string_view::npos) continue;
      const double us = number<double>(cell);
      if (us <= 0) continue;
      use(Cell{i, measured_work(operation, sizes, name), us, *group_id, line_number, cell.ends_with('?')});
    }
  }
}

void read_table(std::string_view operation, std::string_view type, std::string_view text, const Device& device,
                KernelPools& pools) {
  // The cells of a column mostly belong to the pool of the cell above.
  struct ColumnOfTimes {
    std::string name;  ///< of the pool
    KernelPool* pool = nullptr;
    double tuned = 0;  ///< what its line of scales says
  };
  std::map<std::size_t, ColumnOfTimes> columns;
  const std::string_view tells = pools_of(operation);
  read_cells(operation, type, text, [&](const Cell& cell) {
    const std::optional<MeasuredPlace> place = measured_place(cell.work, device);
    if (!place || !place->pool.starts_with(tells)) return;
    ColumnOfTimes& of = columns[cell.column];
    if (of.pool == nullptr || of.name != place->pool) {
      const auto scales = fitted().find(place->pool);
      of = {place->pool, &pools[place->pool], scales != fitted().end() ? scales->second.tuned : 0};
      of.pool->features = place->features;
      of.pool->measured_on = device;
    }
    const double value = std::log(cell.us / place->bound_us);
    const double shift = place->tuned ? of.tuned : 0;
    if (place->tuned) of.pool->tried.emplace_back(of.pool->neighbours.size(), value);
    if (cell.misguessed) of.pool->misguessed.push_back(of.pool->neighbours.size());
    of.pool->neighbours.add({place->at, value - shift, cell.group, cell.shape});
  });
}

// One operation's pools are read when the first of them is asked for, those of large tables by element type; different ones at the
// same time, where several threads ask.
class Tables {
 public:
  const KernelPool* find(const std::string& name) {
    read_once(part_of(name));
    const std::lock_guard lock(mutex_);
    const auto it = pools_.find(name);
    return it == pools_.end() ? nullptr : &it->second;
  }
  const KernelPools& all() {
    for (const DataFile& file : data_files_in("hardware/kernels")) {
      const std::string operation(operation_of(file.stem()));
      if (!by_type(operation)) read_once(operation);
      for (const std::string_view type : kTypes) {
        if (by_type(operation)) read_once(operation + std::string(type));
      }
    }
    return pools_;
  }

  /// Whose bounds are laws with parameters of their own.
  static bool has_law(std::string_view operation) { return by_type(operation) || operation == "attention"; }

 private:
  // The largest tables. The law of products takes microseconds a row.
  static bool by_type(std::string_view operation) {
    return operation == "gemm" || operation == "conv" || operation == "rnn";
  }
  static constexpr std::array<std::string_view, 4> kTypes = {" fp32", " tf32", " fp16", " bf16"};
  // What is read at once: "softmax" of "softmax fwd half", "conv fp16" of "conv fwd dense fp16 nchw".
  static std::string part_of(std::string_view pool) {
    std::string part(pool.substr(0, pool.find(' ')));
    if (!by_type(part)) return part;
    const auto* const type = std::find_if(kTypes.begin(), kTypes.end(),
                                          [&](std::string_view t) { return pool.find(t) != std::string_view::npos; });
    return type == kTypes.end() ? part : part.append(*type);
  }
  // Of "H200-SXM.softmax".
  static std::string_view operation_of(std::string_view stem) { return pools_of(stem.substr(stem.find('.') + 1)); }
  void read_once(const std::string& part) {
    std::once_flag* read_before = nullptr;
    {
      const std::lock_guard lock(mutex_);
      read_before = &read_[part];
    }
    std::call_once(*read_before, [&] { read(part); });
  }
  void read(std::string_view part) {
    const std::string_view operation = part.substr(0, part.find(' '));
    const std::string_view type = part.substr(operation.size());
    KernelPools found;
    for (const DataFile& file : data_files_in("hardware/kernels")) {
      std::string_view stem = file.stem(), text = file.text;
      if (operation_of(stem) != operation || stem.ends_with(".scales")) continue;
      const Result<Device> device = find_device(stem.substr(0, stem.find('.')));
      FORETRACE_CHECK(device.has_value());  // a table is named after the device it was measured on
      read_table(stem.substr(stem.find('.') + 1), type, text, *device, found);
    }
    for (auto& [name, pool] : found) {
      if (const auto it = fitted().find(name); it != fitted().end()) {
        pool.neighbours.rescale(it->second.scales);
        pool.spread = it->second.spread;
        pool.from_fp32 = it->second.from_fp32;
        pool.from_layout = it->second.from_layout;
        pool.tuned = it->second.tuned;
      }
      if (pool.misguessed.empty()) continue;
      std::vector<Neighbours::Sample> others;
      auto without = pool.misguessed.begin();
      for (std::size_t i = 0; i < pool.neighbours.size(); ++i) {
        if (without != pool.misguessed.end() && *without == i) {
          ++without;
        } else {
          others.push_back(pool.neighbours.samples()[i]);
        }
      }
      pool.sensible = pool.neighbours.with(others);
    }
    const std::lock_guard lock(mutex_);
    pools_.merge(found);
  }

  std::mutex mutex_;
  std::map<std::string, std::once_flag> read_;  // by part
  KernelPools pools_;                           // a map: pools stay where they are while others are read
};

Tables& tables() {
  static Tables all;
  return all;
}

/// What neighbours said, by what they were asked. A step repeats its shapes, and a search asks for the same step hundreds of
/// times, on all its threads. The lock is held to look and to note, not while neighbours are asked: where two threads ask the
/// same at once, both get the same answer.
class Memo {
 public:
  Neighbours::Answers at(const Neighbours& pool, const Features& place, const std::optional<Neighbours::Sample>& own) {
    Question asked{};
    std::copy(place.begin(), place.end(), asked.begin());
    if (own) {
      std::copy(own->at.begin(), own->at.end(), asked.begin() + kMostFeatures);
      asked[2 * kMostFeatures] = own->value;
    }
    asked.back() = own ? 1 : 0;
    {
      const std::lock_guard lock(mutex_);
      const Known& known = known_[&pool];
      if (const auto it = known.find(asked); it != known.end()) return it->second;
    }
    const Neighbours::Answers answers = pool.with_own(place, own);
    const std::lock_guard lock(mutex_);
    Known& known = known_[&pool];
    if (known.size() >= kMost) known.clear();
    known.emplace(asked, answers);
    return answers;
  }

 private:
  static constexpr std::size_t kMost = 2048;  // of a pool; a step has a few hundred shapes
  using Question = std::array<double, 2 * kMostFeatures + 2>;
  struct Hash {
    std::size_t operator()(const Question& q) const { return XXH3_64bits(q.data(), sizeof(q)); }
  };
  using Known = std::unordered_map<Question, Neighbours::Answers, Hash>;
  std::mutex mutex_;
  std::unordered_map<const Neighbours*, Known> known_;
};

Neighbours::Answers told_at(const Neighbours& pool, const Features& place,
                            const std::optional<Neighbours::Sample>& own = std::nullopt) {
  static Memo memo;
  return memo.at(pool, place, own);
}

}  // namespace

const KernelPool* kernel_pool(const std::string& name) { return tables().find(name); }

const Device& measured_device() {
  static const Device kDevice = [] {
    const std::string_view stem = data_files_in("hardware/kernels").front().stem();
    const Result<Device> device = find_device(stem.substr(0, stem.find('.')));
    FORETRACE_CHECK(device.has_value());
    return *device;
  }();
  return kDevice;
}

const KernelPools& kernel_pools() { return tables().all(); }

std::vector<MeasuredRow> measured_rows() {
  std::vector<MeasuredRow> out;
  for (const DataFile& file : data_files_in("hardware/kernels")) {
    std::string_view stem = file.stem(), text = file.text;
    const std::string_view operation = stem.substr(stem.find('.') + 1);
    if (operation == "scales" || Tables::has_law(operation)) continue;
    read_cells(operation, " ", text, [&](const Cell& cell) { out.push_back({cell.work, cell.us}); });
  }
  return out;
}

std::string instead(std::string_view pool, std::string_view word, std::string_view other) {
  const std::size_t at = pool.find(word);
  if (at == std::string_view::npos) return {};
  return std::string(pool.substr(0, at)).append(other).append(pool.substr(at + word.size()));
}

std::string in_fp32(std::string_view pool) {
  for (const std::string_view type : {"tf32", "fp16", "bf16", "half"}) {
    if (std::string name = instead(pool, type, "fp32"); !name.empty()) return name;
  }
  return {};
}

std::string in_other_layout(std::string_view pool) {
  std::string name = instead(pool, " nhwc", " nchw");
  return name.empty() ? instead(pool, " nchw", " nhwc") : name;
}

ModelledTime measured_model(const Work& w, const Device& d) {
  const std::optional<MeasuredPlace> place = measured_place(w, d);
  if (!place) return {};
  const KernelPool* pool = kernel_pool(place->pool);
  if (pool == nullptr) return {};
  const Neighbours::Told told = told_at(pool->telling(place->tuned), place->at).told;
  const double sigma = pool->spread * std::sqrt(told.variance);
  if (std::holds_alternative<Gemm>(w.kind) && !same_silicon(pool->measured_on, d)) {
    // Their law has parameters of the architecture's own: what the table tells beyond it is carried as the transfer carries it,
    // and leaves what products leave on GPUs nobody measured.
    const TransferWeights& laws = TransferWeights::shipped();
    const ProductKind kind = fitted_kind(product_of(w, d));
    const ProductWeights& there = laws.of(kind, d);
    return {place->bound_us * std::exp(carried_miss(told.value, there, false)), std::max(sigma, there.spread_new)};
  }
  return {place->bound_us * std::exp(told.value + (place->tuned ? pool->tuned : 0)), sigma};
}

ModelledTime measured_model_beside(const Work& w, const Work& known, double known_us, const Device& d) {
  const std::optional<MeasuredPlace> place = measured_place(w, d);
  const std::optional<MeasuredPlace> before = measured_place(known, d);
  if (!place || !before || known_us <= 0) return {};
  const KernelPool* pool = kernel_pool(place->pool);
  const KernelPool* from = kernel_pool(before->pool);
  if (pool == nullptr || from == nullptr) return {};
  const double share = std::log(known_us / before->bound_us) - (before->tuned ? from->tuned : 0);
  const Neighbours::Told there = told_at(from->telling(before->tuned), before->at).told;
  const double tuned = place->tuned ? pool->tuned : 0;
  if (place->pool == before->pool) {
    // As one of the neighbours it counts less the further away it is; what made it differ from them may well stay. Between the
    // two lies the least error over measured pairs (docs/internals/accuracy.md). By means: a median leaps between the two places.
    const Neighbours::Answers answers =
        told_at(pool->telling(place->tuned), place->at, Neighbours::Sample{.at = before->at, .value = share});
    const double kept = answers.told.mean + share - there.mean;
    return {place->bound_us * std::exp(tuned + (kept + answers.with_own.mean) / 2),
            pool->spread * std::sqrt(answers.with_own.variance)};
  }
  const Neighbours::Told told = told_at(pool->telling(place->tuned), place->at).told;
  // What an operation on indices takes more is in their values, and they stay.
  const double carried = std::holds_alternative<Gather>(w.kind)         ? 1
                         : in_fp32(place->pool) == before->pool         ? pool->from_fp32
                         : in_other_layout(place->pool) == before->pool ? pool->from_layout
                                                                        : 0;
  return {place->bound_us * std::exp(tuned + told.value + carried * (share - there.value)),
          pool->spread * std::sqrt(told.variance * std::max(0.0, 1 - carried * carried))};
}

}  // namespace foretrace::hardware
