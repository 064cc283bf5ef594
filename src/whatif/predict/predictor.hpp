#pragma once
// The driver, taken apart for those who predict many changes of one step: a search asks for hundreds that begin alike.
//
//   const Predictor predictor(base, measured);
//   const Result<SharedModel> half = predictor.apply(nullptr, amp);     // once,
//   const Result<SharedModel> one = predictor.apply(*half, compile);    // and two changes on top of it
//   const Result<SharedModel> other = predictor.apply(*half, cuda_graph);
//   predictor.describe(**one, {amp, compile}, Detail::kStepOnly).step;
//
// whatif::predict is the same for one list of changes.

#include <memory>
#include <optional>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// A model with changes in it. Nobody changes it again, so that everything which begins with these changes shares it, on any
/// thread.
using SharedModel = std::shared_ptr<const Model>;

/// Where more of a step than this is waiting that nothing explains, an answer would only say that nothing changes: declined. A
/// choice; doctor warns from 15 % on.
inline constexpr double kMostFrozenShare = 0.6;

/// A simulated step, and what of it is communication.
struct TimedStep {
  Ns step = 0;
  Ns communication = 0, exposed = 0;
  Ns gpu_time = 0;  ///< kernels and copies of this worker
};

class Predictor {
 public:
  /// `base` must outlive it. Today's step is simulated here, once for all predictions.
  Predictor(const Model& base, std::optional<Ns> measured);

  /// Why no change of this step can be predicted, if so.
  [[nodiscard]] static Status check(const Model& base, bool changes);
  /// One more change behind those of `before`, or of the base where that is null; declined, with the reason, when it does not
  /// apply. `how`: what it took. The caller asks `check` first.
  [[nodiscard]] Result<SharedModel> apply(const Model* before, const Use& use,
                                          Prediction::Applied* how = nullptr) const;
  /// The answer for a model `uses` were applied to: all but `applied` and `graph`.
  [[nodiscard]] Prediction describe(const Model& changed, const std::vector<Use>& uses, Detail detail) const;

 private:
  void describe_memory(Prediction& p, const Model& changed, const std::vector<Use>& uses, Detail detail) const;

  const Model& base_;
  std::optional<Ns> measured_;
  TimedStep today_;
};

/// "amp + fused-optimizer"
std::string text_of(const std::vector<Use>& uses);

}  // namespace foretrace::whatif
