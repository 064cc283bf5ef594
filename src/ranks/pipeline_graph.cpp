// The graph of one step of a pipeline job: lanes of every worker, and transfers on lanes of their own.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "foretrace/ranks/job.hpp"
#include "ranks/merge.hpp"

namespace foretrace::ranks {
namespace {

using graph::DependencyKind;
using graph::GraphLaneKind;
using graph::TaskKind;
using Type = PipelineOpType;

/// What identifies a transfer: kind, then what distinguishes groups of that kind, then its number in order.
using MeetingKey = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

/// The operations of one worker, indices into the step's ops, each list in order of time.
struct Worker {
  std::array<std::vector<std::uint32_t>, kPipelineOpTypes> of;
  std::vector<std::uint32_t> compute;  // forward and backward together
};

class Builder {
 public:
  Builder(const PipelineJob& job, const PipelineJob::Step& step, PipelineGraph& out)
      : job_(job), step_(step), out_(out), merger_(out.graph) {}

  void run() {
    const std::size_t n = step_.end - step_.first;
    out_.task.assign(n, kNone);
    out_.arrive.assign(n, kNone);
    out_.wait.assign(n, 0);
    out_.cost.resize(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      out_.cost[i] = op(i).end - op(i).start;
      workers_[{op(i).dp, op(i).stage}].of[static_cast<std::size_t>(op(i).type)].push_back(i);
    }
    overlaps_ = std::any_of(workers_.begin(), workers_.end(), [](const auto& w) {
      return !w.second.of[static_cast<std::size_t>(Type::kSeparateGradients)].empty();
    });
    out_.graph.step_name = fmt::format("step {}", step_.number);
    out_.graph.traced = step_.traced;
    merger_.open_lane(GraphLaneKind::kCpu, "job");
    begin_ = merger_.add_task(TaskKind::kBegin, 0, 0, out_.graph.step_name);
    end_ = merger_.add_task(TaskKind::kWait, 0, step_.traced, "all workers are done");
    merger_.close_lane();
    out_.graph.last = TaskId{end_};
    for (auto& [id, worker] : workers_) lay_out(id, worker);
    for (auto& [id, worker] : workers_) join_transfers(worker);
    set_costs();
    for (auto& [id, worker] : workers_) bind(worker);
    hubs();
    merger_.finish();
  }

 private:
  [[nodiscard]] const PipelineOp& op(std::uint32_t i) const { return job_.ops[step_.first + i]; }
  static std::vector<std::uint32_t>& of(Worker& w, Type t) { return w.of[static_cast<std::size_t>(t)]; }

  void add(std::uint32_t i) {
    const PipelineOp& o = op(i);
    const std::string_view name = to_string(o.type);
    if (joins_ranks(o.type)) {
      out_.arrive[i] = merger_.add_task(TaskKind::kCollective, 0, o.start, name);
      out_.task[i] = merger_.add_task(TaskKind::kCollective, 0, o.start, name);
    } else {
      out_.arrive[i] = out_.task[i] = merger_.add_task(TaskKind::kKernel, 0, o.start, name);
    }
  }

  // Layer-norm gradients are summed within a worker's tensor-parallel peers, which the trace does not show.
  static bool joins_ranks(Type t) { return is_transfer(t) && t != Type::kLayerNormGradients; }

  void lay_out(const std::pair<std::uint32_t, std::uint32_t>& id, Worker& w) {
    const auto lane = [&](std::string_view name, std::span<const std::uint32_t> ops) {
      if (ops.empty()) return;
      merger_.open_lane(GraphLaneKind::kGpu, fmt::format("dp {} stage {} {}", id.first, id.second, name));
      for (const std::uint32_t i : ops) add(i);
      merger_.close_lane();
      merger_.depend(static_cast<std::uint32_t>(out_.graph.size() - 1), end_, 0, DependencyKind::kThread);
    };
    w.compute = of(w, Type::kForward);
    w.compute.insert(w.compute.end(), of(w, Type::kBackward).begin(), of(w, Type::kBackward).end());
    std::sort(w.compute.begin(), w.compute.end());  // ops of a worker are in order of time
    std::vector<std::uint32_t> line = w.compute;
    const auto append = [&](Type t) { line.insert(line.end(), of(w, t).begin(), of(w, t).end()); };
    append(Type::kGarbage);
    lane("compute", line);
    for (const Type t : {Type::kForwardSend, Type::kForwardRecv, Type::kBackwardSend, Type::kBackwardRecv}) {
      lane(to_string(t), of(w, t));
    }
    line.clear();
    append(Type::kGatherParameters);
    if (overlaps_) append(Type::kReduceGradients);
    std::sort(line.begin(), line.end());
    append(Type::kLayerNormGradients);
    append(Type::kEmbeddingGradients);
    if (!overlaps_) append(Type::kReduceGradients);
    append(Type::kSeparateGradients);
    append(Type::kClip);
    append(Type::kOptimizer);
    lane("synchronisation", line);
  }

  // The computation a send or receive belongs to: the same place in order. A first receive may be missing where the first
  // stage receives from no other.
  struct Matched {
    std::uint32_t transfer, compute;  // ops
    std::size_t place;                // among the computations of its direction
  };
  std::vector<Matched> matched(Worker& w, Type transfers) {
    const bool forward = transfers == Type::kForwardSend || transfers == Type::kForwardRecv;
    const bool receives = transfers == Type::kForwardRecv || transfers == Type::kBackwardRecv;
    const auto& list = of(w, transfers);
    const auto& computes = of(w, forward ? Type::kForward : Type::kBackward);
    std::vector<Matched> out;
    const std::size_t skip = receives && list.size() + 1 == computes.size() ? 1 : 0;
    for (std::size_t i = 0; i < list.size() && i + skip < computes.size(); ++i) {
      out.push_back({list[i], computes[i + skip], i + skip});
    }
    return out;
  }

  void join_transfers(Worker& w) {
    for (const Type t : {Type::kForwardSend, Type::kForwardRecv, Type::kBackwardSend, Type::kBackwardRecv}) {
      const bool forward = t == Type::kForwardSend || t == Type::kForwardRecv;
      const bool sends = t == Type::kForwardSend || t == Type::kBackwardSend;
      for (const Matched& m : matched(w, t)) {
        const PipelineOp& c = op(m.compute);
        const std::int64_t here = c.global_chunk >= 0 ? c.global_chunk : c.stage;
        const std::int64_t receiver = sends ? here + (forward ? 1 : -1) : here;
        const std::int64_t batch = c.batch >= 0 ? c.batch : static_cast<std::int64_t>(m.place);
        meetings_[{forward ? 0 : 1, op(m.transfer).dp, receiver, batch, 0}].push_back(m.transfer);
      }
    }
    for (const Type t : {Type::kGatherParameters, Type::kReduceGradients, Type::kSeparateGradients}) {
      for (std::size_t i = 0; i < of(w, t).size(); ++i) {
        const std::uint32_t x = of(w, t)[i];
        meetings_[{2 + static_cast<int>(t), op(x).stage, 0, static_cast<std::int64_t>(i), 0}].push_back(x);
      }
    }
    for (std::size_t i = 0; i < of(w, Type::kEmbeddingGradients).size(); ++i) {
      const std::uint32_t x = of(w, Type::kEmbeddingGradients)[i];
      meetings_[{50, op(x).dp, 0, static_cast<std::int64_t>(i), 0}].push_back(x);
    }
    for (std::size_t i = 0; i < of(w, Type::kClip).size(); ++i) {
      meetings_[{51, 0, 0, static_cast<std::int64_t>(i), 0}].push_back(of(w, Type::kClip)[i]);
    }
  }

  // Of a transfer only what follows the last participant's arrival is work. Clocks of hosts differ a little: an end before
  // that moment costs nothing.
  void set_costs() {
    for (auto& [key, members] : meetings_) {
      Ns last = INT64_MIN;
      for (const std::uint32_t i : members) last = std::max(last, op(i).start);
      if (members.size() == 1 && std::get<0>(key) < 2) ++out_.alone;
      for (const std::uint32_t i : members) {
        out_.cost[i] = std::max<Ns>(0, op(i).end - last);
        out_.wait[i] = op(i).end - op(i).start - out_.cost[i];
      }
    }
    for (std::uint32_t i = 0; i < out_.cost.size(); ++i) {
      out_.graph.cost[out_.task[i]] = out_.cost[i];
      out_.graph.measured[out_.task[i]] = op(i).end - out_.cost[i];
    }
  }

  void depend(std::uint32_t from, std::uint32_t to) {
    merger_.depend(out_.task[from], out_.arrive[to], 0, DependencyKind::kStreamWait);
  }

  void bind(Worker& w) {
    for (const Type t : {Type::kForwardSend, Type::kBackwardSend}) {
      for (const Matched& m : matched(w, t)) depend(m.compute, m.transfer);
    }
    for (const Type t : {Type::kForwardRecv, Type::kBackwardRecv}) {
      const auto& computes = of(w, t == Type::kForwardRecv ? Type::kForward : Type::kBackward);
      for (const Matched& m : matched(w, t)) {
        depend(m.transfer, m.compute);
        if (m.place > 0) depend(computes[m.place - 1], m.transfer);
      }
    }
    bind_first_backward(w);
    bind_parameters(w);
    bind_tail(w);
  }

  // Buffers of the first backward transfer are there once the computation two before the first backward is done.
  void bind_first_backward(Worker& w) {
    if (of(w, Type::kBackward).empty()) return;
    const auto first = std::find(w.compute.begin(), w.compute.end(), of(w, Type::kBackward).front());
    if (first - w.compute.begin() < 2) return;
    for (const Type t : {Type::kBackwardSend, Type::kBackwardRecv}) {
      if (!of(w, t).empty()) depend(*(first - 2), of(w, t).front());
    }
  }

  // The last gathering of a chunk's parameters comes before the chunk's first forward.
  void bind_parameters(Worker& w) {
    std::map<std::int64_t, std::uint32_t> last;
    for (const std::uint32_t i : of(w, Type::kGatherParameters)) last[op(i).chunk] = i;
    for (const auto& [chunk, gather] : last) {
      const auto& forwards = of(w, Type::kForward);
      const auto first = std::find_if(forwards.begin(), forwards.end(),
                                      [&, c = chunk](std::uint32_t i) { return c < 0 || op(i).chunk == c; });
      if (first != forwards.end()) depend(gather, *first);
    }
  }

  void bind_tail(Worker& w) {
    if (w.compute.empty()) return;
    if (overlaps_) {
      std::map<std::int64_t, std::uint32_t> first;
      for (const std::uint32_t i : of(w, Type::kReduceGradients)) first.emplace(op(i).chunk, i);
      for (const auto& [chunk, reduce] : first) {
        const auto& backwards = of(w, Type::kBackward);
        const auto last = std::find_if(backwards.rbegin(), backwards.rend(),
                                       [&, c = chunk](std::uint32_t i) { return c < 0 || op(i).chunk == c; });
        if (last != backwards.rend()) depend(*last, reduce);
      }
    }
    const std::uint32_t before = of(w, Type::kGarbage).empty() ? w.compute.back() : of(w, Type::kGarbage).back();
    for (const Type t : {Type::kLayerNormGradients, Type::kEmbeddingGradients, Type::kReduceGradients,
                         Type::kSeparateGradients, Type::kClip, Type::kOptimizer}) {
      if (of(w, t).empty() || (overlaps_ && t == Type::kReduceGradients)) continue;
      depend(before, of(w, t).front());
      return;  // what follows is in order on the lane
    }
  }

  // Meetings of one pair or group are on one lane, in order.
  void hubs() {
    std::map<std::tuple<int, std::int64_t, std::int64_t>, std::vector<const std::vector<std::uint32_t>*>> lanes;
    for (const auto& [key, members] : meetings_) {
      if (members.size() > 1) lanes[{std::get<0>(key), std::get<1>(key), std::get<2>(key)}].push_back(&members);
    }
    const auto met = [&](const std::vector<std::uint32_t>& members) {
      Ns last = INT64_MIN;
      for (const std::uint32_t i : members) last = std::max(last, op(i).start);
      return last;
    };
    for (auto& [key, list] : lanes) {
      std::stable_sort(list.begin(), list.end(), [&](const auto* a, const auto* b) { return met(*a) < met(*b); });
      merger_.open_lane(GraphLaneKind::kNetwork, group_name(op(list.front()->front()).type));
      for (const auto* members : list) {
        const std::uint32_t hub =
            merger_.add_task(TaskKind::kCollective, 0, met(*members), group_name(op(members->front()).type));
        for (const std::uint32_t i : *members) {
          merger_.depend(out_.arrive[i], hub, 0, DependencyKind::kCollective, 0);
          merger_.depend(hub, out_.task[i], 0, DependencyKind::kCollective);
        }
      }
      merger_.close_lane();
    }
  }

  const PipelineJob& job_;
  const PipelineJob::Step& step_;
  PipelineGraph& out_;
  Merger merger_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Worker> workers_;
  std::map<MeetingKey, std::vector<std::uint32_t>> meetings_;
  bool overlaps_ = false;
  std::uint32_t begin_ = 0, end_ = 0;
};

}  // namespace

Result<PipelineGraph> build_pipeline(const PipelineJob& job, const PipelineJob::Step& step) {
  PipelineGraph out;
  Builder(job, step, out).run();
  Status sound = graph::verify(out.graph);
  if (!sound) {
    return fail(ErrorCode::kDeclined,
                fmt::format("the operations of step {} contradict each other: {}", step.number, sound.error().message),
                "sends and receives of different ranks must be in the same order");
  }
  return out;
}

}  // namespace foretrace::ranks
