// Chrome JSON of all ranks for ui.perfetto.dev. Every rank is two processes, as measured and as simulated; the job is one
// more, with the groups' transfers and the critical path. A collective is drawn as a wait and a transfer, named by the purpose of its
// group: viewers colour slices by their names. A pipeline's ranks have a track that shows their bubble.

#include <fmt/format.h>

#include <algorithm>

#include "analysis/ranks_step.hpp"
#include "base/deflate.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "ranks/group_traffic.hpp"
#include "ranks/job_graph.hpp"
#include "report/chrome_events.hpp"
#include "report/job_kind.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {
namespace {

using graph::Graph;
using graph::GraphLane;
using graph::TaskKind;
using ranks::Rendezvous;

class Writer {
 public:
  Writer(const ranks::Job& job, const analysis::RanksStep& step)
      : job_(job), s_(step), g_(step.graph.graph), traffic_(job, step.matching, step.graph, step.order, nullptr) {
    meeting_.assign(g_.size(), kNone);
    for (std::uint32_t i = 0; i < s_.graph.collectives.size(); ++i) {
      for (const Rendezvous::Part& p : s_.graph.collectives[i].parts) {
        if (p.tail.valid() && p.counts) meeting_[p.arrive.index()] = meeting_[p.tail.index()] = i;
      }
      if (s_.graph.collectives[i].hub.valid()) meeting_[s_.graph.collectives[i].hub.index()] = i;
    }
    critical_.assign(g_.size(), 0);
    for (const simulate::PathStep& p : s_.path) critical_[p.task] = 1;
    for (const Ns m : g_.measured) events_.origin = std::min(events_.origin, m);
    names_.resize(g_.strings.size());
  }

  std::string run() {
    out_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
    process(1, "job", 0);
    for (std::uint32_t l = 0; l < g_.lanes.size(); ++l) {
      if (s_.graph.rank_of_lane[l] != kNone || l == 0) continue;
      const std::string label = lane_label(l);
      track(1, l, fmt::format("{} (measured)", label));
      track(1, l + kSimulatedTracks, fmt::format("{} (simulated)", label));
      for (std::uint32_t t = g_.lanes[l].begin; t < g_.lanes[l].end; ++t) {
        slice("transfer", transfer_name(t), 1, l, g_.measured[t], g_.cost[t], t);
        slice("transfer", transfer_name(t), 1, l + kSimulatedTracks, s_.timeline.start[t], g_.cost[t], t);
      }
    }
    for (const ranks::RankPart& part : s_.graph.ranks) {
      for (const bool simulated : {false, true}) rank(part, simulated);
    }
    arrows();
    path();
    out_ += "\n],\n\"schemaVersion\": 1}\n";
    return std::move(out_);
  }

 private:
  // Perfetto takes a thread whose id is a process's for that process's main thread: tracks keep clear of all of them.
  static constexpr std::uint32_t kSimulatedTracks = 1'000'000, kFirstTrack = 1'000'000, kStepTrack = 900'000'000,
                                 kBubbleTrack = 950'000'000, kPathTrack = 899'999'999;

  static std::uint32_t tid(std::uint32_t place) { return place >= kPathTrack ? place : kFirstTrack + place; }

  void process(std::uint32_t pid, std::string_view label, std::size_t order) {
    events_.name_process(pid, json_string(label), order);
  }
  void track(std::uint32_t pid, std::uint32_t place, std::string_view label) {
    events_.name_track(pid, tid(place), json_string(label), place >= kPathTrack ? 0 : place + 1);
  }

  const std::string& name(std::uint32_t t) {
    std::string& known = names_[g_.name[t].index()];
    if (known.empty()) known = json_string(g_.task_name(t).empty() ? "(no operation)" : g_.task_name(t));
    return known;
  }

  // "tp all-reduce", "pp send-recv"; of a kernel outside of any group that is known, its own name.
  std::string transfer_name(std::uint32_t t) {
    if (meeting_[t] == kNone) return name(t);
    return json_string(purpose_of(s_, s_.graph.collectives[meeting_[t]]));
  }
  // "tp mesh_tp: ranks 0, 1"
  std::string lane_label(std::uint32_t lane) {
    const std::uint32_t first = g_.lanes[lane].begin;
    std::string plain(g_.strings[g_.lanes[lane].name]);
    if (first >= g_.lanes[lane].end || meeting_[first] == kNone) return plain;
    const ranks::Collective& c = s_.matching.collectives[s_.graph.collectives[meeting_[first]].collective];
    for (const ranks::JobGroup& g : s_.kind.groups) {
      if (g.group != c.group || (g.kinds & (1u << static_cast<std::uint32_t>(c.kind))) == 0) continue;
      return fmt::format("{} {}: ranks {}", to_string(g.kind), g.description.empty() ? g.name : g.description,
                         ranks::list_of(g.ranks));
    }
    return plain;
  }

  void slice(std::string_view cat, std::string_view quoted, std::uint32_t pid, std::uint32_t place, Ns start, Ns length,
             std::uint32_t t) {
    events_.begin_slice(cat, quoted, pid, tid(place), start, std::max<Ns>(0, length));
    events_.put(R"("ft.task": {}, "critical": {}}}}})", t, critical_[t] != 0);
  }

  // Track ids are those of one process only: viewers take equal ids in two processes for one thread.
  static std::uint32_t lane_track(std::uint32_t lane, bool simulated) {
    return lane + (simulated ? kSimulatedTracks : 0);
  }
  static std::uint32_t pid_of(std::uint32_t rank, bool simulated) { return 2 * rank + (simulated ? 3 : 2); }
  [[nodiscard]] Ns start(std::uint32_t t, bool simulated) const {
    return simulated ? s_.timeline.start[t] : g_.measured[t];
  }

  // When the transfer of a collective began.
  [[nodiscard]] Ns met(std::uint32_t tail, bool simulated) const {
    const Rendezvous& r = s_.graph.collectives[meeting_[tail]];
    return r.hub.valid() ? std::min(start(r.hub.value, simulated), start(tail, simulated)) : start(tail, simulated);
  }

  void rank(const ranks::RankPart& part, bool simulated) {
    const std::uint32_t pid = pid_of(part.rank, simulated);
    const std::int64_t number = job_.ranks[part.rank].rank;
    process(pid, fmt::format("rank {} {}", number, simulated ? "simulated" : "measured"), pid);
    track(pid, kStepTrack + pid, "step");
    const Ns end = simulated ? s_.timeline.end[part.last.index()] : part.step_end;
    const Ns begin = simulated ? s_.timeline.end[part.begin.index()] : part.step_start;
    slice("user_annotation", json_string(g_.step_name), pid, kStepTrack + pid, begin, end - begin, part.begin.value);
    if (s_.kind.pipeline && !simulated) bubble(part, pid);
    for (std::uint32_t l = part.first_lane; l < part.end_lane; ++l) {
      const GraphLane& lane = g_.lanes[l];
      track(pid, lane_track(l, simulated), g_.strings[lane.name]);
      Ns free = lane.begin < lane.end ? start(lane.begin, simulated) : 0;
      for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
        if (g_.kind[t] == TaskKind::kBegin) continue;
        draw(pid, l, t, simulated, free);
        free = std::max(free, start(t, simulated) + g_.cost[t]);
      }
    }
  }

  // No compute kernel runs while a receive is under way.
  void bubble(const ranks::RankPart& part, std::uint32_t pid) {
    track(pid, kBubbleTrack + pid, fmt::format("bubble (stage {})", s_.kind.places[part.rank].stage));
    for (const auto& [from, to] : bubble_of(job_, s_, traffic_, part.rank)) {
      slice("bubble", "\"bubble\"", pid, kBubbleTrack + pid, from, to - from, part.begin.value);
    }
  }

  void draw(std::uint32_t pid, std::uint32_t lane, std::uint32_t t, bool simulated, Ns free) {
    const Ns at = start(t, simulated);
    if (meeting_[t] != kNone && g_.cost[t] == 0 && t + 1 < g_.lanes[lane].end && meeting_[t + 1] == meeting_[t]) {
      slice("wait", "\"(waits for other ranks)\"", pid, lane_track(lane, simulated), at, met(t + 1, simulated) - at, t);
    } else if (meeting_[t] != kNone) {
      const Ns from = met(t, simulated);
      slice("kernel", transfer_name(t), pid, lane_track(lane, simulated), from, at + g_.cost[t] - from, t);
    } else if (g_.kind[t] == TaskKind::kWait) {
      if (at > free) slice("wait", name(t), pid, lane_track(lane, simulated), free, at - free, t);
    } else {
      // A track shows one thing at a time.
      Ns length = g_.cost[t];
      if (t + 1 < g_.lanes[lane].end) length = std::min(length, std::max<Ns>(0, start(t + 1, simulated) - at));
      slice(profiler_category(g_.kind[t]), name(t), pid, lane_track(lane, simulated), at, length, t);
    }
  }

  // From the rank that came last to those that waited for it.
  void arrows() {
    for (const Rendezvous& r : s_.graph.collectives) {
      const Rendezvous::Part& last = r.parts[r.last];
      if (!last.arrive.valid()) continue;
      for (const Rendezvous::Part& p : r.parts) {
        if (p.wait == 0 || !p.tail.valid()) continue;
        events_.arrow("ranks", "last to arrive",
                      {pid_of(last.rank, false), tid(g_.lane[last.arrive.index()]), last.start},
                      {pid_of(p.rank, false), tid(g_.lane[p.tail.index()]), met(p.tail.value, false)});
      }
    }
  }

  void path() {
    track(1, kPathTrack, "critical path");
    for (std::size_t i = 0; i < s_.path.size(); ++i) {
      const std::uint32_t t = s_.path[i].task;
      const Ns until = i + 1 < s_.path.size() ? s_.timeline.start[s_.path[i + 1].task] : s_.timeline.end[t];
      if (until <= s_.timeline.start[t]) continue;
      const std::uint32_t rank = s_.graph.rank_of_lane[g_.lane[t]];
      const std::string name = rank == kNone ? std::string(g_.task_name(t))
                                             : fmt::format("rank {}: {}", job_.ranks[rank].rank, g_.task_name(t));
      slice("critical path", json_string(name), 1, kPathTrack, s_.timeline.start[t], until - s_.timeline.start[t], t);
    }
  }

  const ranks::Job& job_;
  const analysis::RanksStep& s_;
  const Graph& g_;
  ranks::Traffic traffic_;
  std::string out_;
  ChromeEvents events_{out_};
  std::vector<std::uint32_t> meeting_;
  std::vector<char> critical_;
  std::vector<std::string> names_;
};

}  // namespace

Status holds_all_ranks(const ExportOptions& options) {
  if (options.format == "perfetto") return {};
  return fail(ErrorCode::kUsage, fmt::format("the format '{}' holds one rank", options.format),
              "--rank R picks one; --format perfetto takes all of them");
}

Result<Exported> export_ranks(const ranks::Job& job, const analysis::RanksStep& step, const ExportOptions& options) {
  FORETRACE_TRY_VOID(holds_all_ranks(options));
  Exported out;
  out.bytes = Writer(job, step).run();
  if (options.gzip) {
    FORETRACE_TRY(out.bytes, deflate_gzip(out.bytes));
  }
  out.step = step.steps.steps[step.chosen].name;
  out.hint = "open it in https://ui.perfetto.dev";
  out.tasks = step.graph.graph.size();
  out.dependencies = step.graph.graph.dependencies();
  out.critical_tasks = step.path.size();
  out.traced = step.graph.graph.traced;
  out.replayed = step.timeline.step;
  return out;
}

}  // namespace foretrace::report
