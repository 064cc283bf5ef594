#include "search/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "search/evaluate.hpp"
#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

struct Path {
  Ns cpu = 0, gpu = 0, communication = 0, waits = 0;
};

Path path_of(const graph::Graph& g) {
  const simulate::SteadyState run = simulate::steady_state(g);
  const simulate::Breakdown b = simulate::breakdown(run.graph_of(g), run.timeline);
  return {b.path_cpu, b.path_gpu, b.path_communication, b.path_waits};
}

// What the step would be without a part.
void compare(const whatif::Prediction& without, const whatif::Prediction& with_it, const Path& best,
             OptimizedPart& part) {
  if (!without.declined.empty()) return;
  part.without = without.step;
  part.gain = without.step - with_it.step;
  if (without.peak_bytes && with_it.peak_bytes) part.saved_bytes = *without.peak_bytes - *with_it.peak_bytes;
  const Path path = path_of(without.graph);
  const std::pair<Ns, std::string_view> shorter[] = {{path.gpu - best.gpu, "the GPU's part"},
                                                     {path.cpu - best.cpu, "the CPU's part"},
                                                     {path.communication - best.communication, "the network's part"},
                                                     {path.waits - best.waits, "the waits"}};
  const auto most = *std::max_element(std::begin(shorter), std::end(shorter));
  if (part.gain > 0 && most.first > 0) {
    part.why = fmt::format("shortens {} of the critical path by {:.2f} ms", most.second,
                           to_ms(std::min(most.first, part.gain)));
  } else if (part.saved_bytes && *part.saved_bytes > 0) {
    part.why = fmt::format("saves {:.2f} GB of the peak", static_cast<double>(*part.saved_bytes) / 1e9);
  } else if (part.gain > 0) {
    part.why = "shortens the step where it waits for others";
  }
}

}  // namespace

void explain(const analysis::Baseline& base, const Strategy& as_it_is, Optimized& out) {
  out.prediction = predict_strategy(base, out.best);
  if (!out.prediction.declined.empty()) return;
  const Path best = path_of(out.prediction.graph);
  const auto without = [&](const Strategy& others) {
    return predict_strategy(base, others, whatif::Detail::kStepOnly);
  };
  const Result<std::vector<whatif::Use>> uses = uses_of(out.best);
  if (!uses) return;
  for (std::size_t i = 0; i < uses->size(); ++i) {
    const whatif::Use& use = (*uses)[i];
    OptimizedPart part;
    part.text = use.text;
    part.code = use.whatif->code;
    part.may_break = use.whatif->assumes;
    Strategy others = out.best;
    others.whatifs.erase(others.whatifs.begin() + static_cast<std::ptrdiff_t>(i));
    compare(without(others), out.prediction, best, part);
    out.parts.push_back(std::move(part));
  }
  if (out.best.communication != as_it_is.communication) {
    OptimizedPart part;
    part.text = "communication";
    part.may_break = "the network as described; workers that start together";
    Strategy others = out.best;
    others.communication = as_it_is.communication;
    compare(without(others), out.prediction, best, part);
    out.parts.push_back(std::move(part));
  }
}

Optimized explain_strategy(const analysis::Baseline& base, const Strategy& strategy) {
  Optimized out;
  out.best = strategy;
  Strategy as_it_is;
  if (const auto& c = strategy.communication) as_it_is.communication = plain_communication(*c);
  const whatif::Prediction today = predict_strategy(base, as_it_is, whatif::Detail::kStepOnly);
  out.baseline = today.step;
  out.baseline_peak = today.peak_bytes;
  out.memory_limit = memory_limit(base.model, std::nullopt);
  explain(base, as_it_is, out);
  return out;
}

}  // namespace foretrace::search
