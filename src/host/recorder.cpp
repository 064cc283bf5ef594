#include <simdjson.h>

#include "foretrace/host/measured_step.hpp"

namespace foretrace::host {

std::string recorder_figures(const trace::Trace& trace) {
  const std::string_view raw = trace.metadata_value(kRecorderKey);
  if (raw.empty()) return {};
  simdjson::dom::parser parser, inner;
  simdjson::dom::element value;
  if (parser.parse(raw.data(), raw.size()).get(value) != simdjson::SUCCESS) return {};
  // add_metadata stores its value as a text, add_metadata_json as it is.
  if (std::string_view text; value.get(text) == simdjson::SUCCESS) {
    if (inner.parse(text.data(), text.size()).get(value) != simdjson::SUCCESS) return {};
    return value.is_object() ? simdjson::to_string(value) : std::string();
  }
  return value.is_object() ? simdjson::to_string(value) : std::string();
}

std::optional<double> recorded_ms(const trace::Trace& trace) {
  const std::string figures = recorder_figures(trace);
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  double ms = 0;
  if (figures.empty() || parser.parse(figures).get(value) != simdjson::SUCCESS) return std::nullopt;
  if (value["measured_ms"].get(ms) != simdjson::SUCCESS) return std::nullopt;
  return ms;
}

std::vector<double> recorded_steps(const trace::Trace& trace) {
  std::vector<double> out;
  const std::string figures = recorder_figures(trace);
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  simdjson::dom::array steps;
  if (figures.empty() || parser.parse(figures).get(value) != simdjson::SUCCESS) return out;
  if (value["step_ms"].get(steps) != simdjson::SUCCESS) return out;
  for (const simdjson::dom::element step : steps) {
    if (double ms = 0; step.get(ms) == simdjson::SUCCESS && ms > 0) out.push_back(ms);
  }
  return out;
}

std::optional<std::int64_t> recorded_peak(const trace::Trace& trace) {
  const std::string figures = recorder_figures(trace);
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  std::int64_t bytes = 0;
  if (figures.empty() || parser.parse(figures).get(value) != simdjson::SUCCESS) return std::nullopt;
  if (value["peak_bytes"].get(bytes) != simdjson::SUCCESS || bytes <= 0) return std::nullopt;
  return bytes;
}

namespace {

std::optional<double> time_at(const simdjson::dom::element& figures, const char* table, const char* key) {
  double value = 0;
  if (figures[table][key].get(value) != simdjson::SUCCESS || !(value >= 0)) return std::nullopt;
  return value;
}

}  // namespace

RecordedCpu recorded_cpu(const trace::Trace& trace) {
  RecordedCpu out;
  const std::string figures = recorder_figures(trace);
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  if (figures.empty() || parser.parse(figures).get(value) != simdjson::SUCCESS) return out;
  constexpr const char* kNames[] = {"forward", "backward", "update"};
  for (std::size_t p = 0; p < out.phases.size(); ++p) {
    out.phases[p] = {time_at(value, "phase_ms", kNames[p]), time_at(value, "traced_phase_ms", kNames[p]),
                     time_at(value, "phase_behind_ms", kNames[p])};
  }
  out.probe_view_us = time_at(value, "probe", "view_us");
  return out;
}

}  // namespace foretrace::host
