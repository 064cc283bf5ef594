#pragma once
// The models of all ranks of a job, and all of them as one.
//
//   rank 0   … ─▶ arrive ───────────▶ transfer ─▶ …      A collective's kernel becomes an arrival without a cost and what follows it.
//                        ╲  ╱             │              The transfer starts when the last member has arrived. It is on the stream of
//                         ╳               │              the member that is done first; what the others need longer is theirs.
//                        ╱  ╲             ▼
//   rank 1   … ─▶ arrive ───────────▶  the rest ─▶ …
//
// Arrivals lead to the transfer and the transfer to the others' rests, so a collective of n ranks has 2n dependencies. A task on a
// lane of the job's own waits for the last task of every rank: its end is the end of the step.

#include <cstdint>
#include <memory>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "whatif/job/meetings.hpp"

namespace foretrace::whatif {

/// What ranks have in common before and after any change.
struct JobTies {
  std::vector<Meeting> meetings;
  std::vector<std::uint32_t>
      slot_of_rank;  ///< by index into ranks::Job::ranks: its place among the models; kNone: it has none
  std::vector<std::int64_t> numbers;  ///< of the ranks, by slot
  std::vector<char> changes;          ///< by slot: whether changes are made on this rank
  std::vector<std::uint32_t> peers;   ///< by slot: ranks of the same number do the same work by construction
  std::vector<std::uint32_t> stage;   ///< by slot: of the pipeline; all 0 without one
};

/// A collective of one rank in the joined graph, where it waits for others.
struct Joint {
  std::uint32_t slot;
  std::uint32_t arrive;    ///< task
  std::uint32_t tail;      ///< task: the transfer, or what is left of it
  std::uint32_t transfer;  ///< task: the transfer it waits for
};

struct JobModels {
  std::shared_ptr<const JobTies> ties;
  std::vector<std::shared_ptr<const Model>> ranks;  ///< by slot
  std::size_t fullest = 0;                          ///< the slot with the highest peak
  // Of the joined graph:
  std::vector<std::vector<Joint>> collectives;
  std::vector<std::uint32_t> slot_of_lane;  ///< kNone: the job's own
};

/// In a rank's own graph: its collectives at the cost of their transfers. `rank`: index into ranks::Job::ranks.
void take_out_waits(graph::Graph& graph, std::uint32_t rank, const std::vector<Meeting>& meetings);

/// All ranks as one model. Declined when the collectives of the ranks contradict each other's order.
Result<Model> join(std::shared_ptr<const JobTies> ties, std::vector<std::shared_ptr<const Model>> ranks);

/// Where each rank of a joined model spends its step.
std::vector<RankTime> rank_times(const Model& job);

/// The GPU of a model, and of each rank of a job.
void set_device(Model& model, const hardware::Device& device);

/// The model that memory, kernels and operations are asked of: of a job the rank with the highest peak, else the model itself.
const Model& fullest_rank(const Model& model);

}  // namespace foretrace::whatif
