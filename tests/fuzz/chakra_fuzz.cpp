// Chakra execution traces on arbitrary bytes: importer, steps, and the graph of the step. The metadata is put in front of most inputs,
// so that they are about nodes.

#include "foretrace/analysis/baseline.hpp"
#include "fuzz/format_checks.hpp"

using foretrace::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto trace = foretrace::fuzz::load_behind_head(data, size,
                                                       "\x07\x0a\x05"
                                                       "0.0.4",
                                                       "fuzz.et");
  if (!trace || trace->format != "chakra") return 0;
  const auto graphs = foretrace::analysis::StepGraphs::open(*trace, foretrace::trace::find_steps(*trace));
  if (!graphs || graphs->steps().steps.empty()) return 0;
  const auto graph = graphs->graph(graphs->median());
  if (graph) require(foretrace::graph::verify(*graph).has_value());
  return 0;
}
