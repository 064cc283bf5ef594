#include "foretrace/compare/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/readable.hpp"
#include "foretrace/report/report.hpp"
#include "report/compare_parts.hpp"
#include "report/json_writer.hpp"
#include "report/prediction_parts.hpp"
#include "report/text_table.hpp"
#include "report/verdict.hpp"

namespace foretrace::report {

using compare::Cause;
using compare::CauseKind;
using compare::Comparison;
using compare::DecidedBy;

namespace {

// Said in the first sentence; the others follow one by one.
constexpr std::size_t kNamedFirst = 4;

std::string step_words(const Comparison& c) {
  const std::string figures = fmt::format("{} ms before, {} ms after", short_ms(c.before.step), short_ms(c.after.step));
  if (!c.beyond_noise()) {
    return fmt::format("no difference in the step beyond noise: {} ({:+.1f} %, noise {:.1f} %)", figures, c.change_pct,
                       c.noise_pct);
  }
  return fmt::format("the step is {:.1f} % {}: {} (noise {:.1f} %)", std::abs(c.change_pct),
                     c.change_pct > 0 ? "slower" : "faster", figures, c.noise_pct);
}

bool leads(const Cause& cause) { return cause.kind == CauseKind::kSetup || cause.kind == CauseKind::kWaits; }

std::vector<const Cause*> first_causes(const Comparison& c) {
  std::vector<const Cause*> out;
  for (const Cause& cause : c.causes) {
    if (leads(cause) && out.size() < kNamedFirst) out.push_back(&cause);
  }
  // Nothing about the step's set-up changed: the part that moved most.
  for (const Cause& cause : c.causes) {
    if (out.empty() && cause.kind != CauseKind::kMemory) out.push_back(&cause);
  }
  if (out.empty() && !c.causes.empty()) out.push_back(&c.causes.front());
  return out;
}

// The change that an outcome rests on.
std::string evidence_words(const Comparison& c) {
  const bool failed = *c.outcome == compare::Outcome::kFailed;
  std::string out = fmt::format("{} % with a noise of {:.1f} %",
                                failed ? fmt::format("{:.1f}", c.decisive.pct) : fmt::format("{:+.1f}", c.decisive.pct),
                                c.decisive.noise_pct);
  if (!c.decided_by_parts) return out;
  const compare::Part* most = &c.parts.front();
  for (const compare::Part& part : c.parts) {
    if (std::abs(part.step_pct) > std::abs(most->step_pct)) most = &part;
  }
  out += ", from the parts of the step";
  if (std::abs(most->step_pct) > 0.05) out += fmt::format(" ({} {:+.1f} %)", most->name, most->change.pct);
  return out;
}

std::string failed_words(const Comparison& c) {
  std::string why = "no single cause stands out; the tables show where the time went";
  for (const Cause& cause : c.causes) {
    if (cause.kind == CauseKind::kMemory || cause.kind == CauseKind::kRecording || (cause.time <= 0 && !leads(cause)))
      continue;
    why = cause_words(cause);
    break;
  }
  return fmt::format("The gate of {:g} % fails: the step is slower by {}. Main cause: {}.", *c.gate_pct,
                     evidence_words(c), why);
}

std::string gate_words(const Comparison& c) {
  if (*c.outcome == compare::Outcome::kFailed) return failed_words(c);
  if (*c.outcome == compare::Outcome::kPassed)
    return fmt::format("The gate of {:g} % holds: {}.", *c.gate_pct, evidence_words(c));
  return fmt::format("The gate of {:g} % is inconclusive: {}. {}.", *c.gate_pct, evidence_words(c),
                     c.recordings_needed
                         ? fmt::format("About {} recordings per side would decide", *c.recordings_needed)
                         : "More recordings per side are not likely to decide");
}

void table_text(std::string& out, const std::string& title, const std::vector<compare::Row>& rows,
                const TextStyle& style) {
  if (rows.empty()) return;
  TextTable table({{title, Align::kLeft, true},
                   {"before"},
                   {"after"},
                   {"change ms"},
                   {"%"},
                   {.header = "count", .drop = 1},
                   {.header = "then", .drop = 1}});
  for (std::size_t i = 0; i < std::min(rows.size(), style.top); ++i) {
    const compare::Row& r = rows[i];
    table.row({short_kernel_name(r.name), format_ms(r.before), format_ms(r.after), signed_ms(r.change()),
               percent_text(r), count_text(r.before_count), count_text(r.after_count)});
  }
  if (rows.size() > style.top) {
    Ns rest = 0;
    for (std::size_t i = style.top; i < rows.size(); ++i) rest += rows[i].change();
    table.note(fmt::format("… and {} more, {} ms", rows.size() - style.top, signed_ms(rest)));
  }
  out += "\n" + table.render(style);
}

void parts_text(std::string& out, const std::vector<compare::Part>& parts, const TextStyle& style) {
  if (parts.empty()) return;
  TextTable table({{"part", Align::kLeft},
                   {"before ms"},
                   {"after ms"},
                   {"change %"},
                   {"noise %"},
                   {.header = "p", .drop = 1},
                   {"step %"}});
  for (const compare::Part& part : parts) {
    table.row({part.name, format_ms(part.before), format_ms(part.after), fmt::format("{:+.1f}", part.change.pct),
               fmt::format("{:.1f}", part.change.noise_pct), p_text(part.change.p_value),
               fmt::format("{:+.1f}", part.step_pct)});
  }
  table.note(fmt::format("{}: the change of the step without the profiler if only this part changed.", "step %"));
  out += "\n" + table.render(style);
}

std::string verdict_text(const compare::Verdict& v, const TextStyle& style) {
  const whatif::Prediction& p = v.prediction;
  std::string out;
  TextTable table({{"family", Align::kLeft, true}, {"predicted ms"}, {"measured ms"}, {"error"}});
  for (const compare::Verdict::Family& f : v.families) {
    table.row({f.name, format_ms(f.predicted), format_ms(f.measured),
               f.measured > 0 ? fmt::format("{:+.1f} %", percent_error(f.predicted, f.measured)) : "-"});
  }
  out +=
      "\n" + text_line(fmt::format("Prediction of {}: {} ms [{}, {}], GPU {} ms, peak {}", p.whatif, short_ms(p.step),
                                   short_ms(p.low), short_ms(p.high), short_ms(p.gpu_time), gigabytes(p.peak_bytes)),
                       style);
  return out + table.render(style);
}

}  // namespace

std::string capital(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

std::string_view decided_words(DecidedBy decided) {
  return decided == DecidedBy::kUser        ? "the steps you measured without the profiler decide"
         : decided == DecidedBy::kRecorded  ? "the recorder's steps without the profiler decide"
         : decided == DecidedBy::kEstimated ? "the step without the profiler decides, estimated from the trace"
                                            : "the traced steps decide, the profiler's own time included";
}

std::string signed_ms(Ns time) { return fmt::format("{:+.3f}", to_ms(time)); }
std::string percent_text(const compare::Row& r) {
  if (r.before == 0) return "new";
  if (r.after == 0) return "gone";
  return fmt::format("{:+.1f}", 100.0 * static_cast<double>(r.change()) / static_cast<double>(r.before));
}
std::string p_text(double p) { return p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p); }
std::string count_text(double count) {
  return std::abs(count - std::round(count)) < 0.05 ? fmt::format("{:.0f}", count) : fmt::format("{:.1f}", count);
}
double percent_error(Ns predicted, Ns measured) {
  return 100.0 * static_cast<double>(predicted - measured) / static_cast<double>(measured);
}

std::string cause_words(const Cause& cause) {
  std::string out = printable(cause.what);
  if (cause.kind == CauseKind::kKernels || cause.kind == CauseKind::kWork)
    out += fmt::format(" ({} ms of GPU time)", signed_ms(cause.time));
  if (cause.kind == CauseKind::kCpu) out += fmt::format(" ({} ms of CPU time)", signed_ms(cause.time));
  return out;
}

std::string verdict_words(const compare::Verdict& v) {
  const whatif::Prediction& p = v.prediction;
  if (!p.declined.empty()) return fmt::format("{} cannot be predicted from BEFORE: {}.", p.whatif, p.declined);
  std::string out = fmt::format("{} was predicted to take {} ms [{}, {}]; AFTER takes {}", p.whatif, short_ms(p.step),
                                short_ms(p.low), short_ms(p.high), short_ms(v.step));
  if (v.step_error_pct)
    out += fmt::format(": {:+.1f} %, {} the band", *v.step_error_pct, v.inside_band ? "inside" : "outside");
  if (v.gpu_error_pct) out += fmt::format("; GPU time {:+.1f} %", *v.gpu_error_pct);
  if (v.memory_error_pct) out += fmt::format("; peak memory {:+.1f} %", *v.memory_error_pct);
  const compare::Verdict::Family* worst = nullptr;
  for (const compare::Verdict::Family& f : v.families) {
    if (worst == nullptr || std::abs(f.predicted - f.measured) > std::abs(worst->predicted - worst->measured))
      worst = &f;
  }
  if (worst != nullptr && std::abs(worst->predicted - worst->measured) > 0) {
    out += fmt::format("; largest error: {} ({} ms predicted, {} measured)", worst->name, short_ms(worst->predicted),
                       short_ms(worst->measured));
  }
  return out + ".";
}

std::vector<std::string> sentences(const Comparison& c) {
  std::vector<std::string> out;
  const std::vector<const Cause*> first = first_causes(c);
  std::string lead;
  for (const Cause* cause : first) lead += (lead.empty() ? "" : "; ") + cause_words(*cause);
  out.push_back(capital(lead.empty() ? step_words(c) : lead + ". " + capital(step_words(c))) + ".");
  for (const Cause& cause : c.causes) {
    if (std::find(first.begin(), first.end(), &cause) != first.end()) continue;
    out.push_back(capital(cause_words(cause)) + (cause.where.empty() ? "" : ", mostly in " + printable(cause.where)) +
                  ".");
  }
  out.push_back(capital(std::string(decided_words(c.decided))) + (c.decided_why.empty() ? "" : ": " + c.decided_why) +
                ". Noise: " + c.noise_from + ".");
  if (c.before.rank && c.after.rank && *c.before.rank != *c.after.rank) {
    out.push_back(fmt::format("These are two ranks of a job: {} before, {} after.", *c.before.rank, *c.after.rank));
  }
  if (c.verdict) out.push_back(verdict_words(*c.verdict));
  if (c.outcome) out.push_back(gate_words(c));
  return out;
}

std::string to_text(const Comparison& c, const TextStyle& style) {
  std::string out;
  for (const std::string& sentence : sentences(c)) out += wrap(sentence, style.width, 2, 0) + "\n";
  TextTable sides({{"side", Align::kLeft},
                   {"file", Align::kLeft, true},
                   {"step ms"},
                   {.header = "traced", .drop = 2},
                   {"GPU ms"},
                   {"CPU ms"},
                   {.header = "peak", .drop = 3},
                   {.header = "launches", .drop = 1},
                   {.header = "waits", .drop = 1}});
  for (const auto& [name, side] :
       {std::pair<const char*, const compare::Side*>("before", &c.before), {"after", &c.after}}) {
    const std::string more = side->files.size() > 1 ? fmt::format(" and {} more", side->files.size() - 1) : "";
    sides.row({name, side->files.front() + more, short_ms(side->step), short_ms(side->traced), short_ms(side->gpu_time),
               short_ms(side->cpu_time), gigabytes(side->peak_bytes), fmt::format("{}", side->launches),
               fmt::format("{}", side->syncs)});
  }
  for (const auto& [name, side] :
       {std::pair<const char*, const compare::Side*>("before", &c.before), {"after", &c.after}}) {
    if (side->bottleneck.by != simulate::BoundBy::kNothing) sides.note(name + (": " + side->bottleneck.sentence()));
  }
  sides.note(fmt::format("{} of the GPU time of both sides is the same kernel for the same work.",
                         format_percent(c.matched_share)));
  out += "\n" + sides.render(style);
  parts_text(out, c.parts, style);
  if (c.verdict && c.verdict->prediction.declined.empty()) out += verdict_text(*c.verdict, style);
  for (const auto& [title, rows] : named_tables(c.tables)) table_text(out, title, *rows, style);
  return out;
}

}  // namespace foretrace::report
