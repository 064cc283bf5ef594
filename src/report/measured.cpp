#include "foretrace/report/measured.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include "foretrace/whatif/measured_step.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

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

Result<Measured> measured_step(const trace::Trace& trace, const graph::Graph& graph, std::optional<double> told) {
  Measured out;
  if (told) {
    Result<Ns> step = whatif::plausible_step(graph, *told);
    if (!step) {
      step.error().message = "--measured-ms: " + step.error().message;
      return forward(step);
    }
    out.step = *step;
    return out;
  }
  const std::optional<double> stored = recorded_ms(trace);
  if (!stored) return out;
  const Result<Ns> step = whatif::plausible_step(graph, *stored);
  if (step) {
    out.step = *step;
    out.recorded = true;
  } else {
    out.refused = fmt::format("the measured step the recorder stored is not used: {} ({})", step.error().message,
                              step.error().hint);
  }
  return out;
}

void write_refused(JsonWriter& json, const std::string& why) {
  if (!why.empty()) json.member("measured_refused", why);
}

}  // namespace foretrace::report
