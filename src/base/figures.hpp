#pragma once
// Small tables of figures that tools write and the build compiles in: "name,value,…" by line, comments with '#'.

#include <span>
#include <string_view>
#include <utility>

namespace foretrace {

/// Puts each named figure in its place. Every one must be there and above 0: the file is ours.
void read_figures(std::string_view csv, std::span<const std::pair<std::string_view, double*>> places);

/// In ns, of the one table of latencies (src/graph/latencies, tools/fit_latencies.py): importers and graphs read it alike.
double measured_latency(std::string_view name);

}  // namespace foretrace
