// What is known of the graphs of real steps, as JSON, for tools/replay_accuracy.py and tools/frozen_accuracy.py.
//
//   step_figures [--replays] [--ablation] [--lags] TRACE…        one JSON object per trace and line
//
// Of every step the unchanged replay, and what of it cannot move: frozen time and the two limits. --replays: also strictly, with
// another step's costs, with all kernels at half their time. --ablation: also without each family of dependencies. --lags: on
// standard error, every distance over 50 us and the first tasks that start elsewhere than measured.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"
#include "report/json_writer.hpp"
#include "simulate/transplant.hpp"

namespace {

using namespace foretrace;  // NOLINT(google-build-using-namespace): a program, not a header
using graph::BuildOptions;
using graph::DependencyKind;
using graph::Graph;

struct Wanted {
  bool replays = false, ablation = false, lags = false;
};

// What a replay should meet: the period where another step shows it (the range, for steps that wait for their work).
Ns truth_of(const Graph& g) { return g.period > 0 ? g.period : g.traced; }

struct Starts {
  double p50_us = 0, p95_us = 0;
};

// How far simulated starts of GPU work lie from measured ones. `match` leads to the task whose start was measured.
std::optional<Starts> starts_of(const Graph& g, const simulate::Timeline& t, const Graph& measured,
                                const std::vector<std::uint32_t>* match) {
  if (g.periodic) return std::nullopt;
  std::vector<Ns> off;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const std::uint32_t m = match == nullptr ? i : (*match)[i];
    if (is_gpu(g.kind[i]) && m != kNone) off.push_back(std::abs(t.start[i] - measured.measured[m]));
  }
  if (off.empty()) return std::nullopt;
  return Starts{to_us(quantile(off, 0.5)), to_us(quantile(off, 0.95))};
}

void write_starts(report::JsonWriter& json, const std::optional<Starts>& s) {
  if (!s) return;
  json.member("p50_us", s->p50_us).member("p95_us", s->p95_us);
}

Ns step_with_half_kernels(const Graph& g) {
  std::vector<Ns> cost(g.cost.begin(), g.cost.end());
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == graph::TaskKind::kKernel) cost[t] /= 2;
  }
  return simulate::steady_state(g, {cost, nullptr}).timeline.step;
}

struct Mapped {
  double any = 0, named = 0;  // share of GPU time
};
Mapped mapped(const Graph& g) {
  Ns all = 0;
  Ns any = 0;
  Ns named = 0;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!is_gpu(g.kind[t])) continue;
    all += g.cost[t];
    if (!g.layer[t].valid()) continue;
    any += g.cost[t];
    const graph::Phase p = g.phase[t];
    const bool by_phase =
        p == graph::Phase::kOptimizer || p == graph::Phase::kCommunication || p == graph::Phase::kData;
    if (by_phase || !g.layers[g.layer[t].index()].synthetic) named += g.cost[t];
  }
  if (all == 0) return {1, 1};
  return {static_cast<double>(any) / static_cast<double>(all), static_cast<double>(named) / static_cast<double>(all)};
}

struct Variant {
  std::string_view name;
  BuildOptions options;
};

std::vector<Variant> variants(bool ablation) {
  std::vector<Variant> all = {{"strict", {.without = {}, .device_gaps = true, .strict = true}}};
  if (!ablation) return all;
  constexpr std::pair<std::string_view, DependencyKind> kFamilies[] = {
      {"launch", DependencyKind::kLaunch},          {"sync", DependencyKind::kSync},
      {"thread", DependencyKind::kThread},          {"queue", DependencyKind::kQueue},
      {"stream-wait", DependencyKind::kStreamWait}, {"share", DependencyKind::kShare},
      {"border", DependencyKind::kBorder}};
  for (const auto& [name, kind] : kFamilies)
    all.push_back({name, {.without = {kind}, .device_gaps = true, .strict = true}});
  all.push_back({"device-gaps", {.without = {}, .device_gaps = false, .strict = true}});
  return all;
}

// The other step whose costs are put into this step's graph: the one after it, for the last the one before.
std::optional<std::size_t> partner(std::size_t step, std::size_t steps) {
  if (steps < 2) return std::nullopt;
  return step + 1 < steps ? step + 1 : step - 1;
}

void write_transplant(report::JsonWriter& json, const Graph& g, const Graph& other) {
  const simulate::Transplant t = simulate::transplant(g, other);
  const simulate::SteadyState s = simulate::steady_state(g, {t.cost, nullptr});
  json.key("transplant").begin_object().member("from", other.step_name).member("unmatched", t.unmatched);
  json.member("error_pct", percent_off(s.timeline.step, truth_of(other)));
  write_starts(json, starts_of(g, s.timeline, other, &t.match));
  json.end_object();
}

void write_limits(report::JsonWriter& json, const simulate::Limits& l) {
  json.member("frozen_pct", l.frozen_pct());
  json.member("cpu_free_ms", to_ms(l.cpu_free)).member("gpu_path_ms", to_ms(l.gpu_path));
  json.member("cpu_free_off_pct", l.cpu_free_off_pct());
  json.member("gpu_free_ms", to_ms(l.gpu_free)).member("cpu_work_ms", to_ms(l.cpu_work));
  json.member("gpu_free_off_pct", l.gpu_free_off_pct());
}

void print_lags(const Graph& g, const simulate::SteadyState& s) {
  constexpr std::size_t kNameLength = 50;
  constexpr std::size_t kMostLate = 12;
  const auto named = [&](std::uint32_t t) {
    return fmt::format("{} {}", to_string(g.kind[t]), g.task_name(t).substr(0, kNameLength));
  };
  for (const simulate::LongLag& l : simulate::long_lags(g)) {
    fmt::print(stderr, "{} {:>10.1f} us at {:.3f} ms: {} -> {} (lane {})\n", to_string(l.kind), to_us(l.lag),
               to_ms(g.measured[l.to]), named(l.from), named(l.to), g.strings[g.lanes[g.lane[l.to]].name]);
  }
  if (s.copies > 1) return;
  std::vector<std::uint32_t> late;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (std::abs(s.timeline.start[t] - g.measured[t]) > 50 * kNsPerUs) late.push_back(t);
  }
  std::sort(late.begin(), late.end(), [&](auto a, auto b) { return g.measured[a] < g.measured[b]; });
  for (std::size_t i = 0; i < std::min(late.size(), kMostLate); ++i) {
    const std::uint32_t by = s.timeline.cause[late[i]];
    fmt::print(stderr, "late {:+9.1f} us at {:.3f} ms: {} by {} {} (task {})\n",
               to_us(s.timeline.start[late[i]] - g.measured[late[i]]), to_ms(g.measured[late[i]]), named(late[i]),
               to_string(s.timeline.cause_kind[late[i]]), by == kNone ? "-" : named(by), late[i]);
  }
}

// All steps of one trace, whose builder the variants need again.
class Figures {
 public:
  Figures(const trace::Trace& trace, const trace::Steps& steps, Wanted wanted)
      : builder_(trace, steps), plain_(steps.steps.size()), wanted_(wanted) {
    for (std::size_t i = 0; i < plain_.size(); ++i) {
      // Of a cold step the start-up work is taken out: the file holds no time its replay should meet.
      if (builder_.cold(i)) continue;
      if (Result<Graph> g = builder_.build(i)) plain_[i] = std::move(*g);
    }
  }

  void write(report::JsonWriter& json) const {
    json.key("steps").begin_array();
    for (std::size_t i = 0; i < plain_.size(); ++i) {
      if (plain_[i]) write_step(json, i);
    }
    json.end_array();
  }

 private:
  void write_step(report::JsonWriter& json, std::size_t i) const {
    const Graph& g = *plain_[i];
    const simulate::SteadyState s = simulate::steady_state(g);
    if (wanted_.lags) print_lags(g, s);
    Ns gpu = 0;
    for (std::size_t t = 0; t < g.size(); ++t) gpu += is_gpu(g.kind[t]) ? g.cost[t] : 0;
    json.begin_object().member("step", g.step_name).member("traced_ms", to_ms(g.traced));
    json.member("replayed_ms", to_ms(s.timeline.step)).member("error_pct", percent_off(s.timeline.step, truth_of(g)));
    json.member("period_ms", to_ms(g.period)).member("periodic", g.periodic).member("ramp_up", g.ramp_up);
    json.member("copies", s.copies).member("settled", s.settled).member("tasks", g.size());
    json.member("gpu_ms", to_ms(gpu)).member("long_lags", simulate::long_lags(g).size());
    json.member("unexplained_lags", g.notes.unexplained_lags).member("unexplained_ms", to_ms(g.notes.unexplained_time));
    json.member("refuted_waits", g.notes.refuted_waits).member("dropped_soft", g.notes.dropped_soft);
    write_starts(json, starts_of(g, s.timeline, g, nullptr));
    write_limits(json, simulate::limits(g, s.timeline.step));
    if (wanted_.replays) write_replays(json, i, s.timeline.step);
    json.end_object();
  }

  void write_replays(report::JsonWriter& json, std::size_t i, Ns replayed) const {
    const Graph& g = *plain_[i];
    const auto part = [&](Ns step) { return static_cast<double>(step) / static_cast<double>(replayed); };
    json.member("half_kernels", part(step_with_half_kernels(g)));
    const Mapped share = mapped(g);
    json.member("layers_pct", 100 * share.any).member("named_layers_pct", 100 * share.named);
    const std::optional<std::size_t> other = partner(i, plain_.size());
    if (other && plain_[*other]) write_transplant(json, g, *plain_[*other]);
    json.key("variants").begin_object();
    for (const Variant& v : variants(wanted_.ablation)) {
      const Result<Graph> changed = builder_.build(i, v.options);
      if (!changed) continue;
      const simulate::SteadyState c = simulate::steady_state(*changed);
      json.key(v.name).begin_object().member("error_pct", percent_off(c.timeline.step, truth_of(g)));
      write_starts(json, starts_of(*changed, c.timeline, *changed, nullptr));
      json.member("half_kernels", part(step_with_half_kernels(*changed)));
      if (other && plain_[*other]) {
        if (const Result<Graph> source = builder_.build(*other, v.options)) write_transplant(json, *changed, *source);
      }
      json.end_object();
    }
    json.end_object();
  }

  graph::GraphBuilder builder_;
  std::vector<std::optional<Graph>> plain_;
  Wanted wanted_;
};

bool write_trace(report::JsonWriter& json, const std::string& path, Wanted wanted) {
  const Result<trace::Trace> trace = trace::load(path);
  if (!trace) {
    fmt::print(stderr, "{}\n", trace.error().to_string());
    return false;
  }
  const trace::Steps steps = trace::find_steps(*trace);
  json.begin_object().member("trace", path).member("found_by", trace::describe(steps.source));
  Figures(*trace, steps, wanted).write(json);
  json.end_object();
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> args(argv, static_cast<std::size_t>(argc));
  Wanted wanted;
  bool fine = true;
  for (const std::string_view arg : args.subspan(1)) {
    if (arg == "--replays" || arg == "--ablation" || arg == "--lags") {
      wanted.replays |= arg != "--lags";
      wanted.ablation |= arg == "--ablation";
      wanted.lags |= arg == "--lags";
      continue;
    }
    std::string line;
    report::JsonWriter json(line, 0);
    if (!write_trace(json, std::string(arg), wanted)) {
      fine = false;
      continue;
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
  return fine ? 0 : 3;
}
