#include "whatif/rewrite/python_launches.hpp"

#include <algorithm>

#include "graph/call_roles.hpp"

namespace foretrace::whatif {

void launch_from_python(const Model& m, Draft& draft, const Row& row, double tensors, double kernels) {
  const graph::Graph& g = m.graph;
  const std::uint32_t first = row.tasks.front();
  const Place at = place_before(g, first);
  if (!at.known() || graph::is_graph_launch(g.task_name(g.launch[first].value))) return;
  const Ns before = m.launch_time(row.phase) * static_cast<Ns>(row.tasks.size());
  const Ns now = m.cpu_time(m.host.python.function(tensors, kernels), row.phase);
  if (now > before) draft.insert_cpu(at.cpu, "kernels launched from Python", now - before, row.phase);
}

}  // namespace foretrace::whatif
