#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/csv.hpp"
#include "base/text.hpp"
#include "foretrace/base/result.hpp"
#include "hardware/kernel_features.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

namespace {

constexpr std::string_view kFolder = "hardware/kernels";
constexpr std::string_view kScalesOf = "scales", kCorrelationsOf = "correlations";

bool holds_kernels(std::string_view operation) { return operation != kScalesOf && operation != kCorrelationsOf; }

template <class Number>
Number number(std::string_view text) {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The operation whose categories a table belongs to: log_softmax's kernels are softmax's.
std::string_view categories_of(std::string_view operation) {
  return operation == "log_softmax" ? "softmax" : operation;
}

// The largest tables are read by element type: the law of products takes microseconds a row.
constexpr std::array<std::string_view, 4> kTypes = {" fp32", " tf32", " fp16", " bf16"};
bool by_type(std::string_view operation) { return operation == "gemm" || operation == "conv" || operation == "rnn"; }

// What is read at once: "softmax" of "softmax fwd half", "conv fp16" of "conv fwd dense fp16 nchw".
std::string part_of(std::string_view category) {
  std::string part(category.substr(0, category.find(' ')));
  if (!by_type(part)) return part;
  const auto* const type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](std::string_view t) { return contains(category, t); });
  return type == kTypes.end() ? part : part.append(*type);
}

/// One time of a table.
struct Cell {
  std::uint32_t column = 0;
  std::string_view name;  ///< of the column
  const MeasuredSizes& sizes;
  double us = 0;
  std::uint32_t group = 0, shape = 0;
  bool misguessed = false;
};

// Columns of sizes (one word) and of times (three words), a row per shape; what was not measured is empty. A time with ? behind it is
// that of a bad guess of the library's (tools/fit_kernels.py).
template <class Use>
void read_cells(const DataFile& file, std::string_view type, Use&& use) {
  const std::string_view operation = KernelTables::operation_of(file);
  std::map<std::string, std::uint32_t> groups;
  std::uint32_t shape = 0;
  for (CsvReader row(file.text); row.next();) {
    ++shape;
    MeasuredSizes sizes;
    std::string group;
    std::optional<std::uint32_t> group_id;
    for (std::uint32_t i = 0; i < std::min(row.columns().size(), row.cells().size()); ++i) {
      const std::string_view name = row.columns()[i], cell = row.cells()[i];
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
      use(Cell{i, name, sizes, us, *group_id, shape, cell.ends_with('?')});
    }
  }
}

}  // namespace

class KernelTables::Memo {
 public:
  // The lock is held to look and to note, not while neighbours are asked: two threads that ask the same get the same answer.
  Neighbours::Answers at(const Neighbours& samples, const Features& at, const Neighbours::SampleFilter& filter,
                         const std::optional<Neighbours::Sample>& own) {
    Question asked{};
    std::copy(at.begin(), at.end(), asked.begin());
    if (own) {
      std::copy(own->at.begin(), own->at.end(), asked.begin() + kMostFeatures);
      asked[2 * kMostFeatures] = own->value;
    }
    asked[2 * kMostFeatures + 1] = own ? 1 : 0;
    asked.back() = filter.misguessed ? 1 : 0;
    {
      const std::lock_guard lock(mutex_);
      const Known& known = known_[&samples];
      if (const auto it = known.find(asked); it != known.end()) return it->second;
    }
    const Neighbours::Answers answers = samples.with_own(at, own, filter);
    const std::lock_guard lock(mutex_);
    Known& known = known_[&samples];
    constexpr std::size_t kLargest = 2048;  // by definition of a guard: a step has a few hundred shapes
    if (known.size() >= kLargest) known.clear();
    known.emplace(asked, answers);
    return answers;
  }

 private:
  using Question = std::array<double, 2 * kMostFeatures + 3>;
  struct Hash {
    std::size_t operator()(const Question& q) const { return XXH3_64bits(q.data(), sizeof(q)); }
  };
  using Known = std::unordered_map<Question, Neighbours::Answers, Hash>;
  std::mutex mutex_;
  std::unordered_map<const Neighbours*, Known> known_;
};

KernelTables::KernelTables(const DataFiles& files, const Tables& tables)
    : files_(files), tables_(tables), memo_(std::make_shared<Memo>()) {}

std::string_view KernelTables::operation_of(const DataFile& file) {
  return file.stem().substr(file.stem().find('.') + 1);
}

KernelTables::DeviceKernels& KernelTables::of(const std::string& device) {
  const std::lock_guard lock(mutex_);
  const auto [it, added] = devices_.try_emplace(device);
  if (added) {
    it->second.device = tables_.device(device);
    it->second.scalings = read_scalings(files_.measured(kFolder, device, kScalesOf).text);
    it->second.correlations = CategoryCorrelations(files_.measured(kFolder, device, kCorrelationsOf).text);
  }
  return it->second;
}

KernelTables::Scalings KernelTables::read_scalings(std::string_view csv) {
  Scalings all;
  CsvReader row(csv, {"category", "samples", "spread", "autotuning", "noise", "kernel", "middle", "scales"});
  while (row.next()) {
    Scaling& one = all[std::string(row["category"])];
    one.spread = row.number("spread").value_or(0);
    one.autotuning = row.number("autotuning").value_or(0);
    one.scales.noise = row.number("noise").value_or(0);
    one.scales.smooth = row["kernel"] == "smooth";
    one.scales.middle = row.number("middle").value_or(0);
    const std::vector<std::string_view> scales = split(row["scales"], ' ');
    for (std::size_t f = 0; f < std::min(kMostFeatures, scales.size()); ++f) {
      one.scales.scales[f] = number<double>(scales[f]);
    }
  }
  return all;
}

const MeasuredCategory* KernelTables::find(const std::string& category, const std::string& device) {
  DeviceKernels& on = of(device);
  if (const MeasuredCategory* const known = found(on, category)) return known;
  read_once(on, part_of(category));
  return found(on, category);
}

const MeasuredCategory* KernelTables::found(const DeviceKernels& on, const std::string& category) {
  const std::lock_guard lock(mutex_);
  const auto it = on.categories.find(category);
  return it == on.categories.end() ? nullptr : &it->second;
}

double KernelTables::correlation(std::string_view category, std::string_view other, const std::string& device) {
  return of(device).correlations.of(category, other);
}

const MeasuredCategories& KernelTables::all(const std::string& device) {
  DeviceKernels& on = of(device);
  for (const DataFile& file : files_.in(kFolder)) {
    const std::string operation(categories_of(operation_of(file)));
    if (file.device() != device || !holds_kernels(operation)) continue;
    if (!by_type(operation)) read_once(on, operation);
    for (const std::string_view type : kTypes) {
      if (by_type(operation)) read_once(on, operation + std::string(type));
    }
  }
  return on.categories;
}

std::vector<MeasuredRow> KernelTables::rows(const std::string& device) const {
  std::vector<MeasuredRow> out;
  for (const DataFile& file : files_.in(kFolder)) {
    if (file.device() != device || !holds_kernels(operation_of(file))) continue;
    read_cells(file, " ", [&](const Cell& cell) {
      out.push_back({operation_of(file), measured_work(operation_of(file), cell.sizes, cell.name), cell.us});
    });
  }
  return out;
}

void KernelTables::read_once(DeviceKernels& on, const std::string& part) {
  std::once_flag* read_before = nullptr;
  {
    const std::lock_guard lock(mutex_);
    read_before = &on.read[part];
  }
  std::call_once(*read_before, [&] { read(on, part); });
}

void KernelTables::read(DeviceKernels& on, std::string_view part) {
  const std::string_view operation = part.substr(0, part.find(' '));
  MeasuredCategories found;
  for (const DataFile& file : files_.in(kFolder)) {
    if (file.device() != on.device.name || categories_of(operation_of(file)) != operation) continue;
    read_table(file, part.substr(operation.size()), on, found);
  }
  for (auto& [name, category] : found) {
    const auto it = on.scalings.find(name);
    if (it == on.scalings.end()) continue;
    category.samples.rescale(it->second.scales);
    category.spread = it->second.spread;
    category.autotuning = it->second.autotuning;
  }
  for (auto& [name, category] : found) category.samples.complete();
  const std::lock_guard lock(mutex_);
  on.categories.merge(found);
}

void KernelTables::read_table(const DataFile& file, std::string_view type, const DeviceKernels& on,
                              MeasuredCategories& out) const {
  // The cells of a column mostly belong to the category of the cell above.
  struct ColumnOfTimes {
    std::string name;  ///< of the category
    MeasuredCategory* category = nullptr;
    double autotuning = 0;
  };
  std::map<std::size_t, ColumnOfTimes> columns;
  // Tables that were not read yet.
  struct TableRows {
    std::string_view operation;
    Device device;
    std::map<std::uint32_t, std::string> columns;
    std::map<std::uint32_t, MeasuredSizes> sizes;  // by shape
  };
  const auto rows = std::make_shared<TableRows>();
  rows->operation = operation_of(file);
  rows->device = on.device;
  const std::string_view operation = categories_of(rows->operation);
  const Clocks& clocks = tables_.of(on.device).clocks;
  read_cells(file, type, [&](const Cell& cell) {
    const Work work = measured_work(rows->operation, cell.sizes, cell.name);
    const std::optional<KernelFeatures> features = features_without_law(work, on.device, tables_, clocks);
    if (!features || !features->category.starts_with(operation)) return;
    ColumnOfTimes& of = columns[cell.column];
    if (of.category == nullptr || of.name != features->category) {
      const auto scaling = on.scalings.find(features->category);
      of = {features->category, &out[features->category],
            scaling != on.scalings.end() ? scaling->second.autotuning : 0};
      of.category->features = features->features;
      of.category->measured_on = on.device;
      of.category->samples.value_later([this, rows, tuned = of.autotuning](const Neighbours::Sample& s) {
        const Work asked = measured_work(rows->operation, rows->sizes.at(s.shape), rows->columns.at(s.column));
        const std::optional<KernelFeatures> known = kernel_features(asked, rows->device, tables_);
        FORETRACE_CHECK(known.has_value());  // a test asks for all of them
        return std::log(s.us / known->law_us) - (known->autotuned ? tuned : 0);
      });
    }
    const bool later = !(features->law_us > 0);
    if (later) {
      rows->columns.try_emplace(cell.column, cell.name);
      rows->sizes.try_emplace(rows->sizes.end(), cell.shape, cell.sizes);
    }
    const double value = later ? Neighbours::kLater : std::log(cell.us / features->law_us);
    const Choice choice = features->autotuned ? Choice::kAutotuned
                          : cell.misguessed   ? Choice::kMisguessed
                                              : Choice::kGuessed;
    of.category->samples.add({features->at, value, cell.group, cell.shape, cell.column, cell.us, choice});
  });
}

Neighbours::Answers KernelTables::answers(const Neighbours& samples, const Features& at,
                                          const Neighbours::SampleFilter& filter,
                                          const std::optional<Neighbours::Sample>& own) {
  return memo_->at(samples, at, filter, own);
}

}  // namespace foretrace::hardware
