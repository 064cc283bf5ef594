#include "foretrace/whatif/draft.hpp"

#include <algorithm>
#include <cmath>

#include "trace/latencies.hpp"
#include "whatif/model/op_chains.hpp"

namespace foretrace::whatif {

bool glob_match(std::string_view pattern, std::string_view text) {
  // Iterative with one backtrack point: the last '*' seen.
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

namespace {

// A glob over a table of names, each name matched once however many tasks bear it.
class NameMatch {
 public:
  NameMatch(const StringTable& names, const std::string& pattern)
      : known_(names.size(), -1), names_(names), pattern_(pattern) {}
  bool operator()(StringId id) {
    std::int8_t& k = known_[id.index()];
    if (k < 0) k = glob_match(pattern_, names_[id]) ? 1 : 0;
    return k != 0;
  }

 private:
  std::vector<std::int8_t> known_;
  const StringTable& names_;
  const std::string& pattern_;
};

}  // namespace

Draft::Draft(const Graph& graph, const trace::Trace* trace, std::shared_ptr<const OpChains> chains,
             const trace::Latencies& latencies)
    : base_(graph), trace_(trace), latencies_(latencies), chains_(std::move(chains)) {}

const OpChains& Draft::chains() const {
  if (!chains_) chains_ = std::make_shared<const OpChains>(*trace_);
  return *chains_;
}

Selection Draft::select(const Query& q) const {
  Selection found;
  const Graph& g = base_;
  NameMatch name(g.strings, q.name);
  std::vector<std::int8_t> layers(g.layers.size(), -1);
  const bool asks_trace = !q.op.empty() || !q.after.empty() || !q.shape.empty();
  if (asks_trace && trace_ == nullptr) return found;
  const StringTable none;
  NameMatch shape(trace_ != nullptr ? trace_->strings : none, q.shape);
  const std::vector<bool> ops = q.op.empty() ? std::vector<bool>() : chains().matching(q.op);
  const std::vector<bool> before = q.after.empty() ? std::vector<bool>() : chains().matching(q.after);
  const auto works_for = [&](std::uint32_t t, const std::vector<bool>& matching) {
    return g.op[t].valid() && matching[g.op[t].index()];
  };
  const auto follows = [&](std::uint32_t t) {
    std::uint32_t p = t;
    do {
      if (p == g.lanes[g.lane[t]].begin) return false;
      --p;
    } while (removed(p));
    return works_for(p, before);
  };
  const auto shaped = [&](std::uint32_t t) {
    if (!g.op[t].valid()) return false;
    const trace::OpInputs* inputs = trace_->args.inputs(trace_->events.args[g.op[t].index()]);
    return inputs != nullptr && inputs->dims.valid() && shape(inputs->dims);
  };
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (removed(t)) continue;
    if (q.kind && g.kind[t] != *q.kind) continue;
    if (q.gpu && !graph::is_gpu(g.kind[t])) continue;
    if (q.phase && g.phase[t] != *q.phase) continue;
    if (q.lane && g.lane[t] != *q.lane) continue;
    if (!q.name.empty() && !name(g.name[t])) continue;
    if (!q.layer.empty()) {
      if (!g.layer[t].valid()) continue;
      std::int8_t& k = layers[g.layer[t].index()];
      if (k < 0) k = glob_match(q.layer, g.strings[g.layers[g.layer[t].index()].name]) ? 1 : 0;
      if (k == 0) continue;
    }
    if (!q.op.empty() && !works_for(t, ops)) continue;
    if (!q.after.empty() && !follows(t)) continue;
    if (!q.shape.empty() && !shaped(t)) continue;
    if (q.where && !q.where(t)) continue;
    found.push_back(t);
  }
  return found;
}

Ns Draft::cost(std::uint32_t task) const {
  if (task >= base_.size()) return added_[task - base_.size()].cost;
  return cost_.empty() ? base_.cost[task] : cost_[task];
}

void Draft::set(std::uint32_t task, Ns cost, graph::Origin origin) {
  ++changed_;
  if (task >= base_.size()) {
    added_[task - base_.size()].cost = cost;
    added_[task - base_.size()].origin = origin;
    return;
  }
  if (cost_.empty()) {
    cost_.append(base_.cost.data(), base_.size());
    origin_.assign(base_.origin.begin(), base_.origin.end());
  }
  cost_[task] = std::max<Ns>(0, cost);
  origin_[task] = std::max(origin_[task], origin);
}

void Draft::set(const Selection& tasks, Ns cost) {
  for (const std::uint32_t t : tasks) set(t, cost);
}

void Draft::scale(const Selection& tasks, double factor) {
  for (const std::uint32_t t : tasks) {
    set(t, static_cast<Ns>(std::llround(static_cast<double>(cost(t)) * factor)), graph::Origin::kScaled);
  }
}

void Draft::take_out(std::uint32_t task) {
  if (removed_[task] != 0) return;
  removed_[task] = 1;
  ++changed_;
  if (!left_.empty() && base_.launch[task].valid()) --left_[base_.launch[task].index()];
}

void Draft::find_launches() {
  const Graph& g = base_;
  left_.assign(g.size(), 0);
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.launch[t].valid() && removed_[t] == 0) ++left_[g.launch[t].index()];
    if ((g.kind[t] == TaskKind::kCall || g.kind[t] == TaskKind::kCpu) && g.op[t].valid())
      by_op_.emplace_back(g.op[t].value, t);
  }
  std::sort(by_op_.begin(), by_op_.end());
}

void Draft::remove(const Selection& tasks, Removal how) {
  if (tasks.empty()) return;
  const Graph& g = base_;
  structural_ = true;
  if (removed_.empty()) removed_.assign(g.size(), 0);
  if (how == kWithLaunch && left_.empty()) find_launches();
  for (const std::uint32_t t : tasks) {
    if (t < g.size()) take_out(t);
  }
  if (how == kTaskOnly) return;
  // Calls that launched nothing else any more, and the CPU time of operations that launch nothing any more.
  std::vector<std::uint32_t> ops;
  for (const std::uint32_t t : tasks) {
    if (t >= g.size() || !g.launch[t].valid()) continue;
    const std::uint32_t call = g.launch[t].value;
    if (left_[call] > 0 || removed_[call] != 0) continue;
    take_out(call);
    if (g.op[call].valid()) ops.push_back(g.op[call].value);
  }
  std::sort(ops.begin(), ops.end());
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
  for (const std::uint32_t op : ops) {
    const auto first = std::lower_bound(by_op_.begin(), by_op_.end(), std::pair(op, std::uint32_t{0}));
    const auto last = std::find_if(first, by_op_.end(), [op](const auto& entry) { return entry.first != op; });
    const bool launches = std::any_of(first, last, [&](const auto& entry) {
      return g.kind[entry.second] == TaskKind::kCall && removed_[entry.second] == 0 && left_[entry.second] > 0;
    });
    if (launches) continue;  // it keeps its time
    for (auto entry = first; entry != last; ++entry) {
      if (g.kind[entry->second] == TaskKind::kCpu) take_out(entry->second);
    }
  }
}

std::uint32_t Draft::lane_of(std::uint32_t task) const {
  return task < base_.size() ? base_.lane[task] : added_[task - base_.size()].lane;
}

std::uint32_t Draft::add(NewTask task) {
  structural_ = true;
  ++changed_;
  if (task.after != kNone) task.lane = lane_of(task.after);
  added_.push_back(std::move(task));
  return static_cast<std::uint32_t>(base_.size() + added_.size() - 1);
}

Place place_behind(const Graph& g, std::uint32_t task) {
  if (!g.launch[task].valid()) return {};
  return {.cpu = g.launch[task].value, .gpu = task};
}

Place place_before(const Graph& g, std::uint32_t task) {
  Place at = place_behind(g, task);
  // In front of a stream's first task there is nothing to stand behind: what is put there comes behind it, launch and all.
  if (!at.known() || at.gpu == g.lanes[g.lane[at.gpu]].begin) return at;
  --at.gpu;
  if (at.cpu > g.lanes[g.lane[at.cpu]].begin) --at.cpu;
  return at;
}

Place Draft::insert(const NewKernel& k) {
  std::uint32_t launch = k.launch_of.value_or(kNone);
  std::uint32_t on_cpu = launch;
  const std::uint32_t captured = k.launch_of || k.after.gpu == kNone ? kNone : graph_launch_of(k.after.gpu);
  if (captured != kNone) {
    // What comes between the tasks of a CUDA graph is captured with them: one call launches all of it. On the CPU nothing is
    // left but a place behind that call, for callers that insert something after the launch.
    on_cpu = add(
        {.kind = TaskKind::kCpu, .name = "captured " + k.name, .phase = k.phase, .layer = k.layer, .after = captured});
    launch = captured;
  } else if (!k.launch_of) {
    on_cpu = launch = add({.kind = TaskKind::kCall,
                           .cost = k.cpu_cost,
                           .name = "launch of " + k.name,
                           .phase = k.phase,
                           .layer = k.layer,
                           .after = k.after.cpu});
  }
  // The gap a kernel of this stream usually follows its predecessor with.
  const std::uint32_t neighbour = k.after.gpu;
  const Ns lag = neighbour < base_.size() ? std::clamp<Ns>(base_.lane_lag[neighbour], 0, 2000) : latencies_.kernel_gap;
  const std::uint32_t id = add({.kind = k.kind,
                                .cost = k.cost,
                                .name = k.name,
                                .phase = k.phase,
                                .layer = k.layer,
                                .launch = launch,
                                .after = k.after.gpu,
                                .lane = k.lane.value_or(0),
                                .work = k.work,
                                .origin = k.origin,
                                .lane_lag = lag,
                                .event = k.event,
                                .op = k.op});
  if (captured != kNone) {
    depend(launch, id, 0, DependencyKind::kLaunch, 0);  // as set_launch: from the call's begin
  } else {
    depend(launch, id, k.launch_of ? 0 : latencies_.launch_latency, DependencyKind::kLaunch);
  }
  return {.cpu = on_cpu, .gpu = id};
}

std::uint32_t Draft::graph_launch_of(std::uint32_t task) const {
  std::uint32_t call = kNone;
  if (task >= base_.size()) {
    call = added_[task - base_.size()].launch;
  } else if (base_.launch[task].valid()) {
    call = base_.launch[task].value;
  }
  if (call == kNone || removed(call)) return kNone;
  const std::string_view name =
      call < base_.size() ? base_.task_name(call) : std::string_view(added_[call - base_.size()].name);
  return name.find("GraphLaunch") != std::string_view::npos ? call : kNone;
}

std::uint32_t Draft::insert_cpu(std::uint32_t after, std::string name, Ns cost, Phase phase) {
  return add({.kind = TaskKind::kCpu, .cost = cost, .name = std::move(name), .phase = phase, .after = after});
}

std::uint32_t Draft::insert_wait(std::uint32_t after, std::string name) {
  const Phase phase = after < base_.size() ? base_.phase[after] : added_[after - base_.size()].phase;
  return add({.kind = TaskKind::kWait, .name = std::move(name), .phase = phase, .after = after});
}

std::uint32_t Draft::insert_read_back(const Place& at, std::string name) {
  // A small copy to the host behind what is read, and the call's return.
  const std::uint32_t wait = insert_wait(at.cpu, std::move(name));
  depend(at.gpu, wait, latencies_.kernel_gap + latencies_.short_kernel + latencies_.sync_return, DependencyKind::kSync);
  return wait;
}

std::uint32_t Draft::add_lane(graph::GraphLaneKind kind, std::string name, std::int64_t device) {
  graph::GraphLane lane;
  lane.kind = kind;
  lane.device = device;
  new_lanes_.push_back(lane);
  new_lane_names_.push_back(std::move(name));
  structural_ = true;
  return static_cast<std::uint32_t>(base_.lanes.size() + new_lanes_.size() - 1);
}

graph::GraphLane& Draft::added_lane(std::uint32_t lane) { return new_lanes_[lane - base_.lanes.size()]; }

std::uint32_t Draft::append(std::uint32_t lane, TaskKind kind, std::string name, Ns cost, Phase phase,
                            graph::LayerId layer) {
  return add({.kind = kind, .cost = cost, .name = std::move(name), .phase = phase, .layer = layer, .lane = lane});
}

void Draft::depend(std::uint32_t from, std::uint32_t to, Ns lag, DependencyKind kind, std::uint32_t point) {
  structural_ = true;
  ++changed_;
  dependencies_.push_back({from, to, lag, point, kind});
}

void Draft::schedule(const Selection& tasks, std::int32_t priority) {
  if (tasks.empty()) return;
  structural_ = true;
  ++changed_;
  for (const std::uint32_t t : tasks) priorities_.emplace_back(t, priority);
}

void Draft::set_lane_lag(std::uint32_t task, Ns lag) {
  lane_lags_.emplace_back(task, lag);
  ++changed_;
}

void Draft::set_launch(std::uint32_t task, std::uint32_t call, Ns lag) {
  launches_.emplace_back(task, call);
  // Counted from the call's begin: the length of a graph launch says nothing about when its kernels start.
  depend(call, task, lag, DependencyKind::kLaunch, 0);
  ++changed_;
}

std::vector<std::uint32_t> Draft::clone(const Selection& tasks, const std::vector<std::uint32_t>& behind,
                                        double factor) {
  const Graph& g = base_;
  std::vector<std::uint32_t> anchor(g.lanes.size() + new_lanes_.size(), kNone);
  for (const std::uint32_t t : behind) anchor[lane_of(t)] = t;
  std::vector<std::uint32_t> copy_of(g.size(), kNone);
  std::vector<std::uint32_t> copies;
  for (const std::uint32_t t : tasks) {
    const std::uint32_t lane = g.lane[t];
    if (anchor[lane] == kNone) anchor[lane] = g.lanes[lane].end - 1;
    const Ns cost_here =
        static_cast<Ns>(std::llround(static_cast<double>(cost(t)) * (graph::is_gpu(g.kind[t]) ? factor : 1)));
    const std::uint32_t id = add({.kind = g.kind[t],
                                  .cost = cost_here,
                                  .name = std::string(g.task_name(t)),
                                  .phase = g.phase[t],
                                  .layer = g.layer[t],
                                  .after = anchor[lane],
                                  .origin = graph::Origin::kScaled,
                                  .lane_lag = g.lane_lag[t],
                                  .like = t,
                                  .event = base_.kind[t] == TaskKind::kCollective ? base_.event[t] : EventId{}});
    // All follow the anchor, in order: what is inserted behind one of them comes before the next.
    copy_of[t] = id;
    copies.push_back(id);
  }
  for (const std::uint32_t t : tasks) {
    if (g.launch[t].valid() && copy_of[g.launch[t].index()] != kNone) {
      added_[copy_of[t] - g.size()].launch = copy_of[g.launch[t].index()];
    }
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] == DependencyKind::kShare || copy_of[g.dep_to[d]] == kNone) continue;
      depend(copy_of[t], copy_of[g.dep_to[d]], g.dep_lag[d], g.dep_kind[d], g.dep_point[d]);
    }
    if (g.soft[t] == kNone) continue;
    graph::SoftDependency share = g.soft_dependencies[g.soft[t]];
    if (copy_of[share.from.index()] == kNone) continue;
    share.from = TaskId{copy_of[share.from.index()]};
    shares_.emplace_back(copy_of[t], share);
  }
  return copies;
}

void Draft::set_work(std::uint32_t task, std::uint32_t work) { works_.emplace_back(task, work); }

}  // namespace foretrace::whatif
