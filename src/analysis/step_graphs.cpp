#include <simdjson.h>

#include <charconv>
#include <cmath>

#include "analysis/steadiness.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "hardware/figures.hpp"

namespace foretrace::analysis {
namespace {

// "ProfilerStep#4" -> 4, "step 2" -> 2.
std::int64_t number_in(std::string_view name) {
  const std::size_t before = name.find_last_not_of("0123456789");
  const std::string_view digits = name.substr(before == std::string_view::npos ? 0 : before + 1);
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// Where the measured step begins on the clock of an exported file: at 0, unless something in it is before its step.
Ns start_of(const trace::Trace& trace, std::string_view step) {
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (trace.kind(e) == trace::EventKind::kAnnotation && trace.name(e) == step) return trace.events.start[e];
  }
  return 0;
}

}  // namespace

Result<graph::Graph> embedded_graph(const trace::Trace& trace) {
  const auto wrong = [&](ErrorCode code, std::string message, std::string hint) {
    return tl::unexpected(Error{code, std::move(message), trace.path, Error::kNoOffset, std::move(hint)});
  };
  const std::string_view raw = trace.metadata_value(kGraphKey);
  if (raw.empty()) {
    return wrong(ErrorCode::kDeclined, "the file holds no graph", "`foretrace export` writes files that do");
  }
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  std::string_view text;
  if (parser.parse(raw.data(), raw.size()).get(value) != simdjson::SUCCESS || value.get(text) != simdjson::SUCCESS) {
    return wrong(ErrorCode::kUnreadable, "the graph in this file is not a text", "export it again");
  }
  Result<graph::Graph> parsed = graph::parse(text);
  Status sound = parsed ? graph::verify(*parsed) : Status{};
  if (parsed && sound) return parsed;
  const Error& error = parsed ? sound.error() : parsed.error();
  return wrong(ErrorCode::kUnreadable, "the graph in this file cannot be used: " + error.message, "export it again");
}

Result<StepGraphs> StepGraphs::open(const trace::Trace& trace, trace::Steps steps) {
  StepGraphs out(trace.path, std::move(steps));
  if (!trace.metadata_value(kGraphKey).empty()) {
    FORETRACE_TRY(out.embedded_, embedded_graph(trace));
    const graph::Graph& g = *out.embedded_;
    // The file shows this step and nothing else.
    const Ns start = start_of(trace, g.step_name);
    *out.steps_ = {trace::StepSource::kProfilerStep,
                   {{g.step_name, number_in(g.step_name), start, start + g.traced, LaneId{}}}};
    return out;
  }
  out.builder_.emplace(trace, *out.steps_, hardware::latencies_of(trace));
  return out;
}

Result<std::size_t> StepGraphs::choose(std::optional<std::int64_t> number) const {
  if (steps_->steps.empty()) {
    return tl::unexpected(Error{ErrorCode::kDeclined, "the trace holds no event with a duration, so there is no step",
                                file_, Error::kNoOffset, "`foretrace doctor` shows what the file does hold"});
  }
  return number ? steps_->by_number(*number) : median();
}

Result<graph::Graph> StepGraphs::graph(std::size_t step, const graph::BuildOptions& options) const {
  if (embedded_) return *embedded_;
  Result<graph::Graph> built = build_graph(*builder_, step, options);
  if (!built && built.error().file.empty()) built.error().file = file_;
  return built;
}

}  // namespace foretrace::analysis
