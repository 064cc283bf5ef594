#include "report/page_job.hpp"

#include <algorithm>

#include "report/job_kind.hpp"

namespace foretrace::report {
namespace {

using graph::Graph;
using graph::TaskKind;
using ranks::Rendezvous;

// When a task runs, as traced, and as what it is shown.
struct Shown {
  Ns start = 0, length = 0;
  TaskKind kind = TaskKind::kCpu;
};

std::vector<Shown> shown_tasks(const ranks::JobGraph& job) {
  const Graph& g = job.graph;
  std::vector<Shown> out(g.size());
  for (std::size_t t = 0; t < g.size(); ++t) out[t] = {g.measured[t], g.cost[t], g.kind[t]};
  std::vector<Ns> waited(g.size(), -1);
  for (const Rendezvous& meeting : job.collectives) {
    for (const Rendezvous::Part& p : meeting.parts) {
      // A kernel that is part of several meetings waits for the last of them.
      if (!p.arrive.valid() || p.wait < waited[p.arrive.index()]) continue;
      waited[p.arrive.index()] = p.wait;
      const bool split = p.tail.valid();
      const TaskKind kind = split ? TaskKind::kWait : TaskKind::kCollective;
      out[p.arrive.index()] = {p.start, split ? p.wait : p.end - p.start, kind};
      if (split) out[p.tail.index()] = {p.start + p.wait, p.transfer, TaskKind::kCollective};
    }
  }
  // How much later than the first rank a rank begins is the cost of its begin; nothing runs then.
  for (const ranks::RankPart& part : job.ranks) out[part.begin.index()].length = 0;
  return out;
}

// By task: the place of the name that says what its collective is there for; 0 for all else.
std::vector<std::uint64_t> purposes_of(const analysis::RanksStep& step, Names& names) {
  std::vector<std::uint64_t> out(step.graph.graph.size(), 0);
  for (const Rendezvous& meeting : step.graph.collectives) {
    const std::uint64_t purpose = names.place(purpose_of(step, meeting));
    if (meeting.hub.valid()) out[meeting.hub.index()] = purpose;
    for (const Rendezvous::Part& p : meeting.parts) {
      if (p.arrive.valid()) out[p.arrive.index()] = purpose;
      if (p.tail.valid()) out[p.tail.index()] = purpose;
    }
  }
  return out;
}

}  // namespace

std::vector<ranks::Intervals> job_bubbles(const overview::JobOverview& job) {
  const analysis::RanksStep& step = *job.step;
  if (!step.kind.pipeline) return {};
  const ranks::Traffic traffic(*job.job, step.matching, step.graph, step.order, nullptr);
  std::vector<ranks::Intervals> out(job.job->ranks.size());
  for (const ranks::RankPart& part : step.graph.ranks) out[part.rank] = bubble_of(*job.job, step, traffic, part.rank);
  return out;
}

Columns job_columns(const overview::JobOverview& job, Names& names) {
  const analysis::RanksStep& step = *job.step;
  const Graph& g = step.graph.graph;
  const std::vector<Shown> shown = shown_tasks(step.graph);
  const std::vector<std::uint64_t> purposes = purposes_of(step, names);
  std::vector<char> critical(g.size(), 0);
  for (const simulate::PathStep& one : step.path) critical[one.task] = 1;
  std::vector<std::uint64_t> places(g.strings.size(), UINT64_MAX);
  const auto place = [&](StringId id) {
    if (!id.valid()) return std::uint64_t{0};
    std::uint64_t& known = places[id.index()];
    if (known == UINT64_MAX) known = names.place(g.strings[id]);
    return known;
  };
  const std::uint64_t waits = names.place("waits for other ranks");
  Columns out;
  for (const graph::GraphLane& lane : g.lanes) {
    Ns end = 0;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      const Shown& s = shown[t];
      const Ns length = std::max<Ns>(0, s.length);
      out.start.zigzag(s.start - end);
      out.length.number(static_cast<std::uint64_t>(length));
      end = s.start + length;
      const bool waiting = s.kind == TaskKind::kWait && graph::is_gpu(g.kind[t]);
      out.name.number(waiting ? waits : place(g.name[t]));
      out.layer.number(g.layer[t].valid() ? place(g.layers[g.layer[t].index()].name) : 0);
      out.op.number(purposes[t]);
      const std::uint32_t cause = step.timeline.cause[t];
      out.add_task(t, s.kind, g.phase[t], critical[t] != 0, step.timeline.cause_kind[t],
                   cause == kNone ? std::nullopt : std::optional(cause));
      out.add_no_event();
    }
  }
  add_dependencies(out, g);
  return out;
}

Ns origin_of(const overview::ChangedJob& job) {
  Ns origin = 0;
  for (std::uint32_t t = 0; t < job.step.graph.size(); ++t) origin = std::min(origin, job.step.start(t));
  return origin;
}

Columns changed_columns(const overview::ChangedJob& job, Names& names) {
  using Meeting = overview::ChangedJob::Meeting;
  struct Part {
    const Meeting* meeting = nullptr;
    const overview::ChangedJob::Member* member = nullptr;
  };
  const Graph& g = job.step.graph;
  std::vector<Part> parts(g.size());
  for (const Meeting& meeting : job.meetings) {
    for (const overview::ChangedJob::Member& m : meeting.members) {
      parts[m.arrive] = parts[m.tail] = {&meeting, &m};
    }
  }
  std::vector<char> critical(g.size(), 0);
  for (const analysis::PathSegment& one : job.step.path) critical[one.task] = 1;
  const std::uint64_t waits = names.place("waits for other ranks");
  const Ns origin = origin_of(job);
  Columns out;
  for (const graph::GraphLane& lane : g.lanes) {
    Ns end = origin;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      const Part& part = parts[t];
      const bool waiting = part.member != nullptr && part.member->arrive == t;
      const Ns start =
          part.member != nullptr && !waiting ? std::max(end, job.step.start(part.member->transfer)) : job.step.start(t);
      // Until the transfer begins, and not longer than until the rank's own part of it does.
      const Ns until = waiting ? std::min(job.step.start(part.member->transfer), job.step.start(part.member->tail))
                               : job.step.end(t);
      const Ns length = g.kind[t] == TaskKind::kBegin ? 0 : std::max<Ns>(0, until - start);
      out.start.zigzag(start - end);
      out.length.number(static_cast<std::uint64_t>(length));
      end = start + length;
      out.name.number(waiting ? waits : names.place(g.task_name(t)));
      out.layer.number(g.layer[t].valid() ? names.place(g.strings[g.layers[g.layer[t].index()].name]) : 0);
      out.op.number(part.meeting != nullptr && !part.meeting->name.empty() ? names.place(part.meeting->name) : 0);
      const TaskKind kind = waiting ? TaskKind::kWait : part.meeting != nullptr ? TaskKind::kCollective : g.kind[t];
      out.add_task(t, kind, g.phase[t], critical[t] != 0, job.step.cause_kind(t), job.step.cause(t));
      out.add_no_event();
    }
  }
  add_dependencies(out, g);
  return out;
}

}  // namespace foretrace::report
