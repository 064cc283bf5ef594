// From the rows of an operation trace to a pipeline job.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <tuple>

#include "foretrace/ranks/job.hpp"

namespace foretrace::ranks {
namespace {

constexpr std::array<std::string_view, kPipelineOpTypes + 1> kNames = {"forward-compute",
                                                                       "backward-compute",
                                                                       "forward-send",
                                                                       "forward-recv",
                                                                       "backward-send",
                                                                       "backward-recv",
                                                                       "params-all-gather",
                                                                       "grads-reduce-scatter",
                                                                       "layernorm-grads-all-reduce",
                                                                       "embedding-grads-all-reduce",
                                                                       "separate-grads-all-reduce",
                                                                       "optimizer-clip-main-grad",
                                                                       "optimizer",
                                                                       "gc",
                                                                       "unknown"};

// A number of the importer's own tuple.
std::int64_t number(std::string_view tuple, std::string_view key) {
  const std::size_t at = tuple.find(key);
  if (at == std::string_view::npos) return -1;
  std::int64_t value = -1;
  const char* first = tuple.data() + at + key.size();
  std::from_chars(first, tuple.data() + tuple.size(), value);
  return value;
}

}  // namespace

std::string_view to_string(PipelineOpType type) { return kNames[static_cast<std::size_t>(type)]; }

std::string_view group_name(PipelineOpType type) {
  switch (type) {
    case PipelineOpType::kForwardSend:
    case PipelineOpType::kForwardRecv:
      return "forward-pp-comm";
    case PipelineOpType::kBackwardSend:
    case PipelineOpType::kBackwardRecv:
      return "backward-pp-comm";
    default:
      return to_string(type);
  }
}

bool is_pipeline(const trace::Trace& trace) { return trace.format == "operations-csv"; }

Result<PipelineJob> read_pipeline(const trace::Trace& trace) {
  PipelineJob job;
  std::map<std::string, std::uint64_t> unknown;
  std::map<std::int64_t, Ns> begin;
  constexpr std::int64_t kMaxRanks = 1'000'000;
  std::uint64_t far = 0;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    const std::string_view args = trace.args.text(trace.events.args[e]);
    PipelineOp op;
    const std::int64_t dp = number(args, "\"dp_rank\":");
    const std::int64_t stage = number(args, "\"stage\":");
    if (dp < 0 || stage < 0 || dp >= kMaxRanks || stage >= kMaxRanks) {
      ++far;
      continue;
    }
    op.dp = static_cast<std::uint32_t>(dp);
    op.stage = static_cast<std::uint32_t>(stage);
    op.rank = number(args, "\"rank\":");
    op.step = number(args, "\"step\":");
    op.sequence = number(args, "\"seq_id\":");
    op.chunk = number(args, "\"mc\":");
    op.batch = number(args, "\"mb_id\":");
    op.global_chunk = number(args, "\"gmc\":");
    const auto name = std::find(kNames.begin(), kNames.end() - 1, trace.name(e));
    op.type = static_cast<PipelineOpType>(name - kNames.begin());
    if (op.type == PipelineOpType::kUnknown) {
      ++unknown[std::string(trace.name(e))];
      continue;
    }
    op.start = trace.events.start[e];
    op.end = trace.end(e);
    const auto it = begin.try_emplace(op.step, op.start).first;
    it->second = std::min(it->second, op.start);
    job.dp_size = std::max(job.dp_size, op.dp + 1);
    job.stages = std::max(job.stages, op.stage + 1);
    job.ops.push_back(op);
  }
  for (const Problem& p : trace.diagnostics.problems()) {
    job.notes.push_back(fmt::format("{} {} left out", p.count, p.meaning));
  }
  for (const auto& [name, count] : unknown) {
    job.notes.push_back(fmt::format("{} operations of unknown kind '{}' left out", count, name.substr(0, 60)));
  }
  if (far > 0) job.notes.push_back(fmt::format("{} rows of ranks or stages beyond {} left out", far, kMaxRanks));
  const bool computes = std::any_of(job.ops.begin(), job.ops.end(), [](const PipelineOp& o) {
    return o.type == PipelineOpType::kForward || o.type == PipelineOpType::kBackward;
  });
  if (!computes) {
    return tl::unexpected(Error{ErrorCode::kDeclined, "the trace holds no forward or backward computation", trace.path,
                                Error::kNoOffset, "rows of optype forward-compute and backward-compute are needed"});
  }
  // Times count from the begin of each step.
  for (PipelineOp& op : job.ops) {
    op.start -= begin[op.step];
    op.end -= begin[op.step];
  }
  std::stable_sort(job.ops.begin(), job.ops.end(), [](const PipelineOp& a, const PipelineOp& b) {
    const auto key = [](const PipelineOp& o) { return std::tuple(o.step, o.dp, o.stage, o.start, o.sequence, o.type); };
    return key(a) < key(b);
  });
  for (std::uint32_t i = 0; i < job.ops.size(); ++i) {
    if (job.steps.empty() || job.steps.back().number != job.ops[i].step)
      job.steps.push_back({job.ops[i].step, i, i, 0});
    job.steps.back().end = i + 1;
    job.steps.back().traced = std::max(job.steps.back().traced, job.ops[i].end);
  }
  return job;
}

}  // namespace foretrace::ranks
