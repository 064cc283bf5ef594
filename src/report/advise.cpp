#include <fmt/format.h>

#include <algorithm>

#include "base/readable.hpp"
#include "foretrace/report/report.hpp"
#include "report/prediction_parts.hpp"
#include "report/text_table.hpp"
#include "report/verdict.hpp"

namespace foretrace::report {

namespace {

// Changes of less than this are lost in the step's own spread.
constexpr double kWorthALine = 0.005;

std::vector<std::string> row_of(const search::Advice& a) {
  const whatif::Prediction& p = a.prediction;
  return {p.whatif,
          short_ms(p.step),
          band(p.low, p.high),
          times(a.gain),
          gigabytes(p.peak_bytes),
          gigabytes(p.reserved_bytes) + (a.fits ? "" : " (!)"),
          std::string(to_string(a.effort))};
}

// Each change once, whatever number of its settings was tried.
void write_code(std::string& out, const search::Advice& a) {
  for (std::size_t i = 0; i < a.uses.size(); ++i) {
    const std::string line = fmt::format("    {:<18}  {}\n", a.uses[i].whatif->name, a.code[i]);
    if (!a.code[i].empty() && out.find(line) == std::string::npos) out += line;
  }
}

void write_advice(JsonWriter& json, const search::Advice& a, const std::vector<search::OptimizedPart>& parts = {}) {
  const whatif::Prediction& p = a.prediction;
  json.member("whatif", p.whatif).member("effort", to_string(a.effort));
  json.member("code", fmt::format("{}", fmt::join(a.code, "\n")));
  if (a.declined()) {
    json.member("declined", p.declined);
    return;
  }
  write_times(json, p).member("speedup", p.speedup).member("samples", p.samples).member("gain", a.gain);
  json.member_ms("gpu_ms", p.gpu_time).member("peak_bytes", p.peak_bytes);
  json.member("reserved_bytes", p.reserved_bytes).key("fits");
  // Without a peak nobody knows.
  p.peak_bytes ? json.value(a.fits) : json.null();
  write_trust(json, p);
  if (!parts.empty()) {
    json.objects("parts", parts, [&](const search::OptimizedPart& part) {
      json.member("whatif", part.text).member_ms("gain_ms", part.gain);
      json.member_ms("without_ms", without(part)).member("why", part.why);
    });
  }
}

}  // namespace

std::string to_text(const AdviseReport& r, const TextStyle& style) {
  const analysis::StepFigures& b = r.baseline;
  std::string out = headline(b.file, b.step_name, b.device);
  out += fmt::format("\n  now {} ms [{}, {}]{}", short_ms(b.unprofiled), short_ms(b.unprofiled_low),
                     short_ms(b.unprofiled_high), b.measured ? "" : " without the profiler");
  if (b.peak_bytes) {
    out += ", peak " + gigabytes(b.peak_bytes);
    if (b.reserved_bytes) out += ", reserved " + gigabytes(b.reserved_bytes);
    if (r.advised.memory_limit) out += " of " + gigabytes(r.advised.memory_limit);
  } else if (r.advised.memory_limit) {
    out += ", peak unknown; the GPU has " + gigabytes(r.advised.memory_limit);
  }
  out +=
      "\n" + baseline_notes(b, style) + verdict_text(b.verdict, style, 2) + one_rank_text(b.one_rank, style, 2) + "\n";

  TextTable table({{"what if", Align::kLeft, true},
                   {"ms"},
                   {"10 % .. 90 %"},
                   {"gain"},
                   {"peak"},
                   {"reserved"},
                   {"effort", Align::kLeft}});
  bool crowded = false, other_batch = false;
  std::vector<const search::Advice*> idle;
  std::string code;
  for (const search::Advice& a : r.advised.alone) {
    if (a.declined()) continue;
    const bool saves = a.prediction.peak_bytes && b.peak_bytes &&
                       static_cast<double>(*a.prediction.peak_bytes) < 0.9 * static_cast<double>(*b.peak_bytes);
    if (a.gain < 1 + kWorthALine && !saves) {
      idle.push_back(&a);
      continue;
    }
    table.row(row_of(a));
    crowded |= !a.fits;
    other_batch |= a.prediction.samples != 1;
    write_code(code, a);
  }
  if (table.rows() > 0) {
    out += table.render(style);
  } else {
    out += "  no change in the catalogue makes this step faster or smaller\n";
  }
  if (other_batch) out += "  gain: samples per second, against now\n";
  if (crowded) out += "  (!) needs more memory than the limit\n";
  const auto show = [&](const char* title, const search::Advice& a) {
    out += fmt::format("\n  {}: {}\n    {} ms [{}, {}], {:.2f} x, peak {}, reserved {}\n", title, a.prediction.whatif,
                       short_ms(a.prediction.step), short_ms(a.prediction.low), short_ms(a.prediction.high), a.gain,
                       gigabytes(a.prediction.peak_bytes), gigabytes(a.prediction.reserved_bytes));
  };
  if (r.advised.together) {
    show("together", *r.advised.together);
    for (const search::OptimizedPart& part : r.advised.parts) {
      out += fmt::format("      {:<20} {:+9.2f} ms{}{}\n", search::short_use(part.text), to_ms(part.gain),
                         part.why.empty() ? "" : ": ", part.why);
    }
  }
  if (r.advised.larger_batch) show("with a larger batch (gain in samples per second)", *r.advised.larger_batch);
  std::vector<const whatif::Prediction*> shown;
  for (const search::Advice& a : r.advised.alone) {
    if (std::find(idle.begin(), idle.end(), &a) == idle.end()) shown.push_back(&a.prediction);
  }
  for (const std::optional<search::Advice>* a : {&r.advised.together, &r.advised.larger_batch}) {
    if (a->has_value()) shown.push_back(&(*a)->prediction);
  }
  out += trust_text(shown, style);
  if (!code.empty()) out += fmt::format("\n  in {}:\n{}", r.advised.code_is_for, code);
  if (!idle.empty()) {
    std::string names;
    for (const search::Advice* a : idle) {
      names += fmt::format("{}{} {:.2f} x", names.empty() ? "" : ", ", a->prediction.whatif, a->gain);
    }
    out += "\n  " + wrap("no gain: " + names, style.width, 4, 2) + "\n";
  }
  std::vector<std::pair<std::string, std::string>> declined;
  for (const search::Advice& a : r.advised.alone) {
    if (a.declined()) declined.emplace_back(a.prediction.whatif, a.prediction.reason());
  }
  if (!declined.empty()) out += "\n  does not apply:\n" + reasons_text(declined, style);
  return out;
}

std::string to_json(const AdviseReport& r) {
  std::string out;
  JsonWriter json(out);
  begin_report(json, "advise", r.baseline);
  json.key("baseline").begin_object();
  write_baseline(json, r.baseline);
  json.member("memory_limit_bytes", r.advised.memory_limit).end_object();
  json.objects("advice", r.advised.alone, [&](const search::Advice& a) { write_advice(json, a); });
  const auto one = [&](const char* name, const std::optional<search::Advice>& advice,
                       const std::vector<search::OptimizedPart>& parts) {
    json.key(name);
    if (!advice) {
      json.null();
      return;
    }
    json.begin_object();
    write_advice(json, *advice, parts);
    json.end_object();
  };
  one("combined", r.advised.together, r.advised.parts);
  one("larger_batch", r.advised.larger_batch, {});
  json.member("tried", r.advised.tried).end_object();
  return out + "\n";
}

}  // namespace foretrace::report
