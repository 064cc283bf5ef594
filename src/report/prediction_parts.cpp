#include "report/prediction_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/readable.hpp"
#include "foretrace/ranks/job.hpp"
#include "report/text_table.hpp"
#include "report/verdict.hpp"
#include "whatif/predict/bands.hpp"

namespace foretrace::report {

std::string headline(const std::string& file, const std::string& step, const std::string& device) {
  std::string out = fmt::format("{}, {}", printable(file), printable(step));
  if (!device.empty()) out += ", " + printable(device);
  return out;
}

// Hundredths of a millisecond, and of a step below one as much as it takes.
std::string short_ms(Ns time) {
  constexpr Ns kOneMs = 1'000'000;
  return time > -kOneMs && time < kOneMs ? format_ms(time) : fmt::format("{:.2f}", to_ms(time));
}

std::string band(Ns low, Ns high) { return fmt::format("{} .. {}", short_ms(low), short_ms(high)); }

std::string times(double factor) { return fmt::format("{:.2f} x", factor); }

std::string gigabytes(std::optional<std::int64_t> bytes) {
  return bytes ? fmt::format("{:.2f} GB", static_cast<double>(*bytes) / 1e9) : "-";
}

std::string now_text(const analysis::StepFigures& b) {
  const std::string simulated = fmt::format("{} ms", short_ms(b.unprofiled));
  const std::string range = fmt::format("[{}, {}]", short_ms(b.unprofiled_low), short_ms(b.unprofiled_high));
  std::string out = b.measured ? fmt::format("{} ms measured without the profiler (simulated {} {})",
                                             short_ms(*b.measured), simulated, range)
                               : fmt::format("{} without the profiler {}", simulated, range);
  if (b.peak_bytes) out += fmt::format(", peak {}, {} reserved", gigabytes(b.peak_bytes), gigabytes(b.reserved_bytes));
  return out;
}

std::vector<std::pair<std::string, std::string>> by_text(
    const std::vector<std::pair<std::string, std::string>>& named) {
  std::vector<std::pair<std::string, std::vector<std::string>>> names_of;
  for (const auto& [name, text] : named) {
    auto at = std::find_if(names_of.begin(), names_of.end(), [&t = text](const auto& e) { return e.first == t; });
    if (at == names_of.end()) at = names_of.insert(at, {text, {}});
    if (std::find(at->second.begin(), at->second.end(), name) == at->second.end()) at->second.push_back(name);
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [text, names] : names_of) out.emplace_back(text, fmt::format("{}", fmt::join(names, ", ")));
  return out;
}

std::string reasons_text(const std::vector<std::pair<std::string, std::string>>& declined, const TextStyle& style) {
  std::string out;
  for (const auto& [reason, names] : by_text(declined)) {
    out += text_line(printable(fmt::format("{}: {}", names, reason)), style, 4);
  }
  return out;
}

std::string steadiness_line(const std::string& steadiness, const TextStyle& style) {
  return steadiness.empty() ? std::string() : text_line(printable(steadiness), style, 2);
}

std::string baseline_notes(const analysis::StepFigures& b, const TextStyle& style) {
  std::string out = job_text(b.job, style) + steadiness_line(b.steadiness, style);
  if (!b.measured_refused.empty()) out += text_line(printable(b.measured_refused), style, 2);
  return out;
}

void write_steadiness(JsonWriter& json, const std::string& steadiness) {
  if (!steadiness.empty()) json.member("steadiness", steadiness);
}

void write_steadiness(JsonWriter& json, const analysis::StepFigures& step) {
  if (step.startup.time() > 0) json.member_ms("startup_ms", step.startup.time());
  if (step.allocator > 0) json.member_ms("allocator_ms", step.allocator);
  write_steadiness(json, step.steadiness);
}

void write_refused(JsonWriter& json, const std::string& why) {
  if (!why.empty()) json.member("measured_refused", why);
}

std::vector<std::pair<std::string_view, std::int64_t>> peak_parts(const memory::Composition& of) {
  return {{"parameters", of.parameters},      {"gradients", of.gradients},   {"optimizer_states", of.optimizer_states},
          {"activations", of.activations},    {"workspaces", of.workspaces}, {"other", of.other},
          {"fragmentation", of.fragmentation}};
}

void write_peak_parts(JsonWriter& json, const std::optional<memory::Composition>& of) {
  if (!of) return;
  json.key("peak_parts").begin_object();
  for (const auto& [name, bytes] : peak_parts(*of)) json.member(name, bytes);
  json.end_object();
}

void write_ranks(JsonWriter& json, const std::vector<whatif::RankTime>& ranks) {
  json.objects("ranks", ranks, [&](const whatif::RankTime& r) {
    json.member("rank", r.rank).member_ms("wait_ms", r.wait).member_ms("transfer_ms", r.transfer);
    json.member_ms("gpu_ms", r.gpu_time).member("waited_for", r.waited_for).member("peak_bytes", r.peak_bytes);
  });
}

void write_job(JsonWriter& json, const analysis::JobFigures& job) {
  json.key("job").begin_object().member("world_size", job.world_size).member("traces", job.ranks.size());
  json.key("missing").begin_array();
  for (const std::int64_t rank : job.missing) json.value(rank);
  json.end_array().member("fullest_rank", job.fullest_rank);
  write_ranks(json, job.ranks);
  json.member("notes", job.notes).end_object();
}

std::string job_text(const std::optional<analysis::JobFigures>& of, const TextStyle& style) {
  if (!of) return {};
  const analysis::JobFigures& job = *of;
  Ns wait = 0;
  bool memory = false;
  for (const whatif::RankTime& r : job.ranks) {
    wait = std::max(wait, r.wait);
    memory |= r.peak_bytes.has_value();
  }
  std::string text = fmt::format("a job of {} ranks, simulated together; a rank waits up to {} ms for others",
                                 job.world_size, short_ms(wait));
  if (memory) text += fmt::format("; rank {} has the highest peak", job.fullest_rank);
  if (!job.missing.empty()) {
    text += fmt::format(". No trace of rank {}: waiting for them counts as transfer", ranks::list_of(job.missing));
  }
  return "  " + wrap(text, style.width, 4, 2) + "\n";
}

void begin_report(JsonWriter& json, std::string_view verb, const analysis::StepFigures& step) {
  json.begin_object().member("schema", 1).member("verb", verb).member("file", step.file).member("step", step.step_name);
  json.member("device", step.device);
  write_one_rank(json, step.one_rank);
  if (step.job) write_job(json, *step.job);
}

JsonWriter& write_times(JsonWriter& json, const whatif::Prediction& p) {
  return json.member_ms("ms", p.step).member_ms("low_ms", p.low).member_ms("high_ms", p.high);
}

std::optional<Ns> without(const search::OptimizedPart& part) {
  return part.without > 0 ? std::optional(part.without) : std::nullopt;
}

std::string paragraph(std::string_view text, const TextStyle& style) { return "\n" + text_line(text, style, 2); }

void write_baseline(JsonWriter& json, const analysis::StepFigures& b) {
  json.member_ms("traced_ms", b.traced)
      .member_ms("period_ms", b.period)
      .member_ms("replayed_ms", b.replayed)
      .member_ms("unprofiled_ms", b.unprofiled);
  json.member_ms("unprofiled_low_ms", b.unprofiled_low).member_ms("unprofiled_high_ms", b.unprofiled_high);
  json.member_ms("measured_ms", b.measured)
      .member("peak_bytes", b.peak_bytes)
      .member("reserved_bytes", b.reserved_bytes);
  write_peak_parts(json, b.peak_parts);
  write_refused(json, b.measured_refused);
  write_verdict(json, b.verdict);
  write_steadiness(json, b);
}

namespace {

// Gains above this are printed with what supports them.
constexpr double kLargeGain = 5;

std::string support(const whatif::Prediction& p) {
  std::string text = p.evidence.rows > 0 ? fmt::format("such a change was measured in {} steps of {} models",
                                                       p.evidence.rows, p.evidence.models)
                                         : std::string("no measured step shows such a change");
  if (p.bound.step > 0) text += fmt::format("; no step is below {} ms ({})", short_ms(p.bound.step), p.bound.by);
  return text;
}

}  // namespace

std::string not_modelled_text(const std::vector<const std::vector<std::string>*>& lists, const TextStyle& style) {
  std::vector<std::string> notes;
  for (const std::vector<std::string>* list : lists) {
    for (const std::string& n : *list) {
      if (std::find(notes.begin(), notes.end(), n) == notes.end()) notes.push_back(n);
    }
  }
  std::string out = notes.empty() ? "" : "\n  not modelled, or good to know:\n";
  for (const std::string& n : notes) out += text_line("- " + n, style, 4);
  return out;
}

std::string trust_text(const std::vector<const whatif::Prediction*>& predictions, const TextStyle& style) {
  std::string out;
  std::vector<std::pair<std::string, std::string>> wide, answered;
  for (const whatif::Prediction* p : predictions) {
    if (!p->declined.empty()) continue;
    answered.emplace_back(p->whatif, "");
    const double gain = std::max(p->speedup, p->gain());
    if (p->bound.decided) {
      out += paragraph(fmt::format("{}: limited by the bound. The models predict less than the minimum of {} ms ({})",
                                   p->whatif, short_ms(p->bound.step), p->bound.by),
                       style);
    }
    if (gain > kLargeGain) {
      out += paragraph(fmt::format("{}: {} is a large gain: {}", p->whatif, times(gain), support(*p)), style);
    }
    for (const whatif::BandPart& part : p->band) {
      if (whatif::is_of_trace(part.family) && part.up + part.down > 0) wide.emplace_back(p->whatif, part.why);
    }
  }
  for (const auto& [why, names] : by_text(wide)) {
    const bool of_all = names == by_text(answered).front().second;
    out += paragraph(fmt::format("why this wide{}: {}", of_all ? "" : " (" + names + ")", why), style);
  }
  return out;
}

JsonWriter& write_trust(JsonWriter& json, const whatif::Prediction& p) {
  return json.member("origin", p.origin)
      .member("validated", p.validated)
      .member("measured_rows", p.evidence.rows)
      .member("measured_models", p.evidence.models)
      .member_ms("bound_ms", p.bound.step > 0 ? std::optional(p.bound.step) : std::nullopt)
      .member("bound_source", p.bound.step > 0 ? p.bound.by : std::string_view())
      .member("bound_decided", p.bound.decided)
      .member("band_reasons", p.band_reasons())
      .member("not_modelled", p.not_modelled);
}

}  // namespace foretrace::report
