// The kind of a job from its operation log, which names workers by stage and data-parallel rank.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "foretrace/ranks/job.hpp"
#include "ranks/job_kind.hpp"

namespace foretrace::ranks {
namespace {

// The passes of one worker in one step: forward and backward in the order in which they ran.
PipelineShape shape_of(const PipelineJob& job) {
  PipelineShape out;
  out.stages = job.stages;
  if (job.steps.empty()) return out;
  const PipelineJob::Step& step = job.steps.front();
  std::set<std::int64_t> chunks;
  std::uint32_t forward = 0, turns = 0;
  bool back = true;
  std::vector<const PipelineOp*> passes;
  for (std::uint32_t i = step.first; i < step.end; ++i) {
    const PipelineOp& op = job.ops[i];
    const bool computes = op.type == PipelineOpType::kForward || op.type == PipelineOpType::kBackward;
    if (computes && op.dp == 0 && op.stage + 1 == job.stages) passes.push_back(&op);
  }
  std::stable_sort(passes.begin(), passes.end(), [](const auto* a, const auto* b) { return a->start < b->start; });
  for (const PipelineOp* op : passes) {
    const bool backward = op->type == PipelineOpType::kBackward;
    forward += backward ? 0u : 1u;
    turns += backward && !back ? 1u : 0u;
    back = backward;
    chunks.insert(op->chunk);
  }
  out.chunks = static_cast<std::uint32_t>(std::max<std::size_t>(1, chunks.size()));
  out.micro_batches = forward / out.chunks;
  if (out.stages < 2 || out.micro_batches < 2) return out;
  out.schedule = out.chunks > 1 ? Schedule::kInterleaved
                 : turns > 1    ? Schedule::kOneForwardOneBackward
                                : Schedule::kGPipe;
  return out;
}

// Ranks between those that the log names: they work on the same samples and layers.
std::int64_t ranks_per_worker(const PipelineJob& job) {
  std::set<std::int64_t> ranks;
  for (const PipelineOp& op : job.ops) ranks.insert(op.rank);
  std::int64_t apart = 0;
  for (const std::int64_t r : ranks) apart = std::gcd(apart, r - *ranks.begin());
  return std::max<std::int64_t>(1, apart);
}

}  // namespace

LoggedKind kind_of(const PipelineJob& job) {
  LoggedKind out;
  out.shape = shape_of(job);
  out.ranks_per_worker = ranks_per_worker(job);
  const bool shards = std::any_of(job.ops.begin(), job.ops.end(),
                                  [](const PipelineOp& op) { return op.type == PipelineOpType::kGatherParameters; });
  if (job.stages > 1) {
    out.parallel = fmt::format("pp{}", job.stages);
    out.text = in_words(out.shape);
  }
  if (job.dp_size > 1) {
    out.parallel += fmt::format("{}dp{}{}", out.parallel.empty() ? "" : " ", job.dp_size, shards ? " zero1" : "");
    out.text += fmt::format("{}data parallel over {} ranks{}", out.text.empty() ? "" : " × ", job.dp_size,
                            shards ? ", optimizer states sharded (ZeRO-1 or 2)" : "");
  }
  if (out.ranks_per_worker > 1) {
    out.text +=
        fmt::format("; each worker stands for {} ranks (tensor or sequence parallel: the log does not show which)",
                    out.ranks_per_worker);
  }
  return out;
}

}  // namespace foretrace::ranks
