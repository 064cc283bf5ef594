// What of a step cannot move, as JSON, for tools/frozen_accuracy.py: frozen time, the two limits, and the distances over
// 50 us by what they follow.
//
//   frozen_figures [--lags] TRACE…        one JSON object per trace and line

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "foretrace/graph/build.hpp"
#include "foretrace/simulate/limits.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/steps.hpp"
#include "report/json_writer.hpp"

namespace {

using namespace foretrace;  // NOLINT(google-build-using-namespace): a program, not a header
using graph::DependencyKind;
using graph::Graph;

constexpr Ns kLong = 50 * kNsPerUs;

struct LongLags {
  std::uint64_t count = 0;
  Ns time = 0;
};

std::map<std::string, LongLags> long_lags(const Graph& g, bool print) {
  std::map<std::string, LongLags> out;
  const auto add = [&](std::string_view kind, Ns lag, std::uint32_t from, std::uint32_t to) {
    if (lag <= kLong) return;
    LongLags& l = out[std::string(kind)];
    ++l.count;
    l.time += lag;
    if (!print) return;
    fmt::print(stderr, "{} {:>10.1f} us at {:.3f} ms: {} {} -> {} {} (lane {})\n", kind, to_us(lag),
               to_ms(g.measured[to]), to_string(g.kind[from]), g.task_name(from).substr(0, 50), to_string(g.kind[to]),
               g.task_name(to).substr(0, 50), g.strings[g.lanes[g.lane[to]].name]);
  };
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!g.first_of_lane(t)) add("lane", g.lane_lag[t], t - 1, t);
    if (g.first_of_lane(t) && g.periodic) add("border-lane", g.lane_lag[t], t, t);
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] != DependencyKind::kShare) add(to_string(g.dep_kind[d]), g.dep_lag[d], t, g.dep_to[d]);
    }
    if (g.soft[t] != kNone) {
      const graph::SoftDependency& soft = g.soft_dependencies[g.soft[t]];
      add("share", soft.lag, soft.from.value, t);
    }
  }
  return out;
}

// The first tasks that start elsewhere than measured, and what held them.
void print_late(const Graph& g, const simulate::SteadyState& s) {
  if (s.copies > 1) return;
  std::vector<std::uint32_t> late;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (std::abs(s.timeline.start[t] - g.measured[t]) > kLong) late.push_back(t);
  }
  std::sort(late.begin(), late.end(), [&](auto a, auto b) { return g.measured[a] < g.measured[b]; });
  for (std::size_t i = 0; i < std::min<std::size_t>(late.size(), 12); ++i) {
    const std::uint32_t t = late[i];
    const std::uint32_t by = s.timeline.cause[t];
    fmt::print(stderr, "late {:+9.1f} us at {:.3f} ms: {} {} by {} {} (task {} lane {})\n",
               to_us(s.timeline.start[t] - g.measured[t]), to_ms(g.measured[t]), to_string(g.kind[t]),
               g.task_name(t).substr(0, 50), to_string(s.timeline.cause_kind[t]),
               by == kNone ? "-" : g.task_name(by).substr(0, 50), t, g.strings[g.lanes[g.lane[t]].name]);
  }
}

bool write_trace(report::JsonWriter& json, const std::string& path, bool print) {
  const Result<trace::Trace> trace = trace::load(path);
  if (!trace) {
    fmt::print(stderr, "{}\n", trace.error().to_string());
    return false;
  }
  const trace::Steps steps = trace::find_steps(*trace);
  const graph::GraphBuilder builder(*trace, steps);
  json.begin_object().member("trace", path).member("found_by", trace::describe(steps.source));
  json.key("steps").begin_array();
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    const Result<Graph> built = builder.build(i);
    if (!built) continue;
    const Graph& g = *built;
    const simulate::SteadyState s = simulate::steady_state(g);
    const simulate::Limits l = simulate::limits(g, s.timeline.step);
    if (print) print_late(g, s);
    Ns gpu = 0;
    for (std::size_t t = 0; t < g.size(); ++t) gpu += graph::is_gpu(g.kind[t]) ? g.cost[t] : 0;
    json.begin_object().member("step", g.step_name).member("traced_ms", to_ms(g.traced));
    json.member("replayed_ms", to_ms(l.step)).member("error_pct", percent_off(l.step, g.traced));
    json.member("period_ms", to_ms(g.period)).member("error_vs_period_pct", percent_off(l.step, g.period));
    json.member("ramp_up", g.ramp_up).member("unexplained_lags", g.notes.unexplained_lags);
    json.member("carried", g.carried.size()).member("unrecorded", g.notes.unrecorded_tasks);
    json.member("copies", s.copies).member("periodic", g.periodic).member("tasks", g.size());
    json.member("gpu_ms", to_ms(gpu)).member("frozen_pct", l.frozen_pct());
    json.member("cpu_free_ms", to_ms(l.cpu_free)).member("gpu_path_ms", to_ms(l.gpu_path));
    json.member("cpu_free_off_pct", l.cpu_free_off_pct());
    json.member("gpu_free_ms", to_ms(l.gpu_free)).member("cpu_work_ms", to_ms(l.cpu_work));
    json.member("gpu_free_off_pct", l.gpu_free_off_pct());
    json.key("long_lags").begin_object();
    for (const auto& [kind, lags] : long_lags(g, print)) {
      json.key(kind).begin_object().member("count", lags.count).member("ms", to_ms(lags.time)).end_object();
    }
    json.end_object().end_object();
  }
  json.end_array().end_object();
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> args(argv, static_cast<std::size_t>(argc));
  bool print = false;
  bool fine = true;
  for (const char* arg : args.subspan(1)) {
    if (std::string_view(arg) == "--lags") {
      print = true;
      continue;
    }
    std::string line;
    report::JsonWriter json(line, 0);
    if (!write_trace(json, arg, print)) {
      fine = false;
      continue;
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
  return fine ? 0 : 3;
}
