#pragma once
// A recorded pipeline with other micro-batches or another order: every rank runs its recorded passes again as the new schedule says,
// and messages carry them between the stages.

#include <memory>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/draft.hpp"
#include "simulate/pipeline_schedule.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/job/pipeline_passes.hpp"

namespace foretrace::whatif {

class Reschedule {
 public:
  /// `micro_batches` 0 and no schedule: as recorded.
  static Result<Reschedule> make(const JobModels& job, std::uint32_t micro_batches,
                                 std::optional<simulate::ScheduleKind> schedule);

  Status apply(std::size_t slot, Model& model, Draft& draft) const;
  /// With messages in place of the recorded ones.
  [[nodiscard]] std::shared_ptr<const JobTies> ties() const { return ties_; }
  [[nodiscard]] bool changes() const { return before_ != after_; }
  [[nodiscard]] std::uint32_t recorded_micro_batches() const { return before_.micro_batches; }

 private:
  /// The two ends of what goes from a stage to the next one, or back: events by which both know their messages.
  struct Rank {
    std::uint32_t stage = 0;
    PipelinePasses passes;
    std::uint32_t from_previous = kNone, to_next = kNone, from_next = kNone, to_previous = kNone;
  };
  struct Plan {
    simulate::ScheduleKind schedule;
    std::uint32_t micro_batches;
    bool operator==(const Plan&) const = default;
  };

  Status read_ranks(const JobModels& job);
  Status tie(const JobModels& job);

  std::vector<Rank> ranks_;  // by slot
  std::uint32_t stages_ = 0;
  Plan before_{}, after_{};
  simulate::PipelineSchedule schedule_;
  std::shared_ptr<const JobTies> ties_;
};

}  // namespace foretrace::whatif
