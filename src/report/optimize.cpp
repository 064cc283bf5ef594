#include <fmt/format.h>

#include <algorithm>

#include "foretrace/report/report.hpp"
#include "report/prediction_parts.hpp"
#include "report/strategy_json.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {

namespace {

double speedup(const search::Optimized& o) {
  return o.prediction.step > 0 ? static_cast<double>(o.baseline) / static_cast<double>(o.prediction.step) : 0;
}

}  // namespace

std::string to_text(const OptimizeReport& r, const TextStyle& style) {
  const search::Optimized& o = r.found;
  const bool searched = o.evaluations > 0;
  const std::string name = searched ? "best" : "strategy";
  std::string out = headline(r.base.file, r.base.step_name, r.base.device);
  if (const auto& c = o.best.communication) {
    out += fmt::format(", {} workers over {}", c->workers, c->fabric.empty() ? "measured collectives" : c->fabric);
  }
  out = text_line(out, style) + steadiness_line(r.base.steadiness, style) + "\n";
  TextTable table(
      {{"", Align::kLeft}, {"ms"}, {"10 % .. 90 %"}, {"speed-up"}, {"peak"}, {.header = "reserved", .drop = 1}});
  table.row({"today", short_ms(o.baseline),
             o.best.communication ? "predicted"
             : r.base.measured    ? "measured"
                                  : band(r.base.unprofiled_low, r.base.unprofiled_high),
             times(1), gigabytes(o.baseline_peak),
             gigabytes(o.best.communication ? std::nullopt : r.base.reserved_bytes)});
  table.row({name, short_ms(o.prediction.step), band(o.prediction.low, o.prediction.high), times(speedup(o)),
             gigabytes(o.prediction.peak_bytes), gigabytes(o.prediction.reserved_bytes)});
  out += table.render(style);
  out += paragraph(fmt::format("{}: {}", name, describe(o.best)), style);
  if (o.memory_limit) out += fmt::format("  memory limit {}\n", gigabytes(o.memory_limit));
  if (o.parts.empty() && searched) out += "\n  no change was found that makes the step faster\n";
  if (!o.parts.empty()) {
    out += "\n";
    TextTable parts({{"part", Align::kLeft}, {"without it"}, {"gains"}, {"why", Align::kLeft, false, true}});
    for (const search::OptimizedPart& p : o.parts) {
      parts.row({search::short_use(p.text), p.without > 0 ? short_ms(p.without) + " ms" : "-",
                 fmt::format("{:+.2f} ms", to_ms(p.gain)), p.why});
    }
    out += parts.render(style);
    for (const search::OptimizedPart& p : o.parts) {
      if (!p.may_break.empty())
        out += paragraph(fmt::format("{} assumes: {}", search::short_use(p.text), p.may_break), style);
    }
  }
  if (searched) {
    out += paragraph(
        fmt::format("{} strategies predicted; {}", o.evaluations,
                    o.converged ? "stopped when no move gained anything" : "stopped when the budget was spent"),
        style);
  }
  out += trust_text({&o.prediction}, style);
  if (!o.prediction.not_modelled.empty()) {
    out += "\n  not modelled:\n";
    for (const std::string& n : o.prediction.not_modelled) out += text_line("- " + n, style, 4);
  }
  if (!o.declined.empty()) {
    out += "\n  does not apply here:\n";
    std::vector<std::pair<std::string, std::string>> reasons;
    for (const std::string& d : o.declined) {
      const std::size_t colon = std::min(d.find(": "), d.size());
      reasons.emplace_back(d.substr(0, colon), colon < d.size() ? d.substr(colon + 2) : "");
    }
    out += reasons_text(reasons, style);
  }
  return out;
}

void write_plan(JsonWriter& json, const search::Optimized& o, std::string_view name) {
  json.key(name).begin_object();
  write_times(json, o.prediction).member("speedup", speedup(o));
  json.member("peak_bytes", o.prediction.peak_bytes).member("reserved_bytes", o.prediction.reserved_bytes);
  json.member("about", describe(o.best));
  json.key("strategy").begin_object().member("schema", 1);
  write_strategy(json, o.best);
  json.end_object();
  write_trust(json, o.prediction).end_object();
  json.objects("parts", o.parts, [&](const search::OptimizedPart& p) {
    json.member("part", p.text).member_ms("gain_ms", p.gain).member_ms("without_ms", without(p));
    json.member("saved_bytes", p.saved_bytes).member("why", p.why).member("assumes", p.may_break);
    json.member("code", p.code);
  });
}

std::string to_json(const OptimizeReport& r) {
  const search::Optimized& o = r.found;
  std::string out;
  JsonWriter json(out);
  begin_report(json, "optimize", r.base);
  json.key("baseline").begin_object().member_ms("ms", o.baseline);
  if (o.best.communication) json.member("workers", o.best.communication->workers);
  json.member_ms("traced_ms", r.base.traced).member_ms("unprofiled_ms", r.base.unprofiled);
  json.member_ms("measured_ms", r.base.measured).member("peak_bytes", o.baseline_peak);
  write_steadiness(json, r.base);
  json.end_object();
  write_plan(json, o, "best");
  json.member("memory_limit_bytes", o.memory_limit).member("evaluations", o.evaluations);
  json.member("converged", o.converged);
  json.member("declined", o.declined).end_object();
  return out + "\n";
}

}  // namespace foretrace::report
