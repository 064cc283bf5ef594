#include <fmt/format.h>

#include <algorithm>

#include "base/readable.hpp"
#include "foretrace/report/report.hpp"
#include "report/prediction_parts.hpp"
#include "report/text_table.hpp"
#include "report/verdict.hpp"
#include "report/wrap_code.hpp"

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

using NamedCode = std::vector<std::pair<std::string, std::string>>;

// Each line of code once, whatever number of settings was tried.
void add_code(NamedCode& out, const search::Advice& a) {
  for (std::size_t i = 0; i < a.uses.size(); ++i) {
    const std::pair line{a.uses[i].whatif->name, a.code[i]};
    if (!line.second.empty() && std::find(out.begin(), out.end(), line) == out.end()) out.push_back(line);
  }
}

// Next to its name where it fits, else under it.
std::string code_text(const NamedCode& all, const TextStyle& style) {
  constexpr std::size_t kIndent = 4, kName = 18;
  std::string out;
  for (const auto& [name, code] : all) {
    const bool fits = kIndent + std::max(kName, name.size()) + 2 + display_width(code) <= style.width;
    out += fits ? fmt::format("    {:<18}  {}\n", name, code)
                : fmt::format("    {}\n      {}\n", name, wrap_code(code, style.width, kIndent + 2));
  }
  return out;
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
  // Unknown without a peak.
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
  std::string out = text_line(headline(b.file, b.step_name, b.device), style);
  std::string now = "now " + now_text(b);
  if (r.advised.memory_limit) {
    now += b.peak_bytes ? " of " + gigabytes(r.advised.memory_limit)
                        : ", peak unknown; the GPU has " + gigabytes(r.advised.memory_limit);
  }
  out += text_line(now, style, 2) + baseline_notes(b, style) +
         verdict_text(b.verdict, short_ms(b.traced), b.startup.time() > 0, style, 2) +
         one_rank_text(b.one_rank, style, 2) + "\n";

  TextTable table({{"what if", Align::kLeft, true},
                   {"ms"},
                   {"10 % .. 90 %"},
                   {"gain"},
                   {"peak"},
                   {.header = "reserved", .drop = 2},
                   {.header = "effort", .align = Align::kLeft, .drop = 1}});
  bool crowded = false, other_batch = false;
  std::vector<const search::Advice*> idle;
  NamedCode code;
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
    add_code(code, a);
  }
  if (table.rows() > 0) {
    out += table.render(style);
  } else {
    out += text_line("no change in the catalogue makes this step faster or smaller", style, 2);
  }
  if (other_batch) out += "  gain: samples per second, against now\n";
  if (crowded) out += "  (!) needs more memory than the limit\n";
  const auto show = [&](const char* title, const search::Advice& a) {
    out += paragraph(fmt::format("{}: {}", title, a.prediction.whatif), style);
    out += text_line(fmt::format("{} ms [{}, {}], {:.2f} x, peak {}, reserved {}", short_ms(a.prediction.step),
                                 short_ms(a.prediction.low), short_ms(a.prediction.high), a.gain,
                                 gigabytes(a.prediction.peak_bytes), gigabytes(a.prediction.reserved_bytes)),
                     style, 4);
  };
  if (r.advised.together) {
    show("together", *r.advised.together);
    TextTable parts({{"", Align::kLeft}, {""}, {"", Align::kLeft, false, true}}, 6);
    for (const search::OptimizedPart& part : r.advised.parts) {
      parts.row({search::short_use(part.text), fmt::format("{:+.2f} ms", to_ms(part.gain)), part.why});
    }
    out += parts.render(style);
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
  if (!code.empty()) out += fmt::format("\n  in {}:\n", r.advised.code_is_for) + code_text(code, style);
  if (!idle.empty()) {
    std::string names;
    for (const search::Advice* a : idle) {
      names += fmt::format("{}{} {:.2f} x", names.empty() ? "" : ", ", a->prediction.whatif, a->gain);
    }
    out += paragraph("no gain: " + names, style);
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
