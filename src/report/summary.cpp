#include "foretrace/analysis/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/readable.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"
#include "report/prediction_parts.hpp"
#include "report/summary_parts.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {

using analysis::SummaryReport;

namespace {

double share(Ns part, Ns whole) { return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0; }

std::string ms_or_dash(Ns ns) { return ns == 0 ? "-" : format_ms(ns); }

std::string number_or_dash(std::uint64_t n) { return n == 0 ? "-" : format_count(n); }

std::string tflops_or_dash(const analysis::FlopCount& flops, Ns time) {
  const auto achieved = flops.achieved_tflops(time);
  return achieved ? fmt::format("{:.1f}", *achieved) : "-";
}

std::string mfu_or_dash(const analysis::FlopCount& flops, Ns time) {
  const auto mfu = flops.mfu(time);
  return mfu ? format_percent(*mfu) : "-";
}

void write_flops(JsonWriter& json, const SummaryReport& report, const analysis::FlopCount& flops, Ns time) {
  const bool known = report.flops.has_value();
  json.member("model_flops", known ? std::optional(flops.model) : std::nullopt);
  json.member("achieved_tflops", known ? flops.achieved_tflops(time) : std::nullopt);
  json.member("mfu", known ? flops.mfu(time) : std::nullopt);
}

/// A sentence under a table that explains it.
std::string legend(std::string_view text, const TextStyle& style) {
  return "  " + wrap(text, style.width, 2, 2) + "\n";
}

// Everything before is of the step without the profiler.
std::string traced_text(const SummaryReport& report, const TextStyle& style) {
  if (!report.simulated) return {};
  return "\n" +
         text_line(
             "The tables below are of the step as traced. GPU times are the same without the profiler; CPU times "
             "and idle times include its work.",
             style);
}

/// Rows of a table up to style.top, the rest as one note.
template <class Rows, class Add, class Rest>
void fill(TextTable& table, const Rows& rows, const TextStyle& style, Add add, Rest rest) {
  const std::size_t shown = std::min(rows.size(), style.top);
  for (std::size_t i = 0; i < shown; ++i) add(rows[i], i);
  if (shown < rows.size()) {
    Ns sum = 0;
    for (std::size_t i = shown; i < rows.size(); ++i) sum += rest(rows[i]);
    table.note(fmt::format("  {} and {} more, {} ms", style.utf8 ? "…" : "...", format_count(rows.size() - shown),
                           format_ms(sum)));
  }
}

std::string steps_text(const SummaryReport& report, const TextStyle& style) {
  if (report.steps.size() < 2) return {};
  TextTable table({{"Steps", Align::kLeft, true}, {"ms"}, {"", Align::kLeft}}, 0);
  // The chosen step is always among the rows shown.
  const std::size_t first = report.chosen < style.top ? 0 : report.chosen - style.top + 1;
  const std::size_t last = std::min(report.steps.size(), first + style.top);
  for (std::size_t i = first; i < last; ++i) {
    const SummaryReport::StepRow& step = report.steps[i];
    table.row({"  " + step.name, format_ms(step.duration), i == report.chosen ? "<- shown below" : ""});
  }
  if (last - first < report.steps.size()) {
    table.note(
        fmt::format("  {} and {} more", style.utf8 ? "…" : "...", format_count(report.steps.size() - (last - first))));
  }
  return fmt::format("\n{}", table.render(style));
}

std::string lanes_text(const SummaryReport& report, const TextStyle& style) {
  TextTable table({{"Lanes", Align::kLeft, true},
                   {.header = "events", .drop = 2},
                   {"busy ms"},
                   {.header = "idle ms", .drop = 1},
                   {"waiting"},
                   {"use"},
                   {"", Align::kBar}},
                  0);
  const Ns step = report.step_duration();
  // A GPU and its streams, or the threads: rows beyond the limit are the least busy of their group.
  std::size_t in_group = 0, hidden = 0;
  std::string group;
  for (const SummaryReport::LaneUse& lane : report.lanes) {
    in_group = lane.kind == group ? in_group + 1 : 0;
    group = lane.kind;
    if (in_group >= style.top) {
      ++hidden;
      continue;
    }
    const double use = share(lane.busy, step);
    table.row({(lane.kind == "stream" ? "    " : "  ") + lane.label, format_count(lane.events), format_ms(lane.busy),
               format_ms(lane.idle), lane.waiting > 0 ? format_ms(lane.waiting) : "", format_percent(use),
               fmt::format("{}", use)});
  }
  if (hidden > 0) {
    table.note(fmt::format("  {} and {} less busy", style.utf8 ? "…" : "...", plural(hidden, "lane")));
  }
  std::string out = fmt::format("\n{}", table.render(style));
  const bool threads =
      std::any_of(report.lanes.begin(), report.lanes.end(), [](const auto& l) { return l.kind == "thread"; });
  if (threads) {
    out += legend(
        "A thread is busy inside operations and runtime calls, waiting included; its idle time is Python, the "
        "framework, or waiting for another thread.",
        style);
  }
  if (report.gpu_time_after_step * 1000 > report.gpu_time) {
    out += legend(fmt::format("{} ms of this step's GPU work ran after the step's range had ended; the tables below "
                              "include it.",
                              format_ms(report.gpu_time_after_step)),
                  style);
  }
  return out;
}

std::string phases_text(const SummaryReport& report, const TextStyle& style) {
  if (report.phases.empty()) return {};
  TextTable table({{"Phases", Align::kLeft},
                   {"GPU ms"},
                   {"share"},
                   {"", Align::kBar},
                   {"TFLOP/s"},
                   {.header = "MFU", .drop = 2},
                   {"CPU ms"},
                   {.header = "GPU tasks", .drop = 1}},
                  0);
  for (const SummaryReport::PhaseRow& row : report.phases) {
    const double part = share(row.gpu_time, report.gpu_time);
    table.row({"  " + row.name, ms_or_dash(row.gpu_time), row.gpu_time > 0 ? format_percent(part) : "-",
               fmt::format("{}", part), tflops_or_dash(row.flops, row.gpu_time), mfu_or_dash(row.flops, row.gpu_time),
               ms_or_dash(row.cpu_time), number_or_dash(row.gpu_events)});
  }
  return "\n" + table.render(style) +
         legend("CPU time excludes waits; time between operations counts towards the operation that follows.", style);
}

std::string layers_text(const SummaryReport& report, const TextStyle& style) {
  if (report.layers.empty()) return {};
  TextTable table({{fmt::format("Layers ({} named)", format_count(report.named_layers)), Align::kLeft, true},
                   {.header = "type", .align = Align::kLeft, .shrink = true, .drop = 1},
                   {"GPU ms"},
                   {"share"},
                   {.header = "forward", .drop = 2},
                   {.header = "backward", .drop = 2},
                   {"TFLOP/s"},
                   {.header = "MFU", .drop = 3},
                   {"CPU ms"}},
                  0);
  fill(
      table, report.layers, style,
      [&](const SummaryReport::LayerRow& row, std::size_t) {
        table.row({"  " + row.name, row.type, format_ms(row.gpu_time()),
                   format_percent(share(row.gpu_time(), report.gpu_time)), ms_or_dash(row.forward),
                   ms_or_dash(row.backward), tflops_or_dash(row.flops, row.gpu_time()),
                   mfu_or_dash(row.flops, row.gpu_time()), ms_or_dash(row.cpu_time)});
      },
      [](const SummaryReport::LayerRow& row) { return row.gpu_time(); });
  std::string out = fmt::format("\n{}", table.render(style));
  if (report.gpu_time > 0) {
    std::string text = fmt::format("{} of the GPU's time belongs to a layer, {} to one the trace names.",
                                   format_percent(report.layer_coverage), format_percent(report.named_coverage));
    if (report.named_layers == 0) {
      text +=
          " Nothing names layers here (no `layer:<name>|<type>` ranges, no nn.Module frames): they are inferred from "
          "operations and shapes.";
    }
    out += legend(text, style);
  }
  return out;
}

std::string ops_text(const SummaryReport& report, const TextStyle& style) {
  if (report.ops.empty()) return {};
  TextTable table({{fmt::format("Operations ({})", format_count(report.ops.size())), Align::kLeft, true},
                   {.header = "calls", .drop = 2},
                   {"GPU ms"},
                   {"share"},
                   {.header = "GPU tasks", .drop = 1},
                   {"CPU ms"}},
                  0);
  fill(
      table, report.ops, style,
      [&](const SummaryReport::OpRow& row, std::size_t) {
        table.row({"  " + row.name, number_or_dash(row.calls), ms_or_dash(row.gpu_time),
                   row.gpu_time > 0 ? format_percent(share(row.gpu_time, report.gpu_time)) : "-",
                   number_or_dash(row.gpu_events), ms_or_dash(row.cpu_time)});
      },
      [](const SummaryReport::OpRow& row) { return row.gpu_time; });
  return "\n" + table.render(style) +
         legend(
             "Times are an operation's own, without operations inside it; CPU time includes the time before it on its "
             "thread. (name) is a runtime call outside any operation.",
             style);
}

std::string kernels_text(const SummaryReport& report, const TextStyle& style) {
  if (report.kernels.empty()) return {};
  TextTable table({{fmt::format("Kernels and copies ({})", format_count(report.kernels.size())), Align::kLeft, true},
                   {"launches"},
                   {"total ms"},
                   {"mean us"},
                   {"share"}},
                  0);
  fill(
      table, report.kernels, style,
      [&](const SummaryReport::KernelRow& row, std::size_t) {
        table.row({"  " + short_kernel_name(row.name), format_count(row.launches), format_ms(row.total),
                   format_us(to_us(row.total) / static_cast<double>(row.launches)),
                   format_percent(share(row.total, report.gpu_time))});
      },
      [](const SummaryReport::KernelRow& row) { return row.total; });
  return fmt::format("\n{}", table.render(style));
}

std::string memory_text(const SummaryReport& report, const TextStyle& style) {
  if (report.memory.empty()) {
    return "\nMemory\n" +
           text_line("No GPU allocator events in this step (record with profile_memory=True).", style, 2);
  }
  std::string out = "\nMemory\n";
  for (const SummaryReport::MemoryPeak& peak : report.memory) {
    std::string line =
        fmt::format("GPU {}: peak {} allocated", peak.device,
                    format_memory(static_cast<std::uint64_t>(std::max<std::int64_t>(0, peak.allocated_bytes))));
    if (peak.reserved_bytes && *peak.reserved_bytes > 0) {
      line += fmt::format(" ({} reserved)", format_memory(static_cast<std::uint64_t>(*peak.reserved_bytes)));
    }
    line += fmt::format(", {} ms into the step", format_ms(peak.at));
    if (!peak.op.empty()) line += fmt::format(", in {}", printable(peak.op));
    if (!peak.layer.empty()) line += fmt::format(" of {}", printable(peak.layer));
    if (!peak.phase.empty() && peak.phase != "other") line += fmt::format(" ({})", peak.phase);
    out += fmt::format("  {}\n", wrap(line, style.width, 4, 2));
    if (!peak.parts) continue;
    std::vector<std::string> parts;
    for (const auto& [name, bytes] : peak_parts(*peak.parts)) {
      std::string text =
          fmt::format("{} {}", name, format_memory(static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes))));
      std::replace(text.begin(), text.end(), '_', ' ');
      parts.push_back(std::move(text));
    }
    out += fmt::format("  {}\n", wrap(fmt::format("It consists of {}", fmt::join(parts, ", ")), style.width, 4, 2));
  }
  return out;
}

}  // namespace

std::string to_text(const SummaryReport& report, const TextStyle& style) {
  return headline_text(report, style) + simulated_text(report, style) + traced_text(report, style) +
         steps_text(report, style) + lanes_text(report, style) + phases_text(report, style) +
         layers_text(report, style) + ops_text(report, style) + kernels_text(report, style) +
         memory_text(report, style);
}

void write_json(JsonWriter& json, const SummaryReport& report) {
  const Ns step = report.step_duration();
  json.begin_object().member("schema", 1).member("verb", "summary").member("file", report.file);
  json.member("format", report.format).member_or_null("device", report.device);
  json.member("rank", report.rank).member("world_size", report.world_size);
  json.member_or_null("step_kind", report.step_kind);
  const analysis::FlopCount flops = report.flops.value_or(analysis::FlopCount{});
  const bool counted = report.flops.has_value();
  write_flops(json, report, flops, report.gpu_time_offered());
  json.member("hfu", counted ? flops.hfu(report.gpu_time_offered()) : std::nullopt);
  json.member("recomputed_flops", counted ? std::optional(flops.recomputed) : std::nullopt);
  json.member("peak_tflops", counted ? flops.peak_tflops() : std::nullopt);
  json.member_or_null("no_mfu", !report.no_flops.empty() ? report.no_flops : report.no_peak);
  json.member("step_source", report.step_source);
  json.objects("steps", report.steps, [&](const SummaryReport::StepRow& row) {
    json.member("step", row.name).member("number", row.number).member_ms("traced_ms", row.duration);
  });
  json.member("step", report.steps.empty() ? std::string() : report.steps[report.chosen].name);
  json.member_ms("traced_ms", step);
  json.member_ms("gpu_ms", report.gpu_time).member_ms("gpu_busy_ms", report.gpu_busy);
  json.member_ms("gpu_idle_ms", step - report.gpu_busy).member("gpu_tasks", report.gpu_events);
  json.member_ms("gpu_ms_after_step", report.gpu_time_after_step);
  json.member("samples_per_s", report.samples_per_s);
  json.member("unprofiled_samples_per_s", report.unprofiled_samples_per_s);
  json.member("tokens_per_s", report.tokens_per_s);
  json.member("samples", report.batch ? report.batch->samples : std::nullopt);
  json.member("tokens", report.batch ? report.batch->tokens : std::nullopt);
  json.member_or_null("batch_source", report.batch ? report.batch->source : "");
  write_simulated(json, report);
  json.objects("lanes", report.lanes, [&](const SummaryReport::LaneUse& lane) {
    json.member("lane", lane.label).member("kind", lane.kind).member("events", lane.events);
    json.member_ms("busy_ms", lane.busy).member_ms("idle_ms", lane.idle);
    json.member_ms("waiting_ms", lane.waiting).member("busy_share", share(lane.busy, step));
  });
  json.objects("phases", report.phases, [&](const SummaryReport::PhaseRow& row) {
    json.member("phase", row.name).member_ms("gpu_ms", row.gpu_time);
    json.member("gpu_share", share(row.gpu_time, report.gpu_time)).member_ms("cpu_ms", row.cpu_time);
    json.member("gpu_tasks", row.gpu_events);
    write_flops(json, report, row.flops, row.gpu_time);
  });
  json.member("named_layers", report.named_layers);
  json.member("layer_coverage_pct", 100 * report.layer_coverage);
  json.member("named_layer_coverage_pct", 100 * report.named_coverage);
  json.objects("layers", report.layers, [&](const SummaryReport::LayerRow& row) {
    json.member("layer", row.name).member("type", row.type).member("synthetic", row.synthetic);
    json.member_ms("gpu_ms", row.gpu_time());
    json.member_ms("forward_gpu_ms", row.forward).member_ms("backward_gpu_ms", row.backward);
    json.member_ms("cpu_ms", row.cpu_time).member("gpu_tasks", row.gpu_events);
    write_flops(json, report, row.flops, row.gpu_time());
  });
  json.objects("operations", report.ops, [&](const SummaryReport::OpRow& row) {
    json.member("operation", row.name).member("calls", row.calls).member_ms("gpu_ms", row.gpu_time);
    json.member_ms("cpu_ms", row.cpu_time).member("gpu_tasks", row.gpu_events);
  });
  json.objects("kernels", report.kernels, [&](const SummaryReport::KernelRow& row) {
    json.member("kernel", row.name).member("kind", row.kind).member("launches", row.launches);
    json.member_ms("total_ms", row.total).member("mean_us", to_us(row.total) / static_cast<double>(row.launches));
    json.member("share", share(row.total, report.gpu_time));
  });
  std::optional<std::int64_t> highest;
  json.objects("memory", report.memory, [&](const SummaryReport::MemoryPeak& peak) {
    highest = std::max(highest.value_or(peak.allocated_bytes), peak.allocated_bytes);
    json.member("device", peak.device).member("peak_bytes", peak.allocated_bytes);
    json.member("reserved_bytes", peak.reserved_bytes).member("replayed_reserved_bytes", peak.replayed_reserved);
    json.member_ms("at_ms", peak.at).member("operation", peak.op).member("layer", peak.layer);
    json.member("phase", peak.phase);
    write_peak_parts(json, peak.parts);
  });
  json.member("peak_bytes", highest).end_object();
}

std::string to_json(const SummaryReport& report) {
  return json_text([&](JsonWriter& json) { write_json(json, report); });
}

}  // namespace foretrace::report
