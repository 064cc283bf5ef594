// Reads the recorder's figures, once, into a struct. A figure of the wrong type counts as missing.

#include <simdjson.h>

#include "foretrace/host/measured_step.hpp"

namespace foretrace::host {

namespace {

std::optional<double> time_at(const simdjson::dom::element& figures, const char* table, const char* key) {
  double value = 0;
  if (figures[table][key].get(value) != simdjson::SUCCESS || !(value >= 0)) return std::nullopt;
  return value;
}

}  // namespace

std::string recorder_json(const trace::Trace& trace) {
  const std::string_view raw = trace.metadata_value(kRecorderKey);
  simdjson::dom::parser parser, inner;
  simdjson::dom::element value;
  if (raw.empty() || parser.parse(raw.data(), raw.size()).get(value) != simdjson::SUCCESS) return {};
  // The profiler's add_metadata stores its value as a string, add_metadata_json as it is.
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS && inner.parse(text.data(), text.size()).get(value) != simdjson::SUCCESS)
    return {};
  return value.is_object() ? simdjson::to_string(value) : std::string();
}

RecorderFigures recorder_figures(const trace::Trace& trace) {
  RecorderFigures out;
  const std::string json = recorder_json(trace);
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  if (json.empty() || parser.parse(json).get(value) != simdjson::SUCCESS) return out;
  if (double ms = 0; value["measured_ms"].get(ms) == simdjson::SUCCESS) out.measured_ms = ms;
  if (simdjson::dom::array steps; value["step_ms"].get(steps) == simdjson::SUCCESS) {
    for (const simdjson::dom::element step : steps) {
      if (double ms = 0; step.get(ms) == simdjson::SUCCESS && ms > 0) out.step_ms.push_back(ms);
    }
  }
  if (std::int64_t bytes = 0; value["peak_bytes"].get(bytes) == simdjson::SUCCESS && bytes > 0) out.peak_bytes = bytes;
  constexpr const char* kPhases[] = {"forward", "backward", "update"};
  for (std::size_t p = 0; p < out.phases.size(); ++p) {
    out.phases[p] = {time_at(value, "phase_ms", kPhases[p]), time_at(value, "traced_phase_ms", kPhases[p]),
                     time_at(value, "phase_behind_ms", kPhases[p])};
  }
  out.probe_view_us = time_at(value, "probe", "view_us");
  return out;
}

}  // namespace foretrace::host
