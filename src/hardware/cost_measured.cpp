// The tables of measured operations (kernels/*.csv), and the model that asks them.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "foretrace/base/result.hpp"
#include "hardware/measured.hpp"

namespace foretrace::hardware {

std::span<const std::pair<std::string_view, std::string_view>> kernel_files();  // generated from kernels/*.csv

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

struct Scales {
  FittedScales fitted;
  double spread = 0.3;
};

// "pool,samples,spread,noise,scales": one line per pool, as tools/fit_kernels.py writes them.
const std::map<std::string, Scales, std::less<>>& scales() {
  static const std::map<std::string, Scales, std::less<>> kScales = [] {
    std::map<std::string, Scales, std::less<>> all;
    for (auto [stem, text] : kernel_files()) {
      if (!stem.ends_with(".scales")) continue;
      while (!text.empty()) {
        std::string_view line = next(text, '\n');
        if (line.empty() || line.front() == '#') continue;
        Scales& s = all[std::string(next(line, ','))];
        next(line, ',');
        s.spread = number<double>(next(line, ','));
        s.fitted.noise = number<double>(next(line, ','));
        for (std::size_t f = 0; f < kMostFeatures && !line.empty(); ++f) {
          s.fitted.scales[f] = number<double>(next(line, ' '));
        }
      }
    }
    return all;
  }();
  return kScales;
}

using Pools = std::map<std::string, KernelPool, std::less<>>;

// A header of sizes (one word) and columns of times (three words), and a line per shape; what was not measured is empty.
void read_table(std::string_view operation, std::string_view text, const Device& device, Pools& pools) {
  std::vector<std::string_view> header;
  std::map<std::string, std::uint32_t> groups;
  while (!text.empty()) {
    std::string_view line = next(text, '\n');
    if (line.empty() || line.front() == '#') continue;
    if (header.empty()) {
      while (!line.empty()) header.push_back(next(line, ','));
      continue;
    }
    MeasuredSizes sizes;
    std::string group;
    for (const std::string_view name : header) {
      const std::string_view cell = next(line, ',');
      if (name.find(' ') == std::string_view::npos) {
        sizes.all.emplace_back(name, number<std::int64_t>(cell));
        // The first size is the batch: shapes that differ in it alone say nearly the same.
        if (sizes.all.size() > 1 || operation != "conv") group.append(cell).push_back(',');
        continue;
      }
      const double us = number<double>(cell);
      if (us <= 0) continue;
      const std::optional<MeasuredPlace> place = measured_place(measured_work(operation, sizes, name), device);
      if (!place) continue;
      const auto id = static_cast<std::uint32_t>(groups.size());
      KernelPool& pool = pools[place->pool];
      pool.features = place->features;
      pool.neighbours.add(place->at, std::log(us / place->bound_us), groups.try_emplace(group, id).first->second);
    }
  }
}

// One operation's pools are read when the first of them is asked for.
class Tables {
 public:
  const KernelPool* find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const std::string_view operation = std::string_view(name).substr(0, name.find(' '));
    if (!read_.contains(operation)) read(operation);
    const auto it = pools_.find(name);
    return it == pools_.end() ? nullptr : &it->second;
  }
  const Pools& all() {
    const std::lock_guard lock(mutex_);
    for (const auto& [stem, text] : kernel_files()) {
      const std::string_view operation = operation_of(stem);
      if (!read_.contains(operation)) read(operation);
    }
    return pools_;
  }

 private:
  // "H200-SXM.softmax"; log_softmax's kernels are the same.
  static std::string_view operation_of(std::string_view stem) {
    const std::string_view name = stem.substr(stem.find('.') + 1);
    return name == "log_softmax" ? "softmax" : name;
  }
  void read(std::string_view operation) {
    read_.emplace(operation);
    Pools fresh;
    for (const auto& [stem, text] : kernel_files()) {
      if (operation_of(stem) != operation || stem.ends_with(".scales")) continue;
      const Result<Device> device = find_device(stem.substr(0, stem.find('.')));
      FORETRACE_CHECK(device.has_value());  // a table is named after the device it was measured on
      read_table(stem.substr(stem.find('.') + 1), text, *device, fresh);
    }
    for (auto& [name, pool] : fresh) {
      if (const auto it = scales().find(name); it != scales().end()) {
        pool.neighbours.rescale(it->second.fitted.scales, it->second.fitted.noise);
        pool.spread = it->second.spread;
      }
      pools_.insert_or_assign(name, std::move(pool));
    }
  }

  std::mutex mutex_;
  std::set<std::string, std::less<>> read_;
  Pools pools_;  // a map: pools stay where they are while others are read
};

Tables& tables() {
  static Tables all;
  return all;
}

// Pools that are fitted together: layouts, and bf16 as fp16.
std::string fitted_with(std::string_view pool) {
  std::string name(pool);
  for (const std::string_view layout : {" nhwc", " nchw", " nn", " nt", " tn"}) {
    if (name.ends_with(layout)) name.resize(name.size() - layout.size());
  }
  if (const std::size_t at = name.find("bf16"); at != std::string::npos) name.replace(at, 4, "fp16");
  return name;
}

}  // namespace

const KernelPool* kernel_pool(const std::string& name) { return tables().find(name); }

ModelledTime measured_model(const Work& w, const Device& d) {
  const std::optional<MeasuredPlace> place = measured_place(w, d);
  if (!place) return {};
  const KernelPool* pool = kernel_pool(place->pool);
  if (pool == nullptr) return {};
  const Neighbours::Told told = pool->neighbours.at(place->at);
  return {place->bound_us * std::exp(told.value), pool->spread * std::sqrt(told.variance)};
}

ModelledTime measured_model_beside(const Work& w, const Device& d, const Work& known, double known_us,
                                   const Device& known_on) {
  const std::optional<MeasuredPlace> place = measured_place(w, d);
  const std::optional<MeasuredPlace> before = measured_place(known, known_on);
  if (!place || !before || place->pool != before->pool || known_us <= 0) return {};
  const KernelPool* pool = kernel_pool(place->pool);
  if (pool == nullptr) return {};
  const Neighbours::Sample own{before->at, std::log(known_us / before->bound_us), 0};
  const Neighbours::Told told = pool->neighbours.at(place->at, Neighbours::kNoGroup, own);
  return {place->bound_us * std::exp(told.value), pool->spread * std::sqrt(told.variance)};
}

std::vector<MeasuredPool> measured_pools() {
  std::vector<MeasuredPool> out;
  for (const auto& [name, pool] : tables().all()) {
    MeasuredPool p{.name = name, .samples = pool.neighbours.size(), .errors = {}};
    for (const Neighbours::Sample& s : pool.neighbours.samples()) {
      p.errors.push_back(pool.neighbours.at(s.at, s.group).value - s.value);
    }
    out.push_back(std::move(p));
  }
  return out;
}

std::vector<PoolScales> fit_pools(std::string_view only) {
  std::map<std::string, FittedScales> fitted;
  std::vector<PoolScales> out;
  for (const auto& [name, pool] : tables().all()) {
    if (!only.empty() && !name.starts_with(only)) continue;
    const std::string together = fitted_with(name);
    auto it = fitted.find(together);
    if (it == fitted.end()) {
      std::vector<Neighbours> pools;
      for (const auto& [other, its] : tables().all()) {
        if (fitted_with(other) == together && other.find("bf16") == std::string::npos) pools.push_back(its.neighbours);
      }
      it = fitted.emplace(together, fit_scales(std::move(pools), pool.features)).first;
    }
    // How far the error is from what the distance to the neighbours alone would say.
    Neighbours told = pool.neighbours;
    told.rescale(it->second.scales, it->second.noise);
    std::vector<double> relative;
    for (const Neighbours::Sample& s : told.samples()) {
      const Neighbours::Told t = told.at(s.at, s.group);
      relative.push_back(std::abs(t.value - s.value) / std::sqrt(t.variance));
    }
    // Two of three errors lie within one standard deviation.
    const auto two_thirds = relative.begin() + static_cast<std::ptrdiff_t>(relative.size() * 683 / 1000);
    std::nth_element(relative.begin(), two_thirds, relative.end());
    out.push_back({name, pool.neighbours.size(), *two_thirds, it->second, pool.features});
  }
  return out;
}

}  // namespace foretrace::hardware
