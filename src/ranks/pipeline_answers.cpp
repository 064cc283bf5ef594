// The straggler study's questions: what the step costs as it is, with typical operations, and with only one group of
// operations as measured.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "foretrace/ranks/job.hpp"

namespace foretrace::ranks {
namespace {

// Computations take their mean, so that the sum of the work stays; transfers their median, so that rare hiccups go.
double typical(std::vector<double>& values, bool transfer) {
  if (values.empty()) return 0;
  if (!transfer) {
    double sum = 0;
    for (const double v : values) sum += v;
    return sum / static_cast<double>(values.size());
  }
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

class Study {
 public:
  explicit Study(const PipelineJob& job) : job_(job) {}

  Result<PipelineAnswers> run() {
    FORETRACE_TRY_VOID(build());
    ideal_.resize(job_.ops.size());
    own_.resize(job_.ops.size());
    find_ideal();
    const auto everything = [](const PipelineOp&) { return true; };
    const auto nothing = [](const PipelineOp&) { return false; };
    const std::vector<Ns> replayed = simulate(everything);
    const std::vector<Ns> ideal = simulate(nothing);
    for (std::size_t s = 0; s < built_.size(); ++s) {
      const PipelineJob::Step& step = *built_[s];
      out_.steps.push_back({step.number, step.traced, replayed[s], ideal[s]});
      out_.traced_ms += to_ms(step.traced) / static_cast<double>(built_.size());
    }
    replayed_ = replayed;
    ideal_steps_ = ideal;
    out_.replayed_ms = mean_ms(replayed);
    out_.ideal_ms = mean_ms(ideal);
    out_.launch_slowdown = out_.replayed_ms > 0 ? out_.traced_ms / out_.replayed_ms : 1;
    out_.slowdown = ratio(out_.replayed_ms);
    decompose();
    workers();
    out_.slow_workers = explained([&](const PipelineOp& o) { return !is_slow(o); }, out_.slow_workers_per_step);
    out_.last_stage =
        explained([&](const PipelineOp& o) { return o.stage + 1 != job_.stages; }, out_.last_stage_per_step);
    out_.notes.insert(out_.notes.begin(), job_.notes.begin(), job_.notes.end());
    return std::move(out_);
  }

 private:
  using AsMeasured = std::function<bool(const PipelineOp&)>;

  Status build() {
    std::uint64_t alone = 0;
    for (const PipelineJob::Step& step : job_.steps) {
      Result<PipelineGraph> graph = build_pipeline(job_, step);
      if (!graph) {
        if (graph.error().code == ErrorCode::kInternal) return forward(graph);
        out_.notes.push_back(fmt::format("step {} left out: {}", step.number, graph.error().message));
        continue;
      }
      alone += graph->alone;
      out_.tasks += graph->graph.size();
      graphs_.push_back(std::move(*graph));
      built_.push_back(&step);
    }
    if (graphs_.empty()) {
      return fail(ErrorCode::kDeclined, "no step of the trace can be simulated: " + out_.notes.front());
    }
    if (alone > 0) {
      out_.notes.push_back(
          fmt::format("{} sends or receives have no partner in the trace and keep their measured time", alone));
    }
    return {};
  }

  void find_ideal() {
    std::array<std::vector<double>, kPipelineOpTypes> values;
    for (std::size_t s = 0; s < graphs_.size(); ++s) {
      for (std::uint32_t i = 0; i < graphs_[s].cost.size(); ++i) {
        const std::uint32_t o = built_[s]->first + i;
        own_[o] = graphs_[s].cost[i];
        values[static_cast<std::size_t>(job_.ops[o].type)].push_back(static_cast<double>(own_[o]));
      }
    }
    std::array<Ns, kPipelineOpTypes> cost{};
    for (std::size_t t = 0; t < kPipelineOpTypes; ++t) {
      cost[t] = std::llround(typical(values[t], is_transfer(static_cast<PipelineOpType>(t))));
    }
    for (std::size_t o = 0; o < job_.ops.size(); ++o) ideal_[o] = cost[static_cast<std::size_t>(job_.ops[o].type)];
  }

  // Every step, operations with their measured or their typical cost.
  std::vector<Ns> simulate(const AsMeasured& as_measured) {
    std::vector<Ns> steps;
    std::vector<Ns> cost;
    for (std::size_t s = 0; s < graphs_.size(); ++s) {
      const PipelineGraph& g = graphs_[s];
      cost.assign(g.graph.cost.begin(), g.graph.cost.end());
      for (std::uint32_t i = 0; i < g.task.size(); ++i) {
        const std::uint32_t o = built_[s]->first + i;
        cost[g.task[i]] = as_measured(job_.ops[o]) ? own_[o] : ideal_[o];
      }
      simulate::simulate(g.graph, {cost, nullptr}, scratch_);
      steps.push_back(scratch_.step);
    }
    return steps;
  }

  static double mean_ms(const std::vector<Ns>& steps) {
    double sum = 0;
    for (const Ns s : steps) sum += to_ms(s);
    return sum / static_cast<double>(steps.size());
  }
  [[nodiscard]] double ratio(double ms) const { return out_.ideal_ms > 0 ? ms / out_.ideal_ms : 1; }
  // An ideal job in which only some operations are as measured.
  PipelineAnswers::Share alone(std::string name, std::int64_t number, const AsMeasured& as_measured) {
    PipelineAnswers::Share share{std::move(name), number, 1, {}};
    const std::vector<Ns> steps = simulate(as_measured);
    share.slowdown = ratio(mean_ms(steps));
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const auto ideal = static_cast<double>(ideal_steps_[s]);
      share.per_step.push_back(ideal > 0 ? static_cast<double>(steps[s]) / ideal : 1);
    }
    return share;
  }

  // What goes of the slowdown when the operations not named are typical.
  double explained(const AsMeasured& rest, std::vector<double>& per_step) {
    const std::vector<Ns> steps = simulate(rest);
    const auto share = [](double as_is, double changed, double ideal) {
      return as_is > ideal ? (as_is - changed) / (as_is - ideal) : 0;
    };
    for (std::size_t s = 0; s < steps.size(); ++s) {
      per_step.push_back(share(to_ms(replayed_[s]), to_ms(steps[s]), to_ms(ideal_steps_[s])));
    }
    return share(out_.replayed_ms, mean_ms(steps), out_.ideal_ms);
  }

  void decompose() {
    const auto worst_first = [](std::vector<PipelineAnswers::Share>& shares) {
      std::stable_sort(shares.begin(), shares.end(),
                       [](const auto& a, const auto& b) { return a.slowdown > b.slowdown; });
    };
    for (std::uint32_t d = 0; d < job_.dp_size; ++d) {
      out_.by_dp.push_back(alone(fmt::format("dp {}", d), d, [&](const PipelineOp& o) { return o.dp == d; }));
    }
    for (std::uint32_t s = 0; s < job_.stages; ++s) {
      out_.by_stage.push_back(alone(fmt::format("stage {}", s), s, [&](const PipelineOp& o) { return o.stage == s; }));
    }
    std::map<std::string_view, bool> types;
    for (const PipelineOp& o : job_.ops) types.emplace(group_name(o.type), true);
    for (const auto& [name, seen] : types) {
      out_.by_type.push_back(
          alone(std::string(name), -1, [n = name](const PipelineOp& o) { return group_name(o.type) == n; }));
    }
    for (const auto& share : out_.by_dp) dp_slowdown_[static_cast<std::uint32_t>(share.number)] = share.slowdown;
    for (const auto& share : out_.by_stage) stage_slowdown_[static_cast<std::uint32_t>(share.number)] = share.slowdown;
    worst_first(out_.by_dp);
    worst_first(out_.by_stage);
    worst_first(out_.by_type);
  }

  // A worker is slow when both its data-parallel rank and its stage are: the smaller of the two slowdowns.
  void workers() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, PipelineAnswers::Worker> all;
    for (std::size_t s = 0; s < graphs_.size(); ++s) {
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<Ns, Ns>> spans;
      for (std::uint32_t i = 0; i < graphs_[s].cost.size(); ++i) {
        const PipelineOp& o = job_.ops[built_[s]->first + i];
        PipelineAnswers::Worker& w = all[{o.dp, o.stage}];
        w.rank = o.rank;
        w.dp = o.dp;
        w.stage = o.stage;
        if (is_transfer(o.type)) {
          w.wait += graphs_[s].wait[i];
          w.transfer += graphs_[s].cost[i];
        }
        const auto it = spans.try_emplace({o.dp, o.stage}, o.start, o.end).first;
        it->second.first = std::min(it->second.first, o.start);
        it->second.second = std::max(it->second.second, o.end);
      }
      for (const auto& [id, span] : spans) all[id].step += span.second - span.first;
    }
    const auto steps = static_cast<Ns>(graphs_.size());
    for (auto& [id, w] : all) {
      w.step /= steps;
      w.wait /= steps;
      w.transfer /= steps;
      w.slowdown = std::min(dp_slowdown_[w.dp], stage_slowdown_[w.stage]);
      out_.workers.push_back(w);
    }
    std::vector<std::int64_t> order(out_.workers.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return out_.workers[static_cast<std::size_t>(a)].slowdown > out_.workers[static_cast<std::size_t>(b)].slowdown;
    });
    order.resize((order.size() * 3 + 99) / 100);
    out_.slowest = order;
  }

  [[nodiscard]] bool is_slow(const PipelineOp& o) const {
    return std::any_of(out_.slowest.begin(), out_.slowest.end(), [&](std::int64_t i) {
      const PipelineAnswers::Worker& w = out_.workers[static_cast<std::size_t>(i)];
      return w.dp == o.dp && w.stage == o.stage;
    });
  }

  const PipelineJob& job_;
  PipelineAnswers out_;
  std::vector<PipelineGraph> graphs_;
  std::vector<const PipelineJob::Step*> built_;
  std::vector<Ns> own_, ideal_;             // per op
  std::vector<Ns> replayed_, ideal_steps_;  // per step
  std::map<std::uint32_t, double> dp_slowdown_, stage_slowdown_;
  simulate::Timeline scratch_;
};

}  // namespace

Result<PipelineAnswers> answer(const PipelineJob& job) { return Study(job).run(); }

PipelineAnswers of_step(const PipelineAnswers& all, std::size_t step) {
  PipelineAnswers out = all;
  out.steps = {all.steps[step]};
  out.traced_ms = to_ms(out.steps[0].traced);
  out.replayed_ms = to_ms(out.steps[0].replayed);
  out.ideal_ms = to_ms(out.steps[0].ideal);
  out.launch_slowdown = out.replayed_ms > 0 ? out.traced_ms / out.replayed_ms : 1;
  out.slowdown = out.ideal_ms > 0 ? out.replayed_ms / out.ideal_ms : 1;
  for (auto* shares : {&out.by_dp, &out.by_stage, &out.by_type}) {
    for (PipelineAnswers::Share& s : *shares) {
      s.slowdown = s.per_step[step];
      s.per_step = {s.slowdown};
    }
    std::stable_sort(shares->begin(), shares->end(),
                     [](const auto& a, const auto& b) { return a.slowdown > b.slowdown; });
  }
  out.slow_workers = all.slow_workers_per_step[step];
  out.last_stage = all.last_stage_per_step[step];
  out.slow_workers_per_step = {out.slow_workers};
  out.last_stage_per_step = {out.last_stage};
  return out;
}

}  // namespace foretrace::ranks
