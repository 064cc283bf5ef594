#include "whatif/catalogue/rows.hpp"

#include <algorithm>

namespace foretrace::whatif {

std::vector<Row> rows_of(const Model& m, const Draft& draft) {
  const Graph& g = m.graph;
  std::vector<std::uint32_t> place(m.works.size(), Graph::kNoWork);
  std::vector<Row> rows;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.work[t] == Graph::kNoWork || draft.removed(t) || !graph::is_gpu(g.kind[t])) continue;
    std::uint32_t& at = place[g.work[t]];
    if (at == Graph::kNoWork) {
      at = static_cast<std::uint32_t>(rows.size());
      const Ns begin = g.launch[t].valid() ? g.measured[g.launch[t].index()] : g.measured[t];
      rows.push_back({g.work[t], {}, 0, begin, g.phase[t]});
    }
    rows[at].tasks.push_back(t);
    rows[at].time += draft.cost(t);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.begin < b.begin; });
  return rows;
}

void set_row(Model& m, Draft& draft, const Row& row, double time, const hardware::Work& becomes, graph::Origin origin) {
  m.works.push_back(becomes);
  const auto work = static_cast<std::uint32_t>(m.works.size() - 1);
  // Another algorithm launches another number of kernels; those too many go, with their calls.
  const std::size_t kept =
      m.works[row.work].dtype == becomes.dtype && m.works[row.work].channels_last == becomes.channels_last
          ? row.tasks.size()
          : kernels_of(becomes, row.tasks.size());
  double of_kept = 0;
  for (std::size_t i = 0; i < kept; ++i) of_kept += static_cast<double>(draft.cost(row.tasks[i]));
  const double factor = of_kept > 0 ? time / of_kept : 0;
  if (kept < row.tasks.size()) {
    Selection gone(row.tasks.begin() + static_cast<std::ptrdiff_t>(kept), row.tasks.end());
    std::sort(gone.begin(), gone.end());
    draft.remove(gone, Draft::kWithLaunch);
  }
  for (std::size_t i = 0; i < kept; ++i) {
    const std::uint32_t t = row.tasks[i];
    draft.set(t, static_cast<Ns>(static_cast<double>(draft.cost(t)) * factor), origin);
    draft.set_work(t, work);
  }
}

}  // namespace foretrace::whatif
