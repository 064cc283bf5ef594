#pragma once
// Prediction, in three parts: whether a step can be predicted at all (check), a change applied to it (apply_use), and the
// changed step described (Predictor). predict() is all of them for one list of changes; the search calls them separately to share
// the prefixes of hundreds of lists (search/evaluate.hpp).

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "foretrace/whatif/whatif.hpp"
#include "whatif/predict/bounds.hpp"

namespace foretrace::whatif {

/// A model with changes in it. It is never changed again, so that all predictions which begin with these changes share it, on
/// any thread.
using SharedModel = std::shared_ptr<const Model>;

/// Above this share of waits that nothing in the trace explains and no change shortens, a prediction would only say that nothing
/// changes, and is declined. A choice.
inline constexpr double kMostFrozenShare = 0.6;

/// The GPU to which a list of changes moves the step, as it was named: that of the last change that moves it; empty: none does.
std::string target_of(std::span<const Use> uses);

/// Applies one change: the only place where a change meets a step, whoever asks. `target`: the GPU to which later changes move
/// the step, "" for none; a change without an effect there is noted and left out. `how`: what it did. Declined, with the
/// reason, when the change does not apply.
Result<Model> apply_use(Model model, const Use& use, const std::string& target, Prediction::Applied& how);
/// The same for a job: the change made on each rank, and the changed ranks joined. A rank on which it does not apply stays as it is,
/// and a note says why; declined when it applies to none.
Result<Model> apply_to_ranks(const Model& job, const Use& use, const std::string& target, Prediction::Applied& how);

/// The order in which changes are applied: as given, but those that repeat work come behind those that change the work they repeat.
std::vector<Use> order_of_application(std::vector<Use> uses);

/// All changes, in the order of application.
Result<Model> apply_uses(const Model& base, const std::vector<Use>& uses,
                         std::vector<Prediction::Applied>* applied = nullptr);

/// A simulated step, and its communication.
struct TimedStep {
  Ns step = 0;
  Ns communication = 0, exposed = 0;
  Ns gpu_time = 0;  ///< kernels and copies of this worker
};

class Predictor {
 public:
  /// `base` must outlive it. `measured`: today's step without the profiler, where known. Today's step is simulated here, once
  /// for all predictions.
  Predictor(const Model& base, std::optional<Ns> measured);

  /// Why no change of this step can be predicted, if so.
  [[nodiscard]] static Status check(const Model& base, bool changes);
  /// The prediction for a model that `uses` were applied to: everything but `applied` and `graph`.
  [[nodiscard]] Prediction describe(const Model& changed, const std::vector<Use>& uses, Detail detail) const;

 private:
  void describe_memory(Prediction& p, const Model& changed, const std::vector<Use>& uses, Detail detail) const;

  const Model& base_;
  std::optional<Ns> measured_;
  TimedStep today_;
  Bounds bounds_;
};

/// Of a use that measured steps do not support in full, why: all of it, or settings that no measured step had.
std::vector<std::string> doubts(const Use& use);
/// Takes out what stands in the list twice.
void keep_first(std::vector<std::string>& list);

/// What analysis::predict answers, for a model rather than a baseline.
Prediction predict(const Model& base, const std::vector<Use>& uses, std::optional<Ns> measured,
                   Detail detail = Detail::kFull);

/// GPU time by family of kernels and origin of its cost.
std::vector<FamilyTime> family_times(const Model& model);

}  // namespace foretrace::whatif
