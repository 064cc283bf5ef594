#include "report/scale.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/readable.hpp"
#include "report/prediction_parts.hpp"
#include "report/text_table.hpp"
#include "report/verdict.hpp"

namespace foretrace::report {

std::string to_text(const analysis::ScaleReport& r, const TextStyle& style) {
  std::string out = text_line(headline(r.file, r.step_name, r.device), style);
  std::string now = fmt::format("one worker {} ms{}; gradients {:.1f} MB; {} over {}",
                                short_ms(r.without_collectives.value_or(r.measured.value_or(r.unprofiled))),
                                r.without_collectives ? " (without the collectives of the trace)"
                                : r.measured          ? " measured without the profiler"
                                                      : " without the profiler",
                                static_cast<double>(r.gradient_bytes) / 1e6, r.scheme, r.network);
  if (r.servers > 0) now += fmt::format(", {} server{} on separate machines", r.servers, r.servers == 1 ? "" : "s");
  if (r.compression != "none") now += ", " + r.compression + " gradients";
  if (!r.whatifs.empty()) now += fmt::format("; with {}", fmt::join(r.whatifs, " + "));
  out += text_line(now, style, 2) + steadiness_line(r.steadiness, style) + "\n";
  TextTable table({{"workers"},
                   {"ms"},
                   {"10 % .. 90 %"},
                   {.header = "communication", .drop = 2},
                   {"exposed"},
                   {.header = "other", .drop = 3},
                   {"efficiency"},
                   {.header = "costs", .align = Align::kLeft, .drop = 1}});
  for (const whatif::Prediction& p : r.predictions) {
    table.row({fmt::format("{}", p.workers), short_ms(p.step), band(p.low, p.high), short_ms(p.communication) + " ms",
               short_ms(p.exposed_communication) + " ms", short_ms(r.other_than_exposed(p)) + " ms",
               fmt::format("{:.1f} %", 100 * r.efficiency(p)), p.origin});
  }
  if (table.rows() > 0) {
    out += table.render(style);
    const bool any = std::any_of(r.predictions.begin(), r.predictions.end(),
                                 [&](const whatif::Prediction& p) { return r.other_than_exposed(p) > 0; });
    if (any) {
      out += paragraph(
          "other: the rest of the extra time over one worker's step: waiting for the slowest worker, copies of "
          "gradients or parameters, kernels slowed by collectives on the same GPU, and CPU time to start collectives.",
          style);
    }
  }
  std::vector<std::pair<std::string, std::string>> declined;
  for (const auto& [n, reason] : r.declined) declined.emplace_back(fmt::format("{} workers", n), reason);
  for (const auto& [reason, names] : by_text(declined)) {
    out += paragraph(fmt::format("{}: declined. {}", names, reason), style);
  }
  std::vector<const whatif::Prediction*> shown;
  for (const whatif::Prediction& p : r.predictions) shown.push_back(&p);
  out += trust_text(shown, style);
  std::vector<const std::vector<std::string>*> notes;
  for (const whatif::Prediction& p : r.predictions) notes.push_back(&p.not_modelled);
  return out + not_modelled_text(notes, style);
}

std::string to_json(const analysis::ScaleReport& r) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("schema", 1).member("verb", "scale").member("file", r.file).member("step", r.step_name);
  json.member("device", r.device).member("parallel", r.scheme).member("network", r.network);
  json.member("compression", r.compression).member("gpus_per_node", r.gpus_per_node).member("servers", r.servers);
  json.member("gradient_bytes", r.gradient_bytes).member("whatifs", r.whatifs);
  write_one_rank(json, r.one_rank);
  json.key("baseline").begin_object().member_ms("traced_ms", r.traced).member_ms("unprofiled_ms", r.unprofiled);
  json.member_ms("measured_ms", r.measured).member_ms("without_collectives_ms", r.without_collectives);
  write_steadiness(json, r.steadiness);
  json.end_object().key("predictions").begin_array();
  for (const whatif::Prediction& p : r.predictions) {
    write_times(json.begin_object().member("workers", p.workers), p);
    json.member_ms("exposed_comm_ms", p.exposed_communication).member_ms("comm_ms", p.communication);
    json.member_ms("other_ms", r.other_than_exposed(p));
    json.member("efficiency", r.efficiency(p)).member("buckets", p.buckets).member("peak_bytes", p.peak_bytes);
    write_trust(json, p).end_object();
  }
  for (const auto& [n, reason] : r.declined) {
    json.begin_object().member("workers", n).member("declined", reason).end_object();
  }
  json.end_array().end_object();
  return out + "\n";
}

}  // namespace foretrace::report
