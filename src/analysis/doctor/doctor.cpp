#include "foretrace/analysis/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "analysis/doctor/checks.hpp"
#include "analysis/doctor/facts.hpp"
#include "base/readable.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/host/measured_step.hpp"
#include "ranks/operations.hpp"
#include "ranks/process_groups.hpp"
#include "trace/gpu.hpp"
#include "trace/machine.hpp"
#include "trace/name_tables.hpp"

namespace foretrace::analysis {
namespace {

using trace::kAbsent;
using trace::Trace;

struct VersionKey {
  std::string_view key, label;
  bool cuda_style;  // 13000 is 13.0
};
constexpr std::array<VersionKey, 9> kVersionKeys{{{"pytorch_version", "PyTorch", false},
                                                  {"torch_version", "PyTorch", false},
                                                  {"cuda_runtime_version", "CUDA runtime", true},
                                                  {"cuda_driver_version", "CUDA driver", true},
                                                  {"cupti_version", "CUPTI", false},
                                                  {"hip_runtime_version", "HIP runtime", false},
                                                  {"hip_driver_version", "HIP driver", false},
                                                  {"roctracer_version", "roctracer", false},
                                                  {"schemaVersion", "schema", false}}};
constexpr std::array<std::string_view, 5> kFlags{"record_shapes", "profile_memory", "with_stack", "with_flops",
                                                 "with_modules"};
// Known, harmless, and of no interest to the reader of a report.
constexpr std::array<std::string_view, 9> kPlainKeys{"displayTimeUnit", "baseTimeNanoseconds", "traceName",
                                                     "trace_id",        "deviceProperties",    "distributedInfo",
                                                     kGraphKey,         host::kRecorderKey,    trace::kAcceleratorKey};

/// The value if it looks like a version; anything else under a known key is not printed either.
std::string version_text(std::string_view raw) {
  if (raw.size() >= 2 && raw.front() == '"' && raw.back() == '"') raw = raw.substr(1, raw.size() - 2);
  const auto harmless = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '+' || c == '-';
  };
  if (raw.empty() || raw.size() > 32 || raw[0] < '0' || raw[0] > '9') return {};
  return std::all_of(raw.begin(), raw.end(), harmless) ? std::string(raw) : std::string();
}

std::string cuda_version(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1000) return text;
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

void read_metadata(DoctorReport& report, const Trace& trace) {
  for (const auto& [key, value] : trace.metadata) {
    const auto version =
        std::find_if(kVersionKeys.begin(), kVersionKeys.end(), [&k = key](const VersionKey& v) { return v.key == k; });
    if (version != kVersionKeys.end()) {
      const std::string text = version_text(value);
      if (!text.empty()) {
        report.versions.emplace_back(version->label, version->cuda_style ? cuda_version(text) : text);
      }
    } else if (std::find(kFlags.begin(), kFlags.end(), key) != kFlags.end()) {
      if (value == "1" || value == "true") report.profiler_flags.push_back(key);
    } else if (std::find(kPlainKeys.begin(), kPlainKeys.end(), key) == kPlainKeys.end()) {
      ++report.other_metadata;
    }
  }
  const auto rank = [](const std::pair<std::string, std::string>& v) {
    return std::find_if(kVersionKeys.begin(), kVersionKeys.end(),
                        [&](const VersionKey& k) { return k.label == v.first; });
  };
  std::stable_sort(report.versions.begin(), report.versions.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

void read_devices(DoctorReport& report, const Trace& trace, const Facts& facts) {
  std::uint64_t described = 0;
  for (const auto& [id, work] : facts.device_work) {
    DoctorReport::Device device;
    device.id = id;
    device.gpu_events = work;
    if (const trace::DeviceProperties* known = trace::properties_of(trace, id)) {
      device.name = known->name;
      if (known->total_memory_bytes != kAbsent) device.memory_bytes = known->total_memory_bytes;
      if (known->sm_count != kAbsent) device.sm_count = known->sm_count;
      if (known->compute_major != kAbsent && known->compute_minor != kAbsent) {
        device.compute_capability = fmt::format("{}.{}", known->compute_major, known->compute_minor);
      }
      ++described;
    }
    report.devices.push_back(std::move(device));
  }
  // Numbers may be of another order than the file's description: what counts is how many.
  report.idle_devices = trace.devices.size() > described ? trace.devices.size() - described : 0;
}

void count_kinds(DoctorReport& report, const Trace& trace, const Facts& facts) {
  for (std::size_t k = 0; k < facts.kinds.size(); ++k) {
    if (facts.kinds[k] == 0) continue;
    report.kinds.push_back({std::string(trace::to_string(static_cast<trace::EventKind>(k))), facts.kinds[k]});
  }
  std::vector<std::uint64_t> counts(trace.categories.size(), 0);
  for (std::size_t e = 0; e < trace.size(); ++e) ++counts[trace.events.category[e]];
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    // One spelling may stand for several kinds (flow tails and heads); people count spellings.
    const std::string name(trace.strings[trace.categories[c].name]);
    const auto at = std::find_if(report.categories.begin(), report.categories.end(),
                                 [&](const DoctorReport::Count& known) { return known.name == name; });
    if (at != report.categories.end()) {
      at->count += counts[c];
    } else {
      report.categories.push_back({name, counts[c]});
    }
  }
  for (std::vector<DoctorReport::Count>* list : {&report.kinds, &report.categories}) {
    std::stable_sort(list->begin(), list->end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  }
}

// Groups of which the trace shows an operation. A kernel without a description names none.
std::vector<DoctorReport::Group> groups_of(const Trace& trace) {
  std::set<DoctorReport::Group> seen;
  const std::int64_t rank = trace.distributed.rank == kAbsent ? 0 : trace.distributed.rank;
  for (const ranks::Operation& op : ranks::operations_of(trace, rank)) {
    seen.insert({op.description.empty() ? op.group : op.description, ranks::listed_ranks(op.members)});
  }
  return {seen.begin(), seen.end()};
}

}  // namespace

std::string_view to_string(Weight weight) {
  return weight == Weight::kBlocks ? "blocks" : weight == Weight::kCosts ? "costs" : "note";
}

const Finding* DoctorReport::find(std::string_view name) const {
  const auto at = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.name == name; });
  return at == findings.end() ? nullptr : &*at;
}

std::size_t DoctorReport::count(Weight weight) const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.weight == weight; }));
}

std::string DoctorReport::verdict() const {
  if (events == 0) return "The file holds no events.";
  if (count(Weight::kBlocks) > 0) return fmt::format("No predictions from this trace: {}.", findings.front().what);
  for (const std::string_view first : {"cold_step", "allocator"}) {
    if (const Finding* finding = find(first)) return fmt::format("Usable for predictions, but {}.", finding->what);
  }
  const std::size_t costs = count(Weight::kCosts);
  std::string out = costs == 0 ? "Good for predictions"
                               : fmt::format("Usable for predictions, but {} accuracy or answers",
                                             plural(costs, "gap costs", "gaps cost"));
  if (lost_records > 0) out += fmt::format("; {} could not be used", plural(lost_records, "record"));
  return out + ".";
}

DoctorReport examine(const Trace& trace, const trace::Steps& steps) {
  Facts facts = gather_facts(trace, steps);
  replay_median_step(facts);
  DoctorReport report;
  report.file = trace.path;
  report.format = trace.format;
  report.input_bytes = trace.input_bytes;
  report.events = trace.size();
  report.partial = trace.partial;
  report.span = facts.last > facts.first ? facts.last - facts.first : 0;
  count_kinds(report, trace, facts);
  report.cpu_threads = facts.cpu_threads;
  report.gpu_streams = facts.gpu_streams;
  report.other_lanes = facts.other_lanes;
  report.processes.assign(facts.processes.begin(), facts.processes.end());
  read_devices(report, trace, facts);
  report.groups = groups_of(trace);
  if (steps.source == trace::StepSource::kProfilerStep) {
    for (const trace::Step& step : steps.steps) report.numbered_steps.push_back(step.number);
    std::sort(report.numbered_steps.begin(), report.numbered_steps.end());
  }
  report.distributed = trace.distributed.present;
  if (trace.distributed.rank != kAbsent) report.rank = trace.distributed.rank;
  if (trace.distributed.world_size != kAbsent) report.world_size = trace.distributed.world_size;
  report.backend = trace.distributed.backend;
  report.nccl_version = trace.distributed.nccl_version;
  read_metadata(report, trace);
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    const trace::Step& step = steps.steps[i];
    report.steps.push_back(
        {step.name, step.number, step.duration(), step.waited, i < facts.cold.size() && facts.cold[i]});
  }
  report.recorder = recorder_fields(trace);
  report.step_source = trace::describe(steps.source);
  report.steps_marked_by = steps.marked_by;
  if (!facts.from_export) {
    report.step_candidates = trace::step_candidates(trace);
    // What they were found by is no alternative to it.
    const std::string used = steps.steps.empty() ? "" : trace::without_numbers(steps.steps.front().name);
    std::erase_if(report.step_candidates, [&](const auto& c) { return used.starts_with(c.name); });
  }
  report.replay = facts.replay;
  if (facts.replay) report.step_kind = to_string(facts.nature.kind);
  report.added_whatifs = check_added_whatifs(trace);
  report.findings = check_all(facts);
  report.problems = trace.diagnostics.problems();
  report.lost_records = trace.diagnostics.lost_records();
  return report;
}

}  // namespace foretrace::analysis
