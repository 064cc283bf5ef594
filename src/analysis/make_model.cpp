#include <algorithm>

#include "base/decimal.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/simulate/limits.hpp"
#include "trace/tensor_size.hpp"
#include "whatif/graph_facts.hpp"

namespace foretrace::analysis {

using graph::Graph;
using graph::Phase;
using graph::TaskKind;
using whatif::CpuPrior;
using whatif::kCpuPhases;
using whatif::LaunchCosts;
using whatif::Model;

namespace {

LaunchCosts launch_costs(const Graph& g, const CpuPrior& prior) {
  std::array<Ns, kCpuPhases> time = {};
  std::array<std::int64_t, kCpuPhases> count = {};
  std::vector<char> launches(g.size(), 0);
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.launch[t].valid()) launches[g.launch[t].index()] = 1;
  }
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) continue;
    const auto p = static_cast<std::size_t>(whatif::cpu_phase(g, t));
    time[p] += g.cost[t];
    count[p] += launches[t];
  }
  LaunchCosts costs;
  for (std::size_t p = 0; p < kCpuPhases; ++p) {
    // A phase with few launches says more about its Python than about launching.
    costs.cpu_per_launch[p] = count[p] > static_cast<std::int64_t>(prior.fewest_launches)
                                  ? time[p] / count[p]
                                  : static_cast<Ns>(1e3 * prior.host.launch_us[p]);
  }
  return costs;
}

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
void count_parameters(Model& m) {
  constexpr std::string_view kOnce[] = {
      "aten::_fused_adam_",  "aten::_fused_adamw_", "aten::_fused_sgd_", "aten::_foreach_addcdiv_",
      "aten::_foreach_add_", "aten::addcdiv_",      "aten::add_"};
  const trace::Trace& t = *m.trace;
  for (const std::string_view op : kOnce) {
    std::vector<std::uint32_t> seen;
    std::int64_t total = 0;
    std::int64_t tensors = 0;
    for (std::size_t k = 0; k < m.graph.size(); ++k) {
      if (m.graph.kind[k] != TaskKind::kCall || m.graph.phase[k] != Phase::kOptimizer || !m.graph.op[k].valid())
        continue;
      const std::uint32_t e = m.graph.op[k].value;
      if (t.name(e) != op || (!seen.empty() && seen.back() == e)) continue;
      seen.push_back(e);
      const trace::OpInputs* inputs = t.args.inputs(t.events.args[e]);
      if (inputs == nullptr || !inputs->dims.valid()) continue;
      const bool list = op.find("foreach") != std::string_view::npos || op.find("fused") != std::string_view::npos;
      const auto shapes = trace::parse_shapes(t.strings[inputs->dims]);
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
      m.parameter_elements = total;
      m.parameter_tensors = tensors;
      return;
    }
  }
}

// A compiled program says itself which of its inputs it updates.
void count_compiled_parameters(Model& m) {
  const std::string_view told = m.trace->metadata_value("compiled_parameters");
  const std::size_t comma = told.find(',');
  if (m.parameter_elements > 0 || comma == std::string_view::npos) return;  // "[elements,tensors]"
  const auto elements = parse_int64(told.substr(1, comma - 1));
  const auto tensors = parse_int64(told.substr(comma + 1, told.size() - comma - 2));
  if (!elements || !tensors || *elements <= 0) return;
  m.parameter_elements = *elements;
  m.parameter_tensors = *tensors;
}

}  // namespace

Result<Model> make_model(const trace::Trace& trace, const trace::Step& step, const Graph& graph, Ns replayed,
                         std::optional<Ns> measured, const CpuPrior& prior) {
  Model m;
  m.trace = &trace;
  m.chains = std::make_shared<const whatif::OpChains>(trace);
  m.frozen = simulate::frozen_time(graph);
  m.replayed = replayed;
  m.host = prior.host;
  m.base = whatif::unprofiled(graph, measured, prior);
  m.graph = whatif::apply(graph, m.base.factors, prior);
  m.facts = std::make_shared<const whatif::GraphFacts>();
  m.launches = launch_costs(m.graph, prior);
  m.works = work::describe(trace, m.graph);
  if (auto match = hardware::device_of(trace)) {
    m.device = match->device;
  } else {
    m.not_modelled.emplace_back("the GPU is unknown: " + match.error().message);
  }
  m.optimizer = optimizer_name(trace);
  count_parameters(m);
  count_compiled_parameters(m);
  m.memory = memory::curve(trace, step);
  return m;
}

}  // namespace foretrace::analysis
