#include <algorithm>
#include <unordered_map>

#include "foretrace/graph/graph.hpp"
#include "foretrace/memory/memory.hpp"
#include "hardware/figures.hpp"
#include "ranks/merge.hpp"
#include "whatif/job/absent_ranks.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/model/graph_facts.hpp"

namespace foretrace::whatif {

using graph::DependencyKind;
using graph::Graph;
using graph::TaskKind;

namespace {

/// The tasks of a graph that run a collective of the trace: one, or several where a change repeats it.
class Occurrences {
 public:
  explicit Occurrences(const Graph& g) {
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      if (g.kind[t] == TaskKind::kCollective && g.event[t].valid()) tasks_[g.event[t].value].push_back(t);
    }
    // In order of time, whatever the order of a rank's streams: what a change inserts has the time of the task it follows.
    for (auto& [event, tasks] : tasks_) {
      std::stable_sort(tasks.begin(), tasks.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return g.measured[a] < g.measured[b]; });
    }
  }
  [[nodiscard]] const std::vector<std::uint32_t>& of(std::uint32_t event) const {
    const auto at = tasks_.find(event);
    return at == tasks_.end() ? none_ : at->second;
  }

 private:
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> tasks_;
  std::vector<std::uint32_t> none_;
};

/// A collective whose members are tasks of their ranks' graphs.
struct Plan {
  const Meeting* meeting;
  struct Member {
    std::uint32_t member;  ///< of the meeting
    std::uint32_t slot, task;
    bool waits;
  };
  std::vector<Member> members;
};

class Joiner {
 public:
  Joiner(JobModels& job, Model& out) : job_(job), ties_(*job.ties), out_(out), merger_(out.graph) {}

  void run() {
    plan();
    copy_ranks();
    for (const Plan& p : plans_) tie(p);
    merger_.finish();
    out_.works.of_task.resize(out_.graph.size(), kNone);
  }

 private:
  void plan() {
    std::vector<Occurrences> tasks;
    for (const auto& model : job_.ranks) {
      tasks.emplace_back(model->graph);
      split_.emplace_back(model->graph.size(), char{0});
    }
    for (const Meeting& meeting : ties_.meetings) {
      // As often as every member runs it; the copies of one step are alike on all ranks.
      std::size_t times = SIZE_MAX;
      for (const Meeting::Member& m : meeting.members) {
        const std::uint32_t slot = ties_.slot_of_rank[m.rank];
        if (slot != kNone && m.binds && !tasks[slot].of(m.event).empty()) {
          times = std::min(times, tasks[slot].of(m.event).size());
        }
      }
      for (std::size_t k = 0; k < times && times != SIZE_MAX; ++k) plan_one(meeting, tasks, k);
    }
  }

  void plan_one(const Meeting& meeting, const std::vector<Occurrences>& tasks, std::size_t k) {
    Plan plan{&meeting, {}};
    for (std::uint32_t i = 0; i < meeting.members.size(); ++i) {
      const Meeting::Member& m = meeting.members[i];
      const std::uint32_t slot = ties_.slot_of_rank[m.rank];
      if (slot == kNone || !m.binds || tasks[slot].of(m.event).empty()) continue;
      plan.members.push_back({i, slot, tasks[slot].of(m.event)[k], m.waits});
    }
    if (plan.members.size() < 2) return;
    for (const Plan::Member& m : plan.members) {
      if (m.waits) split_[m.slot][m.task] = 1;
    }
    plans_.push_back(std::move(plan));
  }

  void copy_ranks() {
    merger_.open_lane(graph::GraphLaneKind::kCpu, "job");
    const std::uint32_t end = merger_.add_task(TaskKind::kWait, 0, 0, "all ranks are done");
    merger_.close_lane();
    job_.slot_of_lane.push_back(kNone);
    Graph& g = out_.graph;
    std::vector<std::vector<std::uint32_t>> place(job_.ranks.size());
    for (std::uint32_t s = 0; s < job_.ranks.size(); ++s) {
      const Model& model = *job_.ranks[s];
      const auto lanes = static_cast<std::uint32_t>(g.lanes.size());
      merger_.copy(model.graph, 0, split_[s]);
      job_.slot_of_lane.resize(g.lanes.size(), s);
      if (s == 0) g.main_lane = lanes + model.graph.main_lane;
      place[s].resize(model.graph.size());
      for (std::uint32_t t = 0; t < model.graph.size(); ++t) place[s][t] = merger_.place(t);
      const auto last = static_cast<std::uint32_t>(model.graph.last.index());
      merger_.depend(split_[s][last] != 0 ? merger_.tail(last) : merger_.place(last), end, 0, DependencyKind::kThread);
      copy_works(model.works, s, place[s]);
      if (s > 0) forget_events(g.lanes[lanes].begin);
    }
    for (Plan& p : plans_) {
      for (Plan::Member& m : p.members) m.task = place[m.slot][m.task];
    }
    const Graph& first = job_.ranks.front()->graph;
    g.last = TaskId{end};
    g.step_name = first.step_name;
    g.recorded_steps = first.recorded_steps;
    g.notes = first.notes;
    for (const auto& m : job_.ranks) {
      g.traced = std::max(g.traced, m->graph.traced);
      g.periodic = g.periodic || m->graph.periodic;
    }
    // Ranks do not start a step together: each goes on when it is done, and the others wait for it at the next collective.
    if (job_.ranks.size() > 1) g.periodic = true;
  }

  // Events are of a rank's own trace, and the joined model has the first one's.
  void forget_events(std::uint32_t first) {
    Graph& g = out_.graph;
    for (std::uint32_t t = first; t < g.size(); ++t) g.event[t] = g.op[t] = EventId{};
  }

  void copy_works(const work::Works& works, std::uint32_t slot, const std::vector<std::uint32_t>& place) {
    work::Works& all = out_.works;
    const auto before = static_cast<std::uint32_t>(all.rows.size());
    all.rows.insert(all.rows.end(), works.rows.begin(), works.rows.end());
    all.of_task.resize(out_.graph.size(), kNone);
    for (std::uint32_t t = 0; t < place.size(); ++t) {
      const std::uint32_t row = works.row_of(t);
      if (row != kNone) all.of_task[place[t] + (split_[slot][t] != 0 ? 1u : 0u)] = before + row;
    }
  }

  void tie(const Plan& plan) {
    Graph& g = out_.graph;
    std::vector<Joint> joints;
    for (const Plan::Member& m : plan.members) {
      if (!m.waits) continue;
      joints.push_back({m.slot, m.task, m.task + 1, m.task + 1});
      g.cost[m.task] = 0;
    }
    const bool together = plan.meeting->awaited == Awaited::kAll && joints.size() == plan.members.size();
    if (together) {
      tie_together(joints);
    } else {
      for (const Joint& j : joints) {
        for (const Plan::Member& other : plan.members) {
          const bool awaited = plan.meeting->awaited != Awaited::kRoot || other.member == plan.meeting->root;
          if (other.task != j.arrive && awaited) {
            merger_.depend(other.task, j.tail, 0, DependencyKind::kCollective, 0);
          }
        }
      }
    }
    job_.collectives.push_back(std::move(joints));
  }

  // One transfer for all, on the stream of the one that is done first.
  void tie_together(std::vector<Joint>& joints) {
    Graph& g = out_.graph;
    const auto first = std::min_element(
        joints.begin(), joints.end(), [&](const Joint& a, const Joint& b) { return g.cost[a.tail] < g.cost[b.tail]; });
    const std::uint32_t transfer = first->tail;
    for (Joint& j : joints) {
      j.transfer = transfer;
      if (j.tail == transfer) continue;
      g.cost[j.tail] -= g.cost[transfer];
      merger_.depend(j.arrive, transfer, 0, DependencyKind::kCollective);
      merger_.depend(transfer, j.tail, 0, DependencyKind::kCollective);
    }
  }

  JobModels& job_;
  const JobTies& ties_;
  Model& out_;
  ranks::Merger merger_;
  std::vector<std::vector<char>> split_;
  std::vector<Plan> plans_;
};

std::size_t fullest_of(const std::vector<std::shared_ptr<const Model>>& ranks) {
  const auto peak = [](const auto& m) { return m->memory ? memory::peak(*m->memory).bytes : 0; };
  return static_cast<std::size_t>(
      std::max_element(ranks.begin(), ranks.end(), [&](const auto& a, const auto& b) { return peak(a) < peak(b); }) -
      ranks.begin());
}

// What is asked of a model beyond its graph: facts are the first rank's, memory is that of the fullest.
Model without_graph(const JobModels& job) {
  Model out = *job.ranks.front();
  out.graph = Graph{};
  out.works = {};
  out.facts = std::make_shared<const GraphFacts>(out.facts);
  const Model& full = *job.ranks[job.fullest];
  out.memory = full.memory;
  out.parameter_elements = full.parameter_elements;
  out.parameter_tensors = full.parameter_tensors;
  for (const auto& m : job.ranks) {
    out.validated = out.validated && m->validated;
    out.frozen = std::max(out.frozen, m->frozen);
    out.replayed = std::max(out.replayed, m->replayed);
    if (m->applied.size() > out.applied.size()) out.applied = m->applied;
    for (const std::string& text : m->not_modelled) {
      std::vector<std::string>& all = out.not_modelled;
      if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
    }
  }
  return out;
}

}  // namespace

Result<Model> join(std::shared_ptr<const JobTies> ties, std::vector<std::shared_ptr<const Model>> ranks) {
  auto job = std::make_shared<JobModels>();
  job->ties = std::move(ties);
  job->ranks = std::move(ranks);
  job->fullest = fullest_of(job->ranks);
  Model out = without_graph(*job);
  Joiner(*job, out).run();
  if (const Status sound = graph::verify(out.graph); !sound) {
    return fail(ErrorCode::kDeclined, "the ranks' collectives would contradict each other's order");
  }
  out.job = std::move(job);
  return out;
}

void set_device(Model& model, const hardware::Device& device) {
  model.device = device;
  model.latencies = &hardware::latencies_of(device);
  if (!model.job) return;
  auto job = std::make_shared<JobModels>(*model.job);
  for (auto& rank : job->ranks) {
    Model own = *rank;
    own.device = device;
    own.latencies = model.latencies;
    rank = std::make_shared<const Model>(std::move(own));
  }
  model.job = std::move(job);
}

const Model& fullest_rank(const Model& model) { return model.job ? *model.job->ranks[model.job->fullest] : model; }

void take_out_waits(Graph& graph, std::uint32_t rank, const std::vector<Meeting>& meetings) {
  std::unordered_map<std::uint32_t, Ns> transfer;
  for (const Meeting& meeting : meetings) {
    for (const Meeting::Member& m : meeting.members) {
      if (m.rank == rank && m.binds) transfer[m.event] = m.transfer;
    }
  }
  take_out_waits(graph, transfer);
}

}  // namespace foretrace::whatif
