#include "foretrace/analysis/recorder.hpp"

#include <simdjson.h>

namespace foretrace::analysis {

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

}  // namespace foretrace::analysis
