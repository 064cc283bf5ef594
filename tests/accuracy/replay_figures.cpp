// What a replay of traces gives, as JSON, for tools/replay_accuracy.py: every step replayed unchanged, strictly, with
// another step's costs, with all kernels at half their time, and without each family of dependencies.
//
//   replay_figures [--ablation] TRACE…        one JSON object per trace and line

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "foretrace/graph/build.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/steps.hpp"
#include "report/json_writer.hpp"
#include "simulate/transplant.hpp"

namespace {

using namespace foretrace;  // NOLINT(google-build-using-namespace): a program, not a header
using graph::BuildOptions;
using graph::DependencyKind;
using graph::Graph;

double percent_off(Ns value, Ns truth) {
  return truth > 0 ? 100.0 * static_cast<double>(value - truth) / static_cast<double>(truth) : 0;
}

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

bool write_trace(report::JsonWriter& json, const std::string& path, bool ablation) {
  const Result<trace::Trace> trace = trace::load(path);
  if (!trace) {
    fmt::print(stderr, "{}\n", trace.error().to_string());
    return false;
  }
  const trace::Steps steps = trace::find_steps(*trace);
  const graph::GraphBuilder builder(*trace, steps);
  std::vector<std::optional<Graph>> plain(steps.steps.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (Result<Graph> g = builder.build(i)) plain[i] = std::move(*g);
  }
  json.begin_object().member("trace", path).member("found_by", trace::describe(steps.source));
  json.key("steps").begin_array();
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (!plain[i]) continue;
    const Graph& g = *plain[i];
    const simulate::SteadyState s = simulate::steady_state(g);
    json.begin_object().member("step", g.step_name).member("traced_ms", to_ms(g.traced));
    json.member("replayed_ms", to_ms(s.timeline.step)).member("error_pct", percent_off(s.timeline.step, truth_of(g)));
    json.member("period_ms", to_ms(g.period)).member("ramp_up", g.ramp_up);
    json.member("copies", s.copies).member("settled", s.settled).member("tasks", g.size());
    json.member("unexplained_lags", g.notes.unexplained_lags).member("unexplained_ms", to_ms(g.notes.unexplained_time));
    json.member("refuted_waits", g.notes.refuted_waits).member("dropped_soft", g.notes.dropped_soft);
    write_starts(json, starts_of(g, s.timeline, g, nullptr));
    json.member("half_kernels", static_cast<double>(step_with_half_kernels(g)) / static_cast<double>(s.timeline.step));
    const Mapped share = mapped(g);
    json.member("layers_pct", 100 * share.any).member("named_layers_pct", 100 * share.named);
    const std::optional<std::size_t> other = partner(i, plain.size());
    if (other && plain[*other]) write_transplant(json, g, *plain[*other]);
    json.key("variants").begin_object();
    for (const Variant& v : variants(ablation)) {
      const Result<Graph> changed = builder.build(i, v.options);
      if (!changed) continue;
      const simulate::SteadyState c = simulate::steady_state(*changed);
      json.key(v.name).begin_object().member("error_pct", percent_off(c.timeline.step, truth_of(g)));
      write_starts(json, starts_of(*changed, c.timeline, *changed, nullptr));
      json.member("half_kernels",
                  static_cast<double>(step_with_half_kernels(*changed)) / static_cast<double>(s.timeline.step));
      if (other && plain[*other]) {
        if (const Result<Graph> source = builder.build(*other, v.options)) write_transplant(json, *changed, *source);
      }
      json.end_object();
    }
    json.end_object().end_object();
  }
  json.end_array().end_object();
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> args(argv, static_cast<std::size_t>(argc));
  bool ablation = false;
  bool fine = true;
  for (const char* arg : args.subspan(1)) {
    if (std::string_view(arg) == "--ablation") {
      ablation = true;
      continue;
    }
    std::string line;
    report::JsonWriter json(line, 0);
    if (!write_trace(json, arg, ablation)) {
      fine = false;
      continue;
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
  return fine ? 0 : 3;
}
