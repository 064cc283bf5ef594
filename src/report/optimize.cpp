#include "foretrace/report/optimize.hpp"

#include <fmt/format.h>

#include "report/json_writer.hpp"
#include "report/strategy_json.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {

namespace {

std::string gigabytes(std::optional<std::int64_t> bytes) {
  return bytes ? fmt::format("{:.2f} GB", static_cast<double>(*bytes) / 1e9) : "-";
}

}  // namespace

std::string to_text(const OptimizeReport& r, const TextStyle& style) {
  const search::Optimized& o = r.found;
  std::string out = fmt::format("{}, {}", r.base.file, r.base.step_name);
  if (!r.base.device.empty()) out += ", " + r.base.device;
  if (const auto& c = o.best.communication) {
    out += fmt::format(", {} workers over {}", c->workers, c->fabric.empty() ? "measured collectives" : c->fabric);
  }
  out += "\n\n";
  TextTable table({{"", Align::kLeft}, {"ms"}, {"10 % .. 90 %"}, {"speed-up"}, {"peak"}});
  table.row({"today", fmt::format("{:.2f}", to_ms(o.baseline)),
             o.best.communication ? "predicted"
             : r.base.measured
                 ? "measured"
                 : fmt::format("{:.2f} .. {:.2f}", to_ms(r.base.unprofiled_low), to_ms(r.base.unprofiled_high)),
             "1.00 x", gigabytes(o.baseline_peak)});
  const double speedup =
      o.prediction.step > 0 ? static_cast<double>(o.baseline) / static_cast<double>(o.prediction.step) : 0;
  table.row({"best", fmt::format("{:.2f}", to_ms(o.prediction.step)),
             fmt::format("{:.2f} .. {:.2f}", to_ms(o.prediction.low), to_ms(o.prediction.high)),
             fmt::format("{:.2f} x", speedup), gigabytes(o.prediction.peak_bytes)});
  out += table.render(style);
  out += fmt::format("\n  best: {}\n", describe(o.best));
  if (o.memory_limit) out += fmt::format("  memory limit {}\n", gigabytes(o.memory_limit));
  if (o.parts.empty()) out += "\n  nothing found that pays\n";
  if (!o.parts.empty()) {
    out += "\n";
    TextTable parts({{"part", Align::kLeft}, {"without it"}, {"gains"}, {"why", Align::kLeft, true}});
    for (const search::OptimizedPart& p : o.parts) {
      parts.row({search::short_use(p.text), p.without > 0 ? fmt::format("{:.2f} ms", to_ms(p.without)) : "-",
                 fmt::format("{:+.2f} ms", to_ms(p.gain)), p.why});
    }
    out += parts.render(style);
    for (const search::OptimizedPart& p : o.parts) {
      if (!p.may_break.empty()) out += fmt::format("\n  {} assumes: {}", search::short_use(p.text), p.may_break);
    }
    out += "\n";
  }
  out += fmt::format("\n  {} strategies predicted; {}\n", o.evaluations,
                     o.converged ? "ended because no move gained any more" : "ended with its budget");
  if (!o.prediction.not_modelled.empty()) {
    out += "\n  not modelled:\n";
    for (const std::string& n : o.prediction.not_modelled) out += "    - " + n + "\n";
  }
  if (!o.declined.empty()) {
    out += "\n  does not apply here:\n";
    for (const std::string& d : o.declined) out += "    - " + d + "\n";
  }
  return out;
}

std::string to_json(const OptimizeReport& r) {
  const search::Optimized& o = r.found;
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("schema", 1).member("verb", "optimize").member("file", r.base.file);
  json.member("step", r.base.step_name).member("device", r.base.device);
  json.key("baseline").begin_object().member("ms", to_ms(o.baseline));
  if (o.best.communication) json.member("workers", o.best.communication->workers);
  json.member("traced_ms", to_ms(r.base.traced)).member("unprofiled_ms", to_ms(r.base.unprofiled));
  json.key("measured_ms");
  r.base.measured ? json.value(to_ms(*r.base.measured)) : json.null();
  json.member("peak_bytes", o.baseline_peak).end_object();
  json.key("best").begin_object();
  json.member("ms", to_ms(o.prediction.step)).member("low_ms", to_ms(o.prediction.low));
  json.member("high_ms", to_ms(o.prediction.high));
  json.member("speedup",
              o.prediction.step > 0 ? static_cast<double>(o.baseline) / static_cast<double>(o.prediction.step) : 0.0);
  json.member("peak_bytes", o.prediction.peak_bytes).member("about", describe(o.best));
  json.key("strategy").begin_object().member("schema", 1);
  write_strategy(json, o.best);
  json.end_object().member("origin", o.prediction.origin).member("validated", o.prediction.validated);
  json.key("not_modelled").begin_array();
  for (const std::string& n : o.prediction.not_modelled) json.value(n);
  json.end_array().end_object();
  json.key("parts").begin_array();
  for (const search::OptimizedPart& p : o.parts) {
    json.begin_object().member("part", p.text).member("gain_ms", to_ms(p.gain));
    json.key("without_ms");
    p.without > 0 ? json.value(to_ms(p.without)) : json.null();
    json.member("saved_bytes", p.saved_bytes).member("why", p.why).member("assumes", p.may_break);
    json.member("code", p.code).end_object();
  }
  json.end_array();
  json.member("memory_limit_bytes", o.memory_limit).member("evaluations", o.evaluations);
  json.member("converged", o.converged);
  json.key("declined").begin_array();
  for (const std::string& d : o.declined) json.value(d);
  json.end_array().end_object();
  return out + "\n";
}

}  // namespace foretrace::report
