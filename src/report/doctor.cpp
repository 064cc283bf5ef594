#include "foretrace/analysis/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/readable.hpp"
#include "base/statistics.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"
#include "report/notes.hpp"
#include "report/recorder_text.hpp"
#include "report/verdict.hpp"

namespace foretrace::report {

using analysis::DoctorReport;

namespace {

constexpr std::size_t kLabelWidth = 12;

std::string joined(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ", ")); }

/// The first few of many, and an ellipsis where there are more.
std::string first_of(std::vector<std::string> texts, const TextStyle& style) {
  constexpr std::size_t kShown = 5;
  const bool more = texts.size() > kShown;
  if (more) texts.resize(kShown);
  if (more) texts.emplace_back(style.utf8 ? "…" : "...");
  return joined(texts);
}

/// "  label       text", wrapped under the text.
std::string entry(std::string_view label, std::string_view text, const TextStyle& style) {
  const std::size_t indent = 2 + kLabelWidth;
  return fmt::format("  {:<{}}", label, kLabelWidth) + wrap(printable(text), style.width, indent, indent) + "\n";
}

std::string devices_text(const DoctorReport& report) {
  std::string out;
  for (const DoctorReport::Device& device : report.devices) {
    out += out.empty() ? "" : "; ";
    out += fmt::format("GPU {}: {}", device.id, device.name.empty() ? "model unknown" : device.name);
    if (device.memory_bytes && *device.memory_bytes > 0) {
      out += ", " + format_memory(static_cast<std::uint64_t>(*device.memory_bytes));
    }
    if (device.sm_count) out += fmt::format(", {} SMs", *device.sm_count);
    if (!device.compute_capability.empty()) out += fmt::format(", compute {}", device.compute_capability);
  }
  if (out.empty()) {
    return report.idle_devices == 0
               ? "no GPU worked"
               : fmt::format("no GPU worked; the file describes {}", format_count(report.idle_devices));
  }
  if (report.idle_devices > 0)
    out += fmt::format(" ({} more described, without work)", format_count(report.idle_devices));
  return out;
}

std::string rank_text(const DoctorReport& report) {
  if (!report.distributed) return "single process (no distributedInfo)";
  std::string out = report.rank ? fmt::format("rank {}", *report.rank) : "rank unknown";
  if (report.world_size) out += fmt::format(" of {}", *report.world_size);
  if (!report.backend.empty()) out += ", " + report.backend;
  if (!report.nccl_version.empty()) out += " " + report.nccl_version;
  return out;
}

std::string steps_text(const DoctorReport& report, const TextStyle& style) {
  if (report.steps.empty()) return "none: no event has a duration";
  std::string source = report.step_source;
  if (!report.steps_marked_by.empty()) source += fmt::format(": {}", report.steps_marked_by);
  std::vector<std::string> steps;
  for (const DoctorReport::StepRow& step : report.steps)
    steps.push_back(fmt::format("{} {} ms{}", step.name, format_ms(step.duration), step.cold ? " (cold)" : ""));
  return fmt::format("{} ({}): {}", format_count(report.steps.size()), source, first_of(std::move(steps), style));
}

// Ranges that could mark steps instead, where nothing names them for certain.
std::string candidates_text(const DoctorReport& report, const TextStyle& style) {
  std::vector<std::string> out;
  for (const trace::StepCandidate& c : report.step_candidates) {
    out.push_back(fmt::format("{} ({} of {} ms, {} of the GPU's time)",
                              shorten_middle(printable(c.name), 40, style.utf8), format_count(c.count),
                              format_ms(c.median), format_percent(c.gpu_share)));
  }
  return first_of(std::move(out), style);
}

// Of a cold step only a simulation is left: there is no measured time to compare it with.
std::string cold_replay_text(const DoctorReport& report) {
  const DoctorReport::Replay& replay = *report.replay;
  std::string recorded;
  for (const DoctorReport::StepRow& step : report.steps) {
    if (step.name == replay.step) recorded = fmt::format("{} ms recorded, ", format_ms(step.duration));
  }
  return fmt::format("{}: {}{} ms of them start-up work that is taken out; {} ms simulated without it", replay.step,
                     recorded, format_ms(replay.notes.startup.time()), format_ms(replay.replayed));
}

std::string replay_text(const DoctorReport& report) {
  const DoctorReport::Replay& replay = *report.replay;
  const std::string size =
      fmt::format("; {}, {}", plural(replay.tasks, "task"), plural(replay.dependencies, "dependency", "dependencies"));
  if (replay.notes.startup.time() > 0) return cold_replay_text(report) + size;
  // The range of a step whose GPU runs behind says how fast the CPU filled the queue: nothing to compare with.
  const std::string off = replay.period
                              ? fmt::format("{:+.2f}% off its period of {} ms",
                                            percent_off(replay.replayed, *replay.period), format_ms(*replay.period))
                          : replay.outlasts ? fmt::format("its range on the CPU is {} ms", format_ms(replay.traced))
                                            : fmt::format("{:+.2f}% off the trace", replay.error_pct);
  return fmt::format("{}: {} ms simulated unchanged, {}", replay.step, format_ms(replay.replayed), off) + size;
}

std::string counts_text(const std::vector<DoctorReport::Count>& counts) {
  std::vector<std::string> out;
  for (const DoctorReport::Count& count : counts) {
    out.push_back(fmt::format("{} {}", format_count(count.count), count.name.empty() ? "(no category)" : count.name));
  }
  return joined(out);
}

std::string findings_text(const DoctorReport& report, analysis::Weight weight, std::string_view title,
                          const TextStyle& style) {
  if (report.count(weight) == 0) return {};
  std::string out = fmt::format("\n{} ({})\n", title, report.count(weight));
  for (const analysis::Finding& finding : report.findings) {
    if (finding.weight != weight) continue;
    const std::string mark = weight == analysis::Weight::kBlocks  ? "x "
                             : weight == analysis::Weight::kCosts ? "! "
                                                                  : "- ";
    const std::string what = fmt::format("{} [{}]", printable(finding.what), finding.name);
    out += fmt::format("  {}{}\n", mark, wrap(what, style.width, 4, 4));
    out += fmt::format("      {}\n", wrap(printable(finding.cost), style.width, 6, 6));
    if (!finding.remedy.empty())
      out += fmt::format("      Remedy: {}\n", wrap(printable(finding.remedy), style.width, 14, 14));
  }
  return out;
}

std::string problems_text(const DoctorReport& report, const TextStyle& style) {
  if (report.problems.empty()) return {};
  std::string out = fmt::format("\nProblems in the file ({})\n", report.problems.size());
  for (const Problem& problem : report.problems) {
    const std::string_view loss = problem.severity == Severity::kDataLoss ? "lost" : "harmless";
    out += "  " +
           wrap(fmt::format("{} x {} ({}): {}", format_count(problem.count), printable(problem.name), loss,
                            printable(problem.meaning)),
                style.width, 6, 2) +
           "\n";
    if (problem.example.empty()) continue;
    const std::string where = problem.offset >= 0 ? fmt::format(" at byte {}", problem.offset) : std::string();
    const std::size_t room = style.width > 40 + where.size() ? style.width - 20 - where.size() : 40;
    out +=
        fmt::format("      for example{}: {}\n", where, shorten_middle(printable(problem.example), room, style.utf8));
  }
  return out;
}

}  // namespace

std::string to_text(const DoctorReport& report, const TextStyle& style) {
  std::string out = (report.file == "-" ? "standard input" : printable(report.file)) + "\n" +
                    wrap(report.verdict(), style.width, 0, 0) + "\n\n";
  out += entry("file",
               fmt::format("{}, {}, {}, {} ms{}", report.format, format_bytes(report.input_bytes),
                           plural(report.events, "event"), format_ms(report.span), report.partial ? ", cut off" : ""),
               style);
  if (!report.kinds.empty()) out += entry("events", counts_text(report.kinds), style);
  std::string lanes =
      fmt::format("{}, {}", plural(report.cpu_threads, "CPU thread"), plural(report.gpu_streams, "GPU stream"));
  if (report.other_lanes > 0) lanes += fmt::format(", {}", plural(report.other_lanes, "other"));
  if (report.processes.size() > 1) lanes += fmt::format(", {} processes", report.processes.size());
  out += entry("lanes", lanes, style);
  out += entry("device", devices_text(report), style);
  out += entry("rank", rank_text(report), style);
  std::vector<std::string> versions;
  for (const auto& [label, version] : report.versions) versions.push_back(fmt::format("{} {}", label, version));
  if (!versions.empty()) out += entry("versions", joined(versions), style);
  if (!report.profiler_flags.empty()) out += entry("recorded", joined(report.profiler_flags), style);
  const std::string recorder = recorder_text(report.recorder);
  if (!recorder.empty()) out += entry("recorder", recorder, style);
  if (report.other_metadata > 0) {
    out += entry(
        "metadata",
        fmt::format("{}; values are not shown, they may be private", plural(report.other_metadata, "more key")), style);
  }
  out += entry("steps", steps_text(report, style), style);
  const std::string candidates = candidates_text(report, style);
  if (!candidates.empty()) out += entry("--steps-by", candidates, style);
  if (report.replay) {
    out += entry("replay", replay_text(report), style);
    out += entry("bottleneck", report.replay->verdict.unprofiled.sentence(), style);
  }
  for (const DoctorReport::AddedWhatIf& w : report.added_whatifs) {
    const std::string text = w.missing.empty() ? "can be asked" : fmt::format("{}", fmt::join(w.missing, "; "));
    out += entry("what-if", fmt::format("{}: {}", printable(w.name), text), style);
  }
  out += findings_text(report, analysis::Weight::kBlocks, "Prevents predictions", style);
  out += findings_text(report, analysis::Weight::kCosts, "Costs accuracy or answers", style);
  out += findings_text(report, analysis::Weight::kNote, "Good to know", style);
  out += problems_text(report, style);
  return out;
}

void write_json(JsonWriter& json, const DoctorReport& report) {
  json.begin_object().member("schema", 1).member("file", report.file).member("format", report.format);
  json.member("verdict", report.verdict()).member("input_bytes", report.input_bytes).member("events", report.events);
  json.member("partial", report.partial).member_ms("span_ms", report.span);
  for (const auto& [key, counts] : {std::pair("kinds", &report.kinds), std::pair("categories", &report.categories)}) {
    json.key(key).begin_object();
    for (const DoctorReport::Count& count : *counts) json.member(count.name, count.count);
    json.end_object();
  }
  json.key("lanes").begin_object().member("cpu_threads", report.cpu_threads);
  json.member("gpu_streams", report.gpu_streams).member("other", report.other_lanes).end_object();
  json.member("processes", report.processes);
  json.objects("devices", report.devices, [&](const DoctorReport::Device& device) {
    json.member("id", device.id).member_or_null("name", device.name);
    json.member("memory_bytes", device.memory_bytes).member("sm_count", device.sm_count);
    json.member("compute_capability", device.compute_capability).member("gpu_events", device.gpu_events);
  });
  json.member("idle_devices", report.idle_devices);
  json.member("rank", report.rank).member("world_size", report.world_size);
  json.member("backend", report.backend).member("nccl_version", report.nccl_version);
  json.key("versions").begin_object();
  for (const auto& [label, version] : report.versions) json.member(label, version);
  json.end_object().member("profiler_flags", report.profiler_flags);
  json.member("other_metadata_keys", report.other_metadata).key("recorder");
  if (report.recorder.empty()) {
    json.null();
  } else {
    json.begin_object();
    for (const auto& [name, value] : report.recorder) json.key(name).raw(value);
    json.end_object();
  }
  json.member_or_null("step_kind", report.step_kind);
  json.member("step_source", report.step_source).member_or_null("steps_marked_by", report.steps_marked_by);
  json.objects("step_candidates", report.step_candidates, [&](const trace::StepCandidate& c) {
    json.member("name", c.name).member("count", c.count).member_ms("median_ms", c.median);
    json.member("gpu_share", c.gpu_share);
  });
  json.objects("steps", report.steps, [&](const DoctorReport::StepRow& step) {
    json.member("step", step.name).member("number", step.number);
    json.member_ms("traced_ms", step.duration).member_ms("waited_ms", step.waited);
    json.member("cold", step.cold);
  });
  json.key("replay");
  if (report.replay) {
    const DoctorReport::Replay& r = *report.replay;
    json.begin_object().member("step", r.step).member_ms("traced_ms", r.traced);
    json.member_ms("replayed_ms", r.replayed).member("error_pct", r.error_pct).member("tasks", r.tasks);
    json.member("dependencies", r.dependencies);
    write_verdict(json, r.verdict);
    json.key("notes");
    write_json(json, r.notes);
    json.end_object();
  } else {
    json.null();
  }
  if (!report.added_whatifs.empty()) {
    json.objects("added_whatifs", report.added_whatifs, [&](const DoctorReport::AddedWhatIf& w) {
      json.member("whatif", w.name).member("missing", w.missing);
    });
  }
  json.objects("findings", report.findings, [&](const analysis::Finding& finding) {
    json.member("name", finding.name).member("weight", to_string(finding.weight));
    json.member("what", finding.what).member("cost", finding.cost).member("remedy", finding.remedy);
    json.member("count", finding.count);
  });
  json.member("lost_records", report.lost_records);
  json.objects("problems", report.problems, [&](const Problem& problem) {
    json.member("name", problem.name);
    json.member("severity", problem.severity == Severity::kDataLoss ? "data_loss" : "info");
    json.member("meaning", problem.meaning).member("count", problem.count).member("example", problem.example);
    json.member("offset", problem.offset < 0 ? std::nullopt : std::optional(problem.offset));
  });
  json.end_object();
}

void write_json(JsonWriter& json, const analysis::TraceSet& set) {
  json.begin_object().member("files", set.files).member("world_size", set.world_size);
  json.member("ranks", set.ranks).member("missing_ranks", set.missing_ranks);
  json.member("repeated_ranks", set.repeated_ranks);
  json.member("without_rank", set.without_rank).member("communicates", set.communicates);
  json.objects("incomplete_groups", set.lacking, [&](const analysis::TraceSet::Lacking& g) {
    json.member("group", g.group).member("ranks", g.ranks).member("missing", g.missing);
  });
  json.member("ranks_lacking_steps", set.shorter_ranks).end_object();
}

std::string to_json(const DoctorReport& report) {
  return json_text([&](JsonWriter& json) { write_json(json, report); });
}

}  // namespace foretrace::report
