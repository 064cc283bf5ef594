// Averages recordings of one side, and adds up the work of both sides by phase, family, layer, operation and kernel.

#include "compare/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace foretrace::compare {
namespace {

std::vector<Row> rows_of(const std::map<std::string, Sums>& sums) {
  std::vector<Row> out;
  for (const auto& [name, s] : sums) {
    out.push_back({name, std::llround(s.before), std::llround(s.after), s.before_count, s.after_count, {}});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Row& a, const Row& b) { return std::abs(a.change()) > std::abs(b.change()); });
  return out;
}

template <class Items, class Name>
std::vector<Row> table(const Items& before, const Items& after, Name name) {
  return rows_of(sums_by(before, after, name));
}

// Adds `share` of the items of one recording.
template <class Items>
void add_items(Items& to, const Items& from, double share) {
  for (const auto& [key, item] : from) {
    const auto [at, added] = to.try_emplace(key, item);
    if (added) at->second.ns = at->second.count = 0;
    at->second.ns += share * item.ns;
    at->second.count += share * item.count;
  }
}

std::string or_phase(const std::string& name, graph::Phase phase) {
  return name.empty() ? fmt::format("({})", to_string(phase)) : name;
}

}  // namespace

Profile average(const std::vector<Profile>& recordings) {
  Profile out = recordings.front();
  if (recordings.size() == 1) return out;
  const double share = 1.0 / static_cast<double>(recordings.size());
  out.gpu.clear();
  out.cpu.clear();
  out.gpu_ns = out.cpu_ns = out.launches = 0;
  out.traced_ns.clear();
  double peak = 0;
  bool all_peaks = true;
  for (const Profile& one : recordings) {
    add_items(out.gpu, one.gpu, share);
    add_items(out.cpu, one.cpu, share);
    out.gpu_ns += share * one.gpu_ns;
    out.cpu_ns += share * one.cpu_ns;
    out.launches += share * one.launches;
    out.traced_ns.insert(out.traced_ns.end(), one.traced_ns.begin(), one.traced_ns.end());
    all_peaks = all_peaks && one.peak_bytes.has_value();
    if (one.peak_bytes) peak += share * static_cast<double>(*one.peak_bytes);
  }
  out.peak_bytes = all_peaks ? std::optional<std::int64_t>(std::llround(peak)) : std::nullopt;
  return out;
}

Tables tables_of(const Profile& before, const Profile& after) {
  Tables out;
  out.phases = table(before.gpu, after.gpu, [](const GpuItem& i) { return std::string(to_string(i.phase)); });
  out.cpu_phases = table(before.cpu, after.cpu, [](const CpuItem& i) { return std::string(to_string(i.phase)); });
  out.families = table(before.gpu, after.gpu, [](const GpuItem& i) { return std::string(to_string(i.family)); });
  out.layers = table(before.gpu, after.gpu, [](const GpuItem& i) { return or_phase(i.layer, i.phase); });
  out.operations = table(before.gpu, after.gpu, [](const GpuItem& i) { return or_phase(i.op, i.phase); });
  out.cpu_operations = table(before.cpu, after.cpu, [](const CpuItem& i) { return i.op; });
  out.kernels = table(before.gpu, after.gpu, [](const GpuItem& i) { return i.kernel; });
  std::map<std::string, std::set<std::string>> families;
  for (const auto* side : {&before.gpu, &after.gpu}) {
    for (const auto& [key, item] : *side) families[item.kernel].insert(std::string(to_string(item.family)));
  }
  for (Row& row : out.kernels) row.families.assign(families[row.name].begin(), families[row.name].end());
  return out;
}

double matched_share(const Profile& before, const Profile& after) {
  double matched = 0;
  for (const auto& [key, item] : before.gpu) {
    const auto at = after.gpu.find(key);
    if (at != after.gpu.end()) matched += item.ns + at->second.ns;
  }
  const double all = before.gpu_ns + after.gpu_ns;
  return all > 0 ? matched / all : 0;
}

}  // namespace foretrace::compare
