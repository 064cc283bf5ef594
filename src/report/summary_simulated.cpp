// What the simulation says about a step, as text and JSON.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/readable.hpp"
#include "base/statistics.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_writer.hpp"
#include "report/prediction_parts.hpp"
#include "report/summary_parts.hpp"
#include "report/text_table.hpp"
#include "report/verdict.hpp"

namespace foretrace::report {

using analysis::SimulatedParts;
using analysis::SimulatedStep;

namespace {

struct Part {
  std::string_view name, key;
  Ns time;
};

std::vector<Part> parts(const simulate::Breakdown& b) {
  return {{"CPU only", "cpu_only", b.cpu_only},
          {"GPU only", "gpu_only", b.gpu_only},
          {"CPU and GPU", "both", b.both},
          {"exposed communication", "exposed_communication", b.exposed_communication},
          {"nothing runs", "idle", b.idle}};
}

std::vector<Part> path_parts(const simulate::Breakdown& b) {
  return {{"CPU", "cpu", b.path_cpu},
          {"GPU", "gpu", b.path_gpu},
          {"communication", "communication", b.path_communication},
          {"latencies and gaps", "waits", b.path_waits}};
}

// What a task of the GPU waited for, in words: "the CPU's launch".
std::string_view describe(graph::DependencyKind cause) {
  constexpr std::array<std::string_view, graph::kDependencyKinds> kWords = {
      "nothing (before the first task or after the last)",
      "the gap between two tasks of a stream",
      "the CPU's launch",
      "room in the launch queue",
      "a synchronisation",
      "work of another stream",
      "room on the GPU",
      "work of the same CUDA graph",
      "another thread",
      "work from before the step",
      "another rank"};
  return kWords[static_cast<std::size_t>(cause)];
}

std::vector<double> shares(const std::vector<Part>& list, Ns whole) {
  std::vector<Ns> times;
  for (const Part& part : list) times.push_back(part.time);
  return percentages(times, whole);
}

void add_rows(TextTable& table, const std::vector<Part>& list, Ns whole) {
  const std::vector<double> pct = shares(list, whole);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].time == 0) continue;
    table.row({fmt::format("  {}", list[i].name), format_ms(list[i].time), fmt::format("{:.1f}%", pct[i]),
               fmt::format("{}", pct[i] / 100)});
  }
}

std::string join(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, "; ")); }

std::string breakdown_text(const SimulatedParts& s, const TextStyle& style) {
  const simulate::Breakdown& b = s.breakdown;
  TextTable table({{"Breakdown", Align::kLeft}, {"ms"}, {"share"}, {"", Align::kBar}}, 0);
  add_rows(table, parts(b), b.step);
  std::string out = "\n" + table.render(style);
  std::vector<std::pair<Ns, std::size_t>> causes;
  for (std::size_t k = 0; k < graph::kDependencyKinds; ++k) {
    if (b.gpu_idle_by_cause[k] > 0) causes.emplace_back(-b.gpu_idle_by_cause[k], k);
  }
  std::sort(causes.begin(), causes.end());
  std::vector<std::string> words;
  for (const auto& [minus, k] : causes) {
    words.push_back(fmt::format("{} {}", describe(static_cast<graph::DependencyKind>(k)), format_ms(-minus)));
  }
  if (!words.empty()) {
    const std::string text =
        fmt::format("The GPU is idle for {} ms, waiting for: {}.", format_ms(b.step - b.gpu_busy), join(words));
    out += "  " + wrap(text, style.width, 2, 2) + "\n";
  }
  std::string bounds =
      fmt::format("With an infinitely fast GPU the step takes {} ms, with an infinitely fast CPU {} ms",
                  format_ms(s.bounds.no_gpu), format_ms(s.bounds.no_cpu));
  if (b.communication > 0)
    bounds += fmt::format(", with an infinitely fast network {} ms", format_ms(s.bounds.no_network));
  return out + "  " + wrap(bounds + ".", style.width, 2, 2) + "\n";
}

std::string path_text(const SimulatedParts& s, const TextStyle& style) {
  TextTable where({{fmt::format("Critical path ({})", plural(s.path_length, "task")), Align::kLeft},
                   {"ms"},
                   {"share"},
                   {"", Align::kBar}},
                  0);
  add_rows(where, path_parts(s.breakdown), s.breakdown.step);
  std::string out = "\n" + where.render(style);
  TextTable layers({{"Layers on it", Align::kLeft, true}, {"ms"}, {"share"}, {"tasks"}}, 0);
  for (std::size_t i = 0; i < std::min(style.top, s.path_layers.size()); ++i) {
    const SimulatedStep::PathLayer& row = s.path_layers[i];
    layers.row({"  " + row.name, format_ms(row.time),
                format_percent(static_cast<double>(row.time) / static_cast<double>(std::max<Ns>(1, s.breakdown.step))),
                format_count(row.tasks)});
  }
  TextTable tasks({{"Longest tasks on it", Align::kLeft, true},
                   {.header = "kind", .align = Align::kLeft, .drop = 1},
                   {"layer", Align::kLeft, true},
                   {"ms"}},
                  0);
  for (std::size_t i = 0; i < std::min(style.top, s.path_tasks.size()); ++i) {
    const SimulatedStep::PathTask& row = s.path_tasks[i];
    const bool on_cpu = row.kind == "cpu" || row.kind == "call";  // ranges have names of their own making
    const std::string name = row.name.empty() ? "(no operation follows)"
                             : on_cpu         ? printable(row.name)
                                              : short_kernel_name(row.name);
    tasks.row({"  " + name, row.kind, row.layer, format_ms(row.time)});
  }
  return out + "\n" + layers.render(style) + "\n" + tasks.render(style);
}

void write_parts(JsonWriter& json, std::string_view key, const std::vector<Part>& list, Ns whole) {
  const std::vector<double> pct = shares(list, whole);
  json.key(key).begin_object();
  for (std::size_t i = 0; i < list.size(); ++i) {
    json.member(fmt::format("{}_ms", list[i].key), to_ms(list[i].time));
    json.member(fmt::format("{}_pct", list[i].key), pct[i]);
  }
  json.end_object();
}

}  // namespace

std::string profiler_line(const analysis::SummaryReport& report) {
  const SimulatedStep& s = *report.simulated;
  const std::string off = s.period ? fmt::format("{:+.2f}% off the period of {} ms", percent_off(s.replayed, *s.period),
                                                 format_ms(*s.period))
                          : s.startup > 0 ? std::string("without the start-up work")
                          : s.outlasts    ? std::string("until the GPU is done, which the range does not wait for")
                                          : fmt::format("{:+.2f}%", s.error_pct);
  std::string line = with_profiler(s.verdict, format_ms(report.step_duration()), false);
  if (report.gpu_busy > 0 && report.step_duration() > 0) {
    line += fmt::format(", GPU busy {}", format_percent(static_cast<double>(report.gpu_busy) /
                                                        static_cast<double>(report.step_duration())));
  }
  return line + fmt::format("; replayed {} ms ({})", format_ms(s.replayed), off);
}

std::string simulated_text(const analysis::SummaryReport& report, const TextStyle& style) {
  if (!report.simulated) {
    return "\n" + wrap(fmt::format("No simulation: {}.", printable(report.no_graph)), style.width, 2, 0) + "\n";
  }
  const SimulatedStep& s = *report.simulated;
  std::string out = s.steadiness.empty() ? std::string() : wrap(s.steadiness, style.width, 2, 0) + "\n";
  if (!s.measured_refused.empty()) out += wrap(printable(s.measured_refused), style.width, 2, 0) + "\n";
  return out + breakdown_text(s.without_profiler, style) + path_text(s.without_profiler, style);
}

void write_simulated(JsonWriter& json, const analysis::SummaryReport& report) {
  json.member_or_null("no_graph", report.no_graph);
  if (!report.simulated) return;
  const SimulatedStep& s = *report.simulated;
  json.member_ms("replayed_ms", s.replayed).member("error_pct", s.error_pct);
  json.member_ms("unprofiled_ms", s.unprofiled.step).member_ms("unprofiled_low_ms", s.unprofiled.low);
  json.member_ms("unprofiled_high_ms", s.unprofiled.high).member("unprofiled_origin", s.unprofiled.origin);
  json.member_ms("measured_ms", s.measured);
  write_refused(json, s.measured_refused);
  if (s.startup > 0) json.member_ms("startup_ms", s.startup);
  write_steadiness(json, s.steadiness);
  write_verdict(json, s.verdict);
  write_parts(json, "breakdown", parts(s.breakdown), s.breakdown.step);
  json.key("gpu_idle_by_cause_ms").begin_object();
  for (std::size_t k = 0; k < graph::kDependencyKinds; ++k) {
    if (s.breakdown.gpu_idle_by_cause[k] == 0) continue;
    json.member(to_string(static_cast<graph::DependencyKind>(k)), to_ms(s.breakdown.gpu_idle_by_cause[k]));
  }
  json.end_object().key("lower_bounds").begin_object().member_ms("no_gpu_ms", s.bounds.no_gpu);
  json.member_ms("no_network_ms", s.bounds.no_network).member_ms("no_cpu_ms", s.bounds.no_cpu).end_object();
  json.member("critical_path_tasks", s.path_length);
  write_parts(json, "critical_path", path_parts(s.breakdown), s.breakdown.step);
  const simulate::Breakdown& clean = s.without_profiler.breakdown;
  write_parts(json, "unprofiled_breakdown", parts(clean), clean.step);
  write_parts(json, "unprofiled_critical_path", path_parts(clean), clean.step);
  json.objects("critical_path_reasons", s.reasons, [&](const SimulatedStep::Reason& row) {
    json.member("reason", row.name).member("count", row.count).member_ms("wait_ms", row.wait);
  });
  json.objects("critical_path_layers", s.path_layers, [&](const SimulatedStep::PathLayer& row) {
    json.member("layer", row.name).member_ms("ms", row.time).member("tasks", row.tasks);
  });
  json.objects("critical_path_longest", s.path_tasks, [&](const SimulatedStep::PathTask& row) {
    json.member("task", row.task).member("name", row.name).member("kind", row.kind);
    json.member("lane", row.lane).member("layer", row.layer).member("phase", row.phase);
    json.member_ms("ms", row.time);
  });
}

}  // namespace foretrace::report
