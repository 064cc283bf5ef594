// The list of exporters. A new one adds its declaration and its line here.

#include <algorithm>

#include "report/exporter.hpp"

namespace foretrace::report {

Exporter chakra_exporter();
Exporter csv_exporter();
Exporter parquet_exporter();
Exporter perfetto_exporter();

const std::vector<Exporter>& exporters() {
  static const std::vector<Exporter> kAll = {
      chakra_exporter(),
      csv_exporter(),
      parquet_exporter(),
      perfetto_exporter(),
  };
  return kAll;
}

const Exporter* find_exporter(std::string_view name) {
  const std::vector<Exporter>& all = exporters();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Exporter& e) { return e.name == name; });
  return at == all.end() ? nullptr : &*at;
}

std::vector<std::vector<Predecessor>> predecessors(const graph::Graph& g) {
  std::vector<std::vector<Predecessor>> out(g.size());
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!g.first_of_lane(t) && !g.lanes[g.lane[t]].by_priority) out[t].push_back({t - 1, graph::DependencyKind::kLane});
  }
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] == graph::DependencyKind::kShare) continue;
      out[g.dep_to[d]].push_back({t, g.dep_kind[d]});
    }
  }
  return out;
}

}  // namespace foretrace::report
