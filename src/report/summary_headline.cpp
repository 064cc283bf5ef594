// The first lines of a summary: the step without the profiler, what limits it, how fast it is, and its length with the profiler.

#include <fmt/format.h>

#include "base/readable.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/report.hpp"
#include "graph/gpu_work.hpp"
#include "report/json_writer.hpp"
#include "report/summary_parts.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {

using analysis::SummaryReport;

namespace {

double share(Ns part, Ns whole) { return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0; }

std::string utilisation_text(const SummaryReport& report, const TextStyle& style) {
  if (!report.flops) return {};
  const analysis::FlopCount& flops = *report.flops;
  const Ns time = report.gpu_time_offered();
  const auto achieved = flops.achieved_tflops(time);
  if (!achieved) return {};
  std::string text = fmt::format("{:.1f} TFLOP/s without the profiler", *achieved);
  if (const auto mfu = flops.mfu(time)) {
    text = fmt::format("MFU {}: {}, of a peak of {:.0f} for this precision", format_percent(*mfu), text,
                       *flops.peak_tflops());
    if (flops.recomputed > 0) text += fmt::format("; with recomputation {} (HFU)", format_percent(*flops.hfu(time)));
  } else {
    text += fmt::format("; no MFU: {}", printable(report.no_peak));
  }
  return wrap(text, style.width, 2, 0) + "\n";
}

// The GPU, what the step does, its rank.
std::string place_text(const SummaryReport& report, const TextStyle& style) {
  std::string where = report.device.empty() ? std::string() : printable(report.device);
  const bool known = !report.step_kind.empty() && report.step_kind != "unknown" && report.step_kind != "training";
  const auto add = [&where](std::string text) { where += (where.empty() ? "" : ", ") + std::move(text); };
  if (known) add("step of " + report.step_kind);
  if (report.rank && report.world_size) {
    add(fmt::format("rank {} of {}", *report.rank, *report.world_size));
  } else if (report.rank) {
    add(fmt::format("rank {}", *report.rank));
  }
  if (report.simulated)
    return where.empty() ? where : wrap(where, style.width, 2, 0) + "\n";  // the verdict says the rest
  if (report.gpu_busy > 0 || report.gpu_events > 0) {
    add(fmt::format("GPU busy {} of the step", format_percent(share(report.gpu_busy, report.step_duration()))));
  } else {
    add(std::string(graph::kNoGpuWork));
  }
  if (report.samples_per_s) add(fmt::format("{:.1f} samples/s as traced", *report.samples_per_s));
  return where.empty() ? where : wrap(where, style.width, 2, 0) + "\n";
}

// "7270.1 samples/s, 930574 tokens/s without the profiler (token ids of 64 x 128)"
std::string rate_text(const SummaryReport& report, const TextStyle& style) {
  std::vector<std::string> rates;
  if (report.unprofiled_samples_per_s)
    rates.push_back(fmt::format("{:.1f} samples/s", *report.unprofiled_samples_per_s));
  if (report.tokens_per_s) rates.push_back(fmt::format("{:.0f} tokens/s", *report.tokens_per_s));
  if (rates.empty()) return {};
  return text_line(fmt::format("{} without the profiler ({})", fmt::join(rates, ", "), report.batch->source), style);
}

}  // namespace

std::string headline_text(const SummaryReport& report, const TextStyle& style) {
  const SummaryReport::StepRow& step = report.steps[report.chosen];
  std::string how = "the only step";
  if (report.steps.size() > 1) {
    how =
        fmt::format("{} of {} steps", report.chosen_by_user ? "one" : "the median", format_count(report.steps.size()));
  }
  how += fmt::format(" ({})", report.step_source);
  std::string out = (report.file == "-" ? std::string("standard input") : printable(report.file)) + "\n";
  if (report.simulated) {
    const analysis::SimulatedStep& s = *report.simulated;
    const std::string simulated = fmt::format("{} ms", format_ms(s.unprofiled.step));
    const std::string range = fmt::format("[{}, {}]", format_ms(s.unprofiled.low), format_ms(s.unprofiled.high));
    const std::string line =
        s.measured ? fmt::format("{}: {} ms measured without the profiler (simulated {} {})", printable(step.name),
                                 format_ms(*s.measured), simulated, range)
                   : fmt::format("{}: {} without the profiler {}", printable(step.name), simulated, range);
    out += wrap(line + "; " + how, style.width, 2, 0) + "\n";
    const std::string verdict = s.verdict.unprofiled.sentence();
    out += wrap(verdict, style.width, 2, 0) + "\n";
    const std::string profiled = wrap(profiler_line(report), style.width, 2, 0) + "\n";
    return out + place_text(report, style) + rate_text(report, style) + utilisation_text(report, style) + profiled;
  }
  out += text_line(fmt::format("{}: {} ms as traced, {}", printable(step.name), format_ms(step.duration), how), style);
  return out + place_text(report, style);
}

}  // namespace foretrace::report
