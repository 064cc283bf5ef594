#include "analysis/trained_parameters.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/decimal.hpp"
#include "base/saturate.hpp"
#include "trace/tensor_size.hpp"
#include "work/op_view.hpp"

namespace foretrace::analysis {

using graph::Graph;
using graph::Phase;
using graph::TaskKind;

namespace {

// "Optimizer.step#Adam.step" -> "Adam"
std::string optimizer_name(const trace::Trace& trace) {
  constexpr std::string_view kPrefix = "Optimizer.step#";
  for (std::uint32_t s = 0; s < trace.strings.size(); ++s) {
    std::string_view name = trace.strings[StringId{s}];
    if (!name.starts_with(kPrefix)) continue;
    name.remove_prefix(kPrefix.size());
    return std::string(name.substr(0, name.find('.')));
  }
  return {};
}

// Parameters by the optimizer operation that touches each of them once, whichever the implementation has.
void count(const trace::Trace& t, const Graph& g, TrainedParameters& out) {
  struct Update {
    std::string_view op;
    std::size_t
        lists;  // of equal length that it takes: parameters, gradients, states, steps; 0: one parameter at a time
  };
  constexpr Update kUpdates[] = {
      {"aten::_fused_adam_", 5},  {"aten::_fused_adamw_", 5}, {"aten::_fused_sgd_", 3}, {"aten::_foreach_addcdiv_", 3},
      {"aten::_foreach_add_", 2}, {"aten::addcdiv_", 0},      {"aten::add_", 0}};
  for (const auto& [op, lists] : kUpdates) {
    std::vector<std::uint32_t> seen;
    std::int64_t total = 0;
    std::int64_t tensors = 0;
    for (std::size_t k = 0; k < g.size(); ++k) {
      if (g.kind[k] != TaskKind::kCall || g.phase[k] != Phase::kOptimizer || !g.op[k].valid()) continue;
      const std::uint32_t e = g.op[k].value;
      if (t.name(e) != op || (!seen.empty() && seen.back() == e)) continue;
      seen.push_back(e);
      const trace::OpInputs* inputs = t.args.inputs(t.events.args[e]);
      if (inputs == nullptr || !inputs->dims.valid()) continue;
      const auto shapes = trace::parse_shapes(t.strings[inputs->dims]);
      // Of long lists the profiler writes no shapes; numbers of steps have none.
      if (lists > 0 && std::all_of(shapes.begin(), shapes.end(), [](const auto& s) { return s.empty(); })) continue;
      // The parameters come first, then their gradients. Arguments that are no tensors have empty shapes, which make lists look longer.
      std::size_t parameters = lists > 0 ? shapes.size() / lists : std::min<std::size_t>(1, shapes.size());
      const auto gradients_follow = [&](std::size_t n) {
        const auto second = shapes.begin() + static_cast<std::ptrdiff_t>(n);
        return std::equal(shapes.begin(), second, second);
      };
      if (lists > 1) {
        std::size_t n = parameters;
        while (n > 0 && !gradients_follow(n)) --n;
        if (n > 0) parameters = n;
      }
      for (std::size_t i = 0; i < parameters; ++i) total = saturated_sum(total, trace::elements_of(shapes[i]));
      tensors += static_cast<std::int64_t>(parameters);
    }
    if (total > 0) {
      out.elements = total;
      out.tensors = tensors;
      return;
    }
  }
}

// What backward puts in place as gradients.
struct Accumulated {
  std::int64_t elements = 0;  // 0 where a shape is missing
  std::int64_t element_bytes = 4;
};

// Of one step: every step of a trace accumulates the same. Gradients have the type of their parameters; FP32 where the trace does not say
// it, or types are mixed.
Accumulated accumulated_gradients(const trace::Trace& trace, const Graph& g) {
  constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";
  Accumulated out;
  std::optional<Ns> begin;
  for (std::size_t t = 0; t < g.size() && !begin; ++t) {
    if (g.kind[t] == TaskKind::kCall && g.event[t].valid())
      begin = trace.events.start[g.event[t].index()] - g.measured[t];
  }
  std::set<std::int64_t> types;
  bool shapes = true;
  for (std::size_t e = 0; begin && e < trace.size(); ++e) {
    const Ns at = trace.events.start[e] - *begin;
    if (at < 0 || at > g.traced || trace.name(e) != kAccumulate) continue;
    const trace::OpInputs* inputs = trace.args.inputs(trace.events.args[e]);
    const auto dims = inputs == nullptr || !inputs->dims.valid() ? std::vector<std::vector<std::int64_t>>()
                                                                 : trace::parse_shapes(trace.strings[inputs->dims]);
    shapes = shapes && !dims.empty();
    if (!dims.empty()) out.elements = saturated_sum(out.elements, trace::elements_of(dims.front()));
    const auto names = inputs == nullptr || !inputs->types.valid() ? std::vector<std::string>()
                                                                   : trace::parse_strings(trace.strings[inputs->types]);
    types.insert(names.empty() ? 0 : work::element_bytes(names.front()));
  }
  if (!shapes) out.elements = 0;
  if (types.size() == 1 && *types.begin() > 0) out.element_bytes = *types.begin();
  return out;
}

// A compiled program says itself which of its inputs it updates.
void count_compiled(const trace::Trace& trace, TrainedParameters& out) {
  const std::string_view recorded = trace.metadata_value("compiled_parameters");
  const std::size_t comma = recorded.find(',');
  if (out.elements > 0 || comma == std::string_view::npos) return;  // "[elements,tensors]"
  const auto elements = parse_int64(recorded.substr(1, comma - 1));
  const auto tensors = parse_int64(recorded.substr(comma + 1, recorded.size() - comma - 2));
  if (!elements || !tensors || *elements <= 0) return;
  out.elements = *elements;
  out.tensors = *tensors;
}

// What the optimizer keeps of each parameter, in elements.
int states_of(std::string_view optimizer) {
  for (const std::string_view two : {"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "Lamb", "LAMB"}) {
    if (optimizer == two) return 2;
  }
  return optimizer.empty() ? 0 : 1;
}

}  // namespace

TrainedParameters trained_parameters(const trace::Trace& trace, const Graph& graph) {
  TrainedParameters out;
  out.optimizer = optimizer_name(trace);
  count(trace, graph, out);
  count_compiled(trace, out);
  const Accumulated gradients = accumulated_gradients(trace, graph);
  out.element_bytes = gradients.element_bytes;
  out.accumulated = gradients.elements;
  return out;
}

void size_parameters(memory::Curve& c, TrainedParameters& trained) {
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;
  for (const memory::Block& b : c.blocks) {
    if (b.kind != memory::Kind::kGradient || b.allocated == 0) continue;
    bytes = saturated_sum(bytes, b.bytes);
    ++tensors;
  }
  if (trained.elements == 0) {
    // Several passes accumulate each gradient as often; other tensors may look like gradients in memory.
    trained.elements = bytes / trained.element_bytes;
    if (trained.accumulated > 0) trained.elements = std::min(trained.elements, trained.accumulated);
    trained.tensors = tensors;
  } else if (bytes > 0 && bytes < 3 * trained.elements) {
    trained.element_bytes = 2;  // a gradient has its parameter's type
  }
  c.parameter_bytes = saturated_product(trained.elements, trained.element_bytes);
  c.state_bytes = saturated_product(c.parameter_bytes, states_of(trained.optimizer));
}

}  // namespace foretrace::analysis
