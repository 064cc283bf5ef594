#include "foretrace/analysis/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/readable.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"
#include "report/notes.hpp"
#include "report/prediction_parts.hpp"
#include "report/text_table.hpp"
#include "report/verdict.hpp"

namespace foretrace::report {

using analysis::TraceReplay;

namespace {

std::optional<double> in_us(std::optional<Ns> time) { return time ? std::optional(to_us(*time)) : std::nullopt; }
std::string us_or_dash(const std::optional<Ns>& ns) { return ns ? format_us(to_us(*ns)) : "-"; }

std::string percent_or_dash(const std::optional<double>& pct) { return pct ? fmt::format("{:+.2f}%", *pct) : "-"; }

bool any_behind(const TraceReplay& report) {
  return std::any_of(report.steps.begin(), report.steps.end(), [](const auto& row) { return row.behind; });
}

std::string steps_table(const TraceReplay& report, const TextStyle& style) {
  // The period is shown where it differs from the range.
  const bool behind = any_behind(report);
  std::vector<TableColumn> columns = {{"Step", Align::kLeft, true}, {"traced ms"}, {"replayed"}, {"error"}};
  if (behind) {
    columns.insert(columns.end(), {{"period"}, {"off it"}});
  } else {
    columns.push_back({.header = "strict", .drop = 4});
  }
  columns.push_back({.header = "crossed", .drop = 5});
  columns.push_back({.header = "frozen", .drop = 3});
  if (!behind) columns.push_back({.header = "start us", .drop = 2});
  columns.push_back({.header = "copies", .drop = 1});
  columns.push_back({.header = "tasks", .drop = 1});
  TextTable table(std::move(columns), 0);
  // A long trace shows its first steps; the mean and the worst speak for all.
  constexpr std::size_t kMostRows = 30;
  const std::size_t shown = std::min(report.steps.size(), kMostRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const TraceReplay::StepRow& row = report.steps[i];
    std::vector<std::string> cells = {"  " + row.name, format_ms(row.traced), format_ms(row.replayed),
                                      percent_or_dash(row.error_pct)};
    if (behind) {
      cells.push_back(row.period ? format_ms(*row.period) : "-");
      cells.push_back(percent_or_dash(row.period_error_pct));
    } else {
      cells.push_back(percent_or_dash(row.strict_error_pct));
    }
    cells.push_back(percent_or_dash(row.cross_error_pct));
    cells.push_back(fmt::format("{:.1f}%", row.limits.frozen_pct()));
    if (!behind) cells.push_back(us_or_dash(row.start_error_p95));
    cells.push_back(fmt::format("{}{}", row.copies, row.settled ? "" : "!"));
    cells.push_back(format_count(row.tasks));
    table.row(std::move(cells));
  }
  if (report.steps.size() > 1) {
    // Where the GPU runs behind the CPU, a range is nothing to compare with.
    const auto error = [&](const TraceReplay::StepRow& row) {
      return behind ? row.period_error_pct.value_or(row.error_pct) : row.error_pct;
    };
    const auto worst = std::max_element(report.steps.begin(), report.steps.end(), [&](const auto& a, const auto& b) {
      return std::abs(error(a)) < std::abs(error(b));
    });
    double mean = 0;
    for (const TraceReplay::StepRow& row : report.steps) mean += std::abs(error(row));
    mean /= static_cast<double>(report.steps.size());
    const std::string more =
        shown < report.steps.size() ? fmt::format("and {} more; ", report.steps.size() - shown) : "";
    table.note(fmt::format("  {}mean absolute error {}{:.2f}%, worst {:+.2f}% ({})", more,
                           behind ? "against the period " : "", mean, error(*worst), worst->name));
  }
  constexpr std::string_view kPeriod =
      "period: time between the same work in two steps, since the GPU lags behind the CPU; off it: error of the "
      "replay. ";
  constexpr std::string_view kStart =
      "start: distance of simulated from measured starts of GPU tasks, 95th percentile. strict: error without the lags "
      "that no rule explains. ";
  constexpr std::string_view kColumns =
      "crossed: error of this step's costs in another step's graph. frozen: what remains of the step when every task "
      "takes no time. copies: steps simulated in a row until the period repeats (! it did not).";
  const std::string legend = std::string(behind ? kPeriod : kStart) + std::string(kColumns);
  return table.render(style) + "  " + wrap(legend, style.width, 2, 2) + "\n";
}

std::string unprofiled_text(const TraceReplay& report) {
  const host::Unprofiled& u = report.unprofiled;
  std::string out =
      fmt::format("without the profiler: {} ms [{}, {}]", format_ms(u.step), format_ms(u.low), format_ms(u.high));
  if (!report.measured) {
    return out + ", estimated; --measured-ms X calibrates it";
  }
  out += fmt::format(", calibrated on the measured step of {} ms", format_ms(*report.measured));
  return u.origin == "recorder" ? out + " that the recorder stored" : out;
}

std::string notes_text(const TraceReplay& report, const TextStyle& style) {
  std::string out;
  const auto add = [&](std::string_view text) {
    out += fmt::format("  - {}\n", wrap(printable(text), style.width, 4, 4));
  };
  for (const TraceReplay::LeftOut& step : report.left_out) add(fmt::format("{} left out: {}", step.name, step.reason));
  std::string ramp_up;
  for (const TraceReplay::StepRow& row : report.steps) {
    if (row.ramp_up) ramp_up += (ramp_up.empty() ? "" : ", ") + row.name;
  }
  if (!ramp_up.empty()) {
    add(fmt::format("ramp-up: {}; these steps show how fast the CPU filled the GPU's queue, not the period", ramp_up));
  }
  for (const TraceReplay::StepRow& row : report.steps) {
    if (row.notes.startup.time() > 0) {
      add(
          fmt::format("{} is cold: {} ms of start-up work are taken out, and traced is what the rest takes in a "
                      "simulation",
                      row.name, format_ms(row.notes.startup.time())));
    }
  }
  for (const TraceReplay::StepRow& row : report.steps) {
    if (!row.cross_error_pct && !row.cross_missing.empty() && report.steps.size() > 1) {
      add(fmt::format("{}: not crossed with another step; {}", row.name, row.cross_missing));
    }
    if (!row.settled) add(fmt::format("{} did not settle into a period after {} copies", row.name, row.copies));
  }
  if (!report.measured_refused.empty()) add(report.measured_refused);
  for (const std::string& sentence : sentences(report.notes())) add(sentence);
  return out.empty() ? out : "\nNotes\n" + out;
}

}  // namespace

std::string to_text(const TraceReplay& report, const TextStyle& style) {
  std::string out = (report.file == "-" ? "standard input" : printable(report.file)) + "\n";
  std::string what = fmt::format("{} ({})", plural(report.steps.size(), "step"), report.step_source);
  if (report.from_export) what += ", the graph as exported";
  if (report.rank) {
    what += fmt::format(", rank {}", *report.rank);
    if (report.world_size) what += fmt::format(" of {}", *report.world_size);
  }
  out += text_line(what, style) + "\n" + steps_table(report, style) + "\n";
  const std::string name = report.steps.size() > 1 ? report.steps[report.chosen].name + ", " : std::string();
  out += wrap(printable(name + unprofiled_text(report)), style.width, 2, 0) + "\n";
  out += text_line(report.verdict.unprofiled.sentence(), style);
  if (report.verdict.traced.by != report.verdict.unprofiled.by) {
    const TraceReplay::StepRow& chosen = report.steps[report.chosen];
    out += text_line(with_profiler(report.verdict, format_ms(chosen.traced), chosen.notes.startup.time() > 0), style);
  }
  return out + notes_text(report, style);
}

void write_members(JsonWriter& json, const TraceReplay& report) {
  json.member("file", report.file).member("format", report.format).member("rank", report.rank);
  json.member("world_size", report.world_size).member("step_source", report.step_source);
  json.member("from_export", report.from_export);
  json.objects("steps", report.steps, [&](const TraceReplay::StepRow& row) {
    json.member("step", row.name).member("number", row.number).member_ms("traced_ms", row.traced);
    json.member_ms("replayed_ms", row.replayed).member("error_pct", row.error_pct);
    json.member_ms("period_ms", row.period).member("error_vs_period_pct", row.period_error_pct);
    json.member("behind", row.behind).member("ramp_up", row.ramp_up);
    json.member("frozen_pct", row.limits.frozen_pct()).member_ms("frozen_ms", row.limits.frozen);
    json.member_ms("cpu_free_ms", row.limits.cpu_free).member_ms("gpu_path_ms", row.limits.gpu_path);
    json.member_ms("gpu_free_ms", row.limits.gpu_free).member_ms("cpu_work_ms", row.limits.cpu_work);
    json.member_ms("strict_replayed_ms", row.strict_replayed).member("strict_error_pct", row.strict_error_pct);
    json.member("cross_error_pct", row.cross_error_pct).member_or_null("cross_step", row.cross_step);
    json.member("cross_unmatched", row.cross_unmatched);
    json.member_or_null("cross_missing", row.cross_error_pct ? "" : row.cross_missing);
    json.member("start_error_p50_us", in_us(row.start_error_p50))
        .member("start_error_p95_us", in_us(row.start_error_p95));
    json.member("copies", row.copies).member("settled", row.settled).member("tasks", row.tasks);
    json.member("dependencies", row.dependencies).member("gpu_tasks", row.gpu_tasks);
    json.key("notes");
    write_json(json, row.notes);
  });
  json.member("mean_abs_error_pct", report.mean_abs_error_pct());
  json.objects("left_out", report.left_out,
               [&](const TraceReplay::LeftOut& step) { json.member("step", step.name).member("reason", step.reason); });
  const host::Unprofiled& u = report.unprofiled;
  json.member("step", report.steps[report.chosen].name).member_ms("unprofiled_ms", u.step);
  json.member_ms("unprofiled_low_ms", u.low).member_ms("unprofiled_high_ms", u.high);
  json.member("unprofiled_origin", u.origin).member_ms("measured_ms", report.measured);
  write_refused(json, report.measured_refused);
  write_verdict(json, report.verdict);
}

void write_json(JsonWriter& json, const TraceReplay& report) {
  json.begin_object().member("schema", 1).member("verb", "replay");
  write_members(json, report);
  json.end_object();
}

std::string to_json(const TraceReplay& report) {
  return json_text([&](JsonWriter& json) { write_json(json, report); });
}

}  // namespace foretrace::report
