#include "analysis/make_model.hpp"

#include <algorithm>

#include "analysis/trained_parameters.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/memory/memory.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "whatif/model/graph_facts.hpp"
#include "whatif/model/op_chains.hpp"

namespace foretrace::analysis {

using graph::Graph;
using whatif::LaunchCosts;
using whatif::Model;

namespace {

LaunchCosts launch_costs(const Graph& g, const host::CpuPrior& prior) {
  std::array<Ns, host::kCpuPhases> time = {};
  std::array<std::int64_t, host::kCpuPhases> count = {};
  std::vector<char> launches(g.size(), 0);
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.launch[t].valid()) launches[g.launch[t].index()] = 1;
  }
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) continue;
    const auto p = static_cast<std::size_t>(host::cpu_phase(g, t));
    time[p] += g.cost[t];
    count[p] += launches[t];
  }
  LaunchCosts costs;
  for (std::size_t p = 0; p < host::kCpuPhases; ++p) {
    costs.cpu_per_launch[p] = count[p] > 0 ? time[p] / count[p] : static_cast<Ns>(1e3 * prior.host.launches.us[p]);
  }
  return costs;
}

}  // namespace

Result<Model> make_model(const trace::Trace& trace, const trace::Step& step, const Graph& graph, Ns replayed,
                         std::optional<Ns> measured, const host::CpuPrior& prior) {
  Model m;
  m.trace = &trace;
  m.chains = std::make_shared<const whatif::OpChains>(trace);
  m.frozen = simulate::frozen_time(graph);
  m.replayed = replayed;
  m.host = prior.host;
  m.base = host::unprofiled(graph, measured, prior);
  m.graph = host::apply(graph, m.base.factors, prior);
  m.facts = std::make_shared<const whatif::GraphFacts>();
  m.launches = launch_costs(m.graph, prior);
  m.works = work::describe(trace, m.graph);
  m.latencies = prior.latencies;
  if (auto match = hardware::device_of(trace)) {
    m.device = match->device;
    if (!match->by_name) m.device_guess = match->how;
    if (m.device.guessed_sigma > 0) m.not_modelled.push_back("the GPU was recognised " + match->how);
  } else {
    m.device_guess = match.error().message;
    m.not_modelled.emplace_back("the GPU is unknown: " + match.error().message);
  }
  TrainedParameters trained = trained_parameters(trace, m.graph);
  m.memory = memory::curve(trace, step);
  if (m.memory) {
    size_parameters(*m.memory, trained);
    mark_parameter_copies(*m.memory, trace);
    memory::anchor_reserved(*m.memory);
  }
  m.optimizer = trained.optimizer;
  m.parameter_elements = trained.elements;
  m.parameter_tensors = trained.tensors;
  m.parameter_element_bytes = trained.element_bytes;
  return m;
}

}  // namespace foretrace::analysis
