#include "foretrace/report/scale.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/json_writer.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {

ScaleReport scale_report(const Baseline& baseline, const whatif::Strategy& strategy,
                         const hardware::CollectiveModel& collectives, int gpus_per_node,
                         const std::vector<int>& workers) {
  ScaleReport r;
  r.file = baseline.report.file;
  r.step_name = baseline.report.step_name;
  r.device = baseline.report.device;
  r.traced = baseline.report.traced;
  r.unprofiled = baseline.report.unprofiled;
  r.measured = baseline.report.measured;
  r.scheme = std::string(to_string(strategy.scheme));
  r.compression = std::string(to_string(strategy.compression));
  r.network = collectives.name();
  r.gpus_per_node = gpus_per_node;
  r.servers = strategy.servers;
  if (const auto gradients = whatif::find_gradients(baseline.model)) r.gradient_bytes = gradients->bytes();
  for (const int n : workers) {
    Result<whatif::ScalePrediction> p =
        predict_scale(baseline.model, r.measured, strategy, {&collectives, n, gpus_per_node});
    if (p) {
      r.predictions.push_back(std::move(*p));
    } else {
      r.declined.emplace_back(n, p.error().message + (p.error().hint.empty() ? "" : "; " + p.error().hint));
    }
  }
  return r;
}

std::string to_text(const ScaleReport& r, const TextStyle& style) {
  std::string out = fmt::format("{}, {}", r.file, r.step_name);
  if (!r.device.empty()) out += ", " + r.device;
  out += fmt::format("\n  one worker {:.2f} ms{}; gradients {:.1f} MB; {} over {}",
                     to_ms(r.measured.value_or(r.unprofiled)), r.measured ? " (measured)" : "",
                     static_cast<double>(r.gradient_bytes) / 1e6, r.scheme, r.network);
  if (r.servers > 0) out += fmt::format(", {} server{} apart from the workers", r.servers, r.servers == 1 ? "" : "s");
  if (r.compression != "none") out += ", " + r.compression + " gradients";
  out += "\n\n";
  TextTable table(
      {{"workers"}, {"ms"}, {"10 % .. 90 %"}, {"communication"}, {"exposed"}, {"efficiency"}, {"costs", Align::kLeft}});
  for (const whatif::ScalePrediction& p : r.predictions) {
    table.row({fmt::format("{}", p.workers), fmt::format("{:.2f}", to_ms(p.step)),
               fmt::format("{:.2f} .. {:.2f}", to_ms(p.low), to_ms(p.high)),
               fmt::format("{:.2f} ms", to_ms(p.communication)),
               fmt::format("{:.2f} ms", to_ms(p.exposed_communication)), fmt::format("{:.1f} %", 100 * p.efficiency),
               p.origin});
  }
  if (table.rows() > 0) out += table.render(style);
  for (const auto& [n, reason] : r.declined) out += fmt::format("\n  {} workers: declined. {}\n", n, reason);
  std::vector<std::string> notes;
  for (const whatif::ScalePrediction& p : r.predictions) {
    for (const std::string& n : p.not_modelled) {
      if (std::find(notes.begin(), notes.end(), n) == notes.end()) notes.push_back(n);
    }
  }
  if (!notes.empty()) out += "\n  not modelled, or to know:\n";
  for (const std::string& n : notes) out += "    - " + n + "\n";
  return out;
}

std::string to_json(const ScaleReport& r) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("schema", 1).member("verb", "scale").member("file", r.file).member("step", r.step_name);
  json.member("device", r.device).member("parallel", r.scheme).member("network", r.network);
  json.member("compression", r.compression).member("gpus_per_node", r.gpus_per_node).member("servers", r.servers);
  json.member("gradient_bytes", r.gradient_bytes);
  json.key("baseline").begin_object().member("traced_ms", to_ms(r.traced)).member("unprofiled_ms", to_ms(r.unprofiled));
  json.key("measured_ms");
  r.measured ? json.value(to_ms(*r.measured)) : json.null();
  json.end_object().key("predictions").begin_array();
  for (const whatif::ScalePrediction& p : r.predictions) {
    json.begin_object().member("workers", p.workers).member("ms", to_ms(p.step));
    json.member("low_ms", to_ms(p.low)).member("high_ms", to_ms(p.high));
    json.member("exposed_comm_ms", to_ms(p.exposed_communication)).member("comm_ms", to_ms(p.communication));
    json.member("efficiency", p.efficiency).member("buckets", p.buckets).member("peak_bytes", p.peak_bytes);
    json.member("origin", p.origin).member("validated", p.validated);
    json.key("not_modelled").begin_array();
    for (const std::string& n : p.not_modelled) json.value(n);
    json.end_array().end_object();
  }
  for (const auto& [n, reason] : r.declined) {
    json.begin_object().member("workers", n).member("declined", reason).end_object();
  }
  json.end_array().end_object();
  return out + "\n";
}

}  // namespace foretrace::report
