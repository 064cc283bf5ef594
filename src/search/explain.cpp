#include "search/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "search/evaluate.hpp"
#include "search/moves/strategy_move.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/model/fitting.hpp"

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
void compare(const whatif::Prediction& without, const Path& path, const whatif::Prediction& with_it, const Path& best,
             OptimizedPart& part) {
  if (!without.declined.empty()) return;
  part.without = without.step;
  part.gain = without.step - with_it.step;
  if (without.peak_bytes && with_it.peak_bytes) part.saved_bytes = *without.peak_bytes - *with_it.peak_bytes;
  if (with_it.pipeline) return;  // no one critical path
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

void explain(Evaluator& evaluator, const Strategy& as_it_is, bool parts, Optimized& out) {
  using whatif::Detail;
  std::vector<Evaluator::Question> questions{{out.best, Detail::kFull}};
  const Result<std::vector<whatif::Use>> uses = uses_of(out.best);
  if (uses && parts) {
    for (std::size_t i = 0; i < uses->size(); ++i) {
      const whatif::Use& use = (*uses)[i];
      OptimizedPart part;
      part.text = use.text;
      part.code = whatif::code_of(use, whatif::fullest_rank(evaluator.base().model));
      part.may_break = use.whatif->assumes;
      out.parts.push_back(std::move(part));
      Strategy others = out.best;
      others.whatifs.erase(others.whatifs.begin() + static_cast<std::ptrdiff_t>(i));
      questions.push_back({std::move(others), Detail::kStepOnly});
    }
    if (out.best.communication != as_it_is.communication) {
      OptimizedPart part;
      part.text = "communication";
      part.may_break = "the network as described; workers that start together";
      out.parts.push_back(std::move(part));
      questions.push_back({out.best, Detail::kStepOnly});
      questions.back().strategy.communication = as_it_is.communication;
    }
  }
  std::vector<Path> paths(questions.size());
  std::vector<whatif::Prediction> answers =
      evaluator.predict(questions, [&](std::size_t q, const whatif::Model& m) { paths[q] = path_of(m.graph); });
  out.prediction = std::move(answers[0]);
  if (!out.prediction.declined.empty()) out.parts.clear();
  for (std::size_t i = 0; i < out.parts.size(); ++i) {
    compare(answers[i + 1], paths[i + 1], out.prediction, paths[0], out.parts[i]);
  }
}

Optimized explain_strategy(const analysis::Baseline& base, const Strategy& strategy) {
  Optimized out;
  out.best = strategy;
  Strategy as_it_is;
  if (const auto& c = strategy.communication) as_it_is.communication = plain_communication(*c);
  Evaluator evaluator(base, 0, std::nullopt);
  const Evaluation today = evaluator.evaluate({as_it_is}).front();
  out.baseline = today.step;
  out.baseline_peak = today.peak_bytes;
  out.memory_limit = memory_limit(base.model, std::nullopt);
  explain(evaluator, as_it_is, true, out);
  return out;
}

}  // namespace foretrace::search
