#include "foretrace/analysis/baseline.hpp"

#include "analysis/make_model.hpp"
#include "analysis/steadiness.hpp"
#include "foretrace/memory/memory.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "hardware/figures.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::analysis {

namespace {

Result<Baseline> of_step(const trace::Trace& trace, std::optional<std::int64_t> number,
                         const host::UserMeasurements& measurements) {
  const trace::Steps steps = trace::find_steps(trace);
  if (steps.steps.empty()) {
    return fail(ErrorCode::kDeclined, "the trace holds no step", "record at least one step with torch.profiler");
  }
  // Not StepGraphs: what-ifs need the events behind the tasks, which an exported graph does not bring along.
  const graph::GraphBuilder builder(trace, steps, hardware::latencies_of(trace));
  std::size_t index = builder.median();
  if (number) {
    FORETRACE_TRY(index, steps.by_number(*number));
  }
  FORETRACE_TRY(const graph::Graph graph, build_graph(builder, index));
  return make_baseline(trace, steps.steps[index], graph, measurements);
}

}  // namespace

Result<Baseline> make_baseline(const trace::Trace& trace, const trace::Step& step, const graph::Graph& graph,
                               const host::UserMeasurements& measurements) {
  Baseline b;
  StepFigures& f = b.figures;
  f.file = trace.path;
  f.step_name = graph.step_name;
  f.traced = graph.traced;
  f.replayed = simulate::steady_state(graph).timeline.step;
  if (const std::string why = cold_refusal(graph, f.replayed); !why.empty()) {
    return fail(ErrorCode::kDeclined, why, std::string(kRecordWarmSteps));
  }
  f.startup = graph.notes.startup;
  f.allocator = graph.notes.allocator;
  f.steadiness = steadiness_text(graph);
  if (graph.periodic && graph.period > 0) f.period = graph.period;
  FORETRACE_TRY(host::Measured measured, measured_step(trace, graph, f.replayed, measurements));
  f.measured = measured.step;
  f.measured_refused = std::move(measured.refused);
  FORETRACE_TRY(b.model, make_model(trace, step, graph, f.replayed, f.measured, measured.prior));
  f.device = b.model.device.name;
  f.memory_gb = b.model.device.reported_gb;
  f.unprofiled = b.model.base.step;
  f.unprofiled_low = b.model.base.low;
  f.unprofiled_high = b.model.base.high;
  f.gpu_families = whatif::family_times(b.model);
  f.verdict = step_verdict(trace, graph, b.model.graph);
  f.one_rank = one_rank_of_job(trace, graph);
  if (f.one_rank) b.model.not_modelled.push_back(f.one_rank->sentence());
  if (b.model.memory) {
    f.peak_bytes = b.model.memory->peak_bytes;
    f.reserved_bytes = memory::reserved(*b.model.memory, b.model.memory->peak_bytes);
    f.peak_parts = memory::composition(*b.model.memory, *f.reserved_bytes);
  }
  return b;
}

Result<Baseline> make_baseline(const trace::Trace& trace, std::optional<std::int64_t> number,
                               const host::UserMeasurements& measurements) {
  Result<Baseline> baseline = of_step(trace, number, measurements);
  if (!baseline && baseline.error().file.empty()) baseline.error().file = trace.path;
  return baseline;
}

Result<std::vector<whatif::Use>> parse_uses(const std::vector<std::string>& texts) {
  std::vector<whatif::Use> uses;
  for (const std::string& text : texts) {
    FORETRACE_TRY(whatif::Use use, whatif::parse_use(text));
    uses.push_back(std::move(use));
  }
  return uses;
}

whatif::Prediction predict(const Baseline& baseline, const std::vector<whatif::Use>& uses, whatif::Detail detail) {
  return whatif::predict(baseline.model, uses, baseline.figures.measured, detail);
}

}  // namespace foretrace::analysis
