#include "analysis/trained_parameters.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/decimal.hpp"
#include "base/saturate.hpp"
#include "trace/tensor_size.hpp"

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
  constexpr std::string_view kOnce[] = {
      "aten::_fused_adam_",  "aten::_fused_adamw_", "aten::_fused_sgd_", "aten::_foreach_addcdiv_",
      "aten::_foreach_add_", "aten::addcdiv_",      "aten::add_"};
  for (const std::string_view op : kOnce) {
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
      const bool list = op.find("foreach") != std::string_view::npos || op.find("fused") != std::string_view::npos;
      const auto shapes = trace::parse_shapes(t.strings[inputs->dims]);
      // Of long lists the profiler writes no shapes; numbers of steps have none.
      if (list && std::all_of(shapes.begin(), shapes.end(), [](const auto& s) { return s.empty(); })) continue;
      if (!list && !shapes.empty()) {
        total = saturated_sum(total, trace::elements_of(shapes.front()));
        ++tensors;
      }
      if (list && op.find("fused") != std::string_view::npos) {
        // Four or five lists of equal length: parameters, gradients, two states, steps.
        const std::size_t lists = op.find("sgd") != std::string_view::npos ? 3 : 5;
        for (std::size_t i = 0; i < shapes.size() / lists; ++i)
          total = saturated_sum(total, trace::elements_of(shapes[i]));
        tensors += static_cast<std::int64_t>(shapes.size() / lists);
      } else if (list) {
        const std::size_t lists = op.find("addcdiv") != std::string_view::npos ? 3 : 2;
        for (std::size_t i = 0; i < shapes.size() / lists; ++i)
          total = saturated_sum(total, trace::elements_of(shapes[i]));
        tensors += static_cast<std::int64_t>(shapes.size() / lists);
      }
    }
    if (total > 0) {
      out.elements = total;
      out.tensors = tensors;
      return;
    }
  }
}

// A compiled program says itself which of its inputs it updates.
void count_compiled(const trace::Trace& trace, TrainedParameters& out) {
  const std::string_view told = trace.metadata_value("compiled_parameters");
  const std::size_t comma = told.find(',');
  if (out.elements > 0 || comma == std::string_view::npos) return;  // "[elements,tensors]"
  const auto elements = parse_int64(told.substr(1, comma - 1));
  const auto tensors = parse_int64(told.substr(comma + 1, told.size() - comma - 2));
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
  constexpr std::int64_t kFloat = 4;
  if (trained.elements == 0) {
    trained.elements = bytes / kFloat;
    trained.tensors = tensors;
  }
  // A gradient has its parameter's type.
  const bool half = bytes > 0 && bytes < 3 * trained.elements;
  c.parameter_bytes = saturated_product(trained.elements, half ? 2 : kFloat);
  c.state_bytes = saturated_product(c.parameter_bytes, states_of(trained.optimizer));
}

}  // namespace foretrace::analysis
