// Chrome JSON of a changed job for ui.perfetto.dev: one process per rank, as simulated. A collective is drawn as a wait and a transfer,
// named by the purpose of its group: viewers colour slices by their names. A pipeline's ranks have a track that shows their bubble;
// the job's own process has the critical path.

#include <fmt/format.h>

#include <algorithm>

#include "base/deflate.hpp"
#include "foretrace/report/export.hpp"
#include "graph/gpu_work.hpp"
#include "report/chrome_events.hpp"

namespace foretrace::report {
namespace {

using graph::Graph;
using graph::TaskKind;
using overview::ChangedJob;

class Writer {
 public:
  explicit Writer(const ChangedJob& job) : job_(job), g_(job.step.graph) {
    role_.resize(g_.size());
    for (const ChangedJob::Meeting& meeting : job.meetings) {
      for (const ChangedJob::Member& m : meeting.members) {
        role_[m.arrive] = {&meeting, m.transfer, true};
        role_[m.tail] = {&meeting, m.transfer, false};
      }
    }
    critical_.assign(g_.size(), 0);
    for (const analysis::PathSegment& p : job.step.path) critical_[p.task] = 1;
    for (std::uint32_t t = 0; t < g_.size(); ++t) events_.origin = std::min(events_.origin, job.step.start(t));
  }

  std::string run() {
    out_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
    events_.name_process(1, json_string("job"), 0);
    path();
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) rank(job_.ranks[r], r + 2);
    out_ += "\n],\n\"schemaVersion\": 1}\n";
    return std::move(out_);
  }

 private:
  // Perfetto takes a thread whose id is a process's for that process's main thread: tracks keep clear of all of them.
  static constexpr std::uint32_t kFirstTrack = 1'000'000, kPathTrack = 899'999'999, kStepTrack = 900'000'000,
                                 kBubbleTrack = 950'000'000;

  struct Role {
    const ChangedJob::Meeting* meeting = nullptr;
    std::uint32_t transfer = 0;
    bool arrives = false;
  };

  void slice(std::string_view category, std::string_view quoted, std::uint32_t pid, std::uint32_t tid, Ns start,
             Ns length, std::uint32_t t) {
    events_.begin_slice(category, quoted, pid, tid, start, std::max<Ns>(0, length));
    events_.put(R"("ft.task": {}, "critical": {}}}}})", t, critical_[t] != 0);
  }

  std::string name(std::uint32_t t) const {
    return json_string(g_.task_name(t).empty() ? "(no operation)" : g_.task_name(t));
  }

  void rank(const ChangedJob::Rank& rank, std::uint32_t pid) {
    events_.name_process(pid, json_string(fmt::format("rank {} simulated", rank.number)), pid);
    if (job_.pipeline) {
      events_.name_track(pid, kBubbleTrack + pid, json_string("bubble"), 0);
      for (const auto& [from, to] : rank.bubble) {
        slice("bubble", "\"bubble\"", pid, kBubbleTrack + pid, from, to - from, 0);
      }
    }
    Ns begin = INT64_MAX, end = INT64_MIN;
    for (const std::uint32_t l : rank.lanes) {
      events_.name_track(pid, kFirstTrack + l, json_string(g_.strings[g_.lanes[l].name]), l + 1);
      Ns free = INT64_MIN;
      for (std::uint32_t t = g_.lanes[l].begin; t < g_.lanes[l].end; ++t) {
        begin = std::min(begin, job_.step.start(t));
        end = std::max(end, job_.step.end(t));
        if (g_.kind[t] != TaskKind::kBegin) draw(pid, l, t, free);
        free = std::max(free, job_.step.end(t));
      }
    }
    if (begin > end) return;
    events_.name_track(pid, kStepTrack + pid, json_string("step"), 0);
    slice("user_annotation", json_string(g_.step_name), pid, kStepTrack + pid, begin, end - begin, 0);
  }

  void draw(std::uint32_t pid, std::uint32_t lane, std::uint32_t t, Ns free) {
    const std::uint32_t tid = kFirstTrack + lane;
    const Ns at = job_.step.start(t);
    const Role& role = role_[t];
    if (role.meeting != nullptr && role.arrives) {
      // Not longer than until its own tail begins.
      const Ns met = std::min(job_.step.start(role.transfer), job_.step.start(t + 1));
      slice("wait", "\"(waits for other ranks)\"", pid, tid, at, met - at, t);
    } else if (role.meeting != nullptr) {
      const Ns from = std::max(std::min(job_.step.start(role.transfer), at), free);
      slice("kernel", role.meeting->name.empty() ? name(t) : json_string(role.meeting->name), pid, tid, from,
            job_.step.end(t) - from, t);
    } else if (g_.kind[t] == TaskKind::kWait) {
      if (free != INT64_MIN && at > free) slice("wait", name(t), pid, tid, free, at - free, t);
    } else {
      // A track shows one thing at a time.
      Ns length = job_.step.end(t) - at;
      if (t + 1 < g_.lanes[lane].end) length = std::min(length, std::max<Ns>(0, job_.step.start(t + 1) - at));
      slice(profiler_category(g_.kind[t]), name(t), pid, tid, at, length, t);
    }
  }

  void path() {
    events_.name_track(1, kPathTrack, json_string("critical path"), 0);
    for (const analysis::PathSegment& p : job_.step.path) {
      if (p.work > 0) slice("critical path", name(p.task), 1, kPathTrack, p.start, p.work, p.task);
    }
  }

  const ChangedJob& job_;
  const Graph& g_;
  std::string out_;
  ChromeEvents events_{out_};
  std::vector<Role> role_;
  std::vector<char> critical_;
};

}  // namespace

Result<Exported> export_changed_job(const ChangedJob& job, const ExportOptions& options) {
  FORETRACE_TRY_VOID(holds_all_ranks(options));
  Exported out;
  out.bytes = Writer(job).run();
  if (options.gzip) {
    FORETRACE_TRY(out.bytes, deflate_gzip(out.bytes));
  }
  out.step = job.step.graph.step_name;
  out.hint = "open it in https://ui.perfetto.dev";
  out.tasks = job.step.graph.size();
  out.dependencies = job.step.graph.dependencies();
  out.critical_tasks = job.step.path.size();
  out.traced = job.step.traced();
  out.replayed = job.step.replayed();
  return out;
}

}  // namespace foretrace::report
