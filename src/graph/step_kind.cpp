#include "graph/step_kind.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/text.hpp"
#include "graph/attention_shapes.hpp"
#include "graph/call_roles.hpp"
#include "graph/step_begin.hpp"
#include "trace/name_tables.hpp"

namespace foretrace::graph {

namespace {

using trace::EventKind;

constexpr std::array<std::string_view, 6> kNames = {"unknown", "training", "evaluation",
                                                    "prefill", "decode",   "diffusion"};

struct Pattern {
  std::string_view sign, pattern;
  std::optional<StepKind> kind;  // nothing: it writes to a cache
};

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> kPatterns = [] {
    std::vector<Pattern> all;
    for (const trace::NameRow& row : trace::name_table("step_kinds", 4)) {
      const auto* const name = std::find(kNames.begin(), kNames.end(), row[1]);
      FORETRACE_CHECK(row[1] == "cache" || name != kNames.end());
      all.push_back({row[0], row[2], {}});
      if (row[1] != "cache") all.back().kind = static_cast<StepKind>(name - kNames.begin());
    }
    return all;
  }();
  return kPatterns;
}

const Pattern* pattern_of(std::string_view sign, std::string_view name) {
  for (const Pattern& p : patterns()) {
    if (p.sign == sign && trace::matches(name, p.pattern)) return &p;
  }
  return nullptr;
}

// The number behind `mark`: 32 behind "bs=" in "step[DECODE bs=32]".
std::int64_t number_behind(std::string_view name, std::string_view mark) {
  const std::size_t at = name.find(mark);
  if (at == std::string_view::npos) return 0;
  std::int64_t number = 0;
  const std::string_view rest = name.substr(at + mark.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return std::max<std::int64_t>(0, number);
}

// "… 0 ctx reqs, 0 ctx tokens, 32 gen reqs"
std::int64_t number_before(std::string_view name, std::string_view mark) {
  const std::size_t end = name.find(mark);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  return number_behind(name, name.substr(0, begin));
}

std::int64_t sequences_in(std::string_view name) {
  for (const std::int64_t n :
       {number_behind(name, "bs="), number_behind(name, "generation_"), number_before(name, " gen reqs")}) {
    if (n > 0) return n;
  }
  return 0;
}

class Decider {
 public:
  Decider(const trace::Trace& trace, const Graph& graph) : t_(trace), g_(graph) {}

  StepNature run() {
    if (trains()) return {StepKind::kTraining, 0};
    look_at_events();
    if (by_range_) return {*by_range_, sequences_};
    look_at_kernels();
    return {decide(), sequences_};
  }

 private:
  [[nodiscard]] bool trains() const {
    for (std::size_t t = 0; t < g_.size(); ++t) {
      if (g_.phase[t] == Phase::kBackward || g_.phase[t] == Phase::kOptimizer) return true;
      if (!is_gpu(g_.kind[t])) continue;
      // Kernels alone, without operations: gradients and updates have names of their own.
      const std::string_view name = g_.task_name(t);
      if (contains_any(name, {"wgrad", "dgrad", "bprop", "_backward", "Backward", "_bwd"})) return true;
      if (contains(name, "multi_tensor_apply") && contains_any(name, {"Adam", "Sgd", "LAMB", "Adagrad"})) return true;
    }
    return false;
  }

  // Ranges, frames and operations of the main thread in the step or around it.
  void look_at_events() {
    const GraphLane& main = g_.lanes[g_.main_lane];
    const std::optional<Ns> begin = step_begin(t_, g_);
    if (!main.trace_lane.valid() || !begin) return;
    const Ns end = *begin + std::max(g_.traced, g_.period);
    std::unordered_set<std::uint32_t> seen;
    for (std::uint32_t e = 0; e < t_.size(); ++e) {
      const EventKind kind = t_.kind(e);
      if (kind != EventKind::kOp && kind != EventKind::kAnnotation && kind != EventKind::kPython) continue;
      if (t_.events.lane[e] != main.trace_lane || t_.events.start[e] >= end || t_.end(e) <= *begin) continue;
      if (kind == EventKind::kOp) attention_.add(t_, e);
      has_ops_ |= kind == EventKind::kOp && t_.name(e).starts_with("aten::");
      if (!seen.insert(t_.events.name[e].value).second) continue;
      const std::string_view name = t_.name(e);
      if (kind == EventKind::kAnnotation) range(name);
      if (const Pattern* p = pattern_of("any", name)) {
        if (p->kind) by_name_ = p->kind;
        writes_cache_ |= !p->kind;
      }
    }
    if (const Pattern* p = pattern_of("step", g_.step_name)) by_range_ = p->kind;
    if (sequences_ == 0) sequences_ = sequences_in(g_.step_name);
  }

  void range(std::string_view name) {
    if (const Pattern* p = pattern_of("step", name)) {
      if (!by_range_) by_range_ = p->kind;
      if (sequences_ == 0) sequences_ = sequences_in(name);
    }
  }

  void look_at_kernels() {
    std::vector<std::int8_t> known(g_.strings.size(), -1);  // row of the table + 1, by name
    for (std::size_t t = 0; t < g_.size(); ++t) {
      if (g_.kind[t] != TaskKind::kKernel) continue;
      const bool in_graph = g_.launch[t].valid() && is_graph_launch(g_.task_name(g_.launch[t].index()));
      ++(in_graph ? in_graphs_ : launched_);
      std::int8_t& row = known[g_.name[t].index()];
      if (row < 0) {
        const Pattern* p = pattern_of("kernel", g_.task_name(t));
        row = p == nullptr ? std::int8_t{0} : static_cast<std::int8_t>(p - patterns().data() + 1);
      }
      if (row == 0) continue;
      const Pattern& p = patterns()[static_cast<std::size_t>(row - 1)];
      writes_cache_ |= !p.kind;
      if (p.kind) ++votes_[static_cast<std::size_t>(*p.kind)];
    }
  }

  [[nodiscard]] StepKind decide() const {
    if (by_name_) return *by_name_;
    const auto votes = [&](StepKind k) { return votes_[static_cast<std::size_t>(k)]; };
    if (attention_.one_query() > attention_.many_queries()) return StepKind::kDecode;
    if (votes(StepKind::kDecode) + votes(StepKind::kPrefill) > 0 && attention_.many_queries() == 0) {
      return votes(StepKind::kDecode) >= votes(StepKind::kPrefill) ? StepKind::kDecode : StepKind::kPrefill;
    }
    if (writes_cache_) return StepKind::kPrefill;
    if (attention_.denoises()) return StepKind::kDiffusion;
    // A CUDA graph may hold a whole training step, and its kernels need not say so.
    return has_ops_ && launched_ >= in_graphs_ ? StepKind::kEvaluation : StepKind::kUnknown;
  }

  const trace::Trace& t_;
  const Graph& g_;
  std::optional<StepKind> by_range_, by_name_;
  std::int64_t sequences_ = 0;
  bool writes_cache_ = false;
  bool has_ops_ = false;  // of PyTorch: their phases would show a backward pass
  std::array<std::size_t, kNames.size()> votes_{};
  std::size_t in_graphs_ = 0, launched_ = 0;  // kernels
  AttentionShapes attention_;
};

}  // namespace

std::string_view to_string(StepKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

StepNature step_nature(const trace::Trace& trace, const Graph& graph) { return Decider(trace, graph).run(); }

}  // namespace foretrace::graph
