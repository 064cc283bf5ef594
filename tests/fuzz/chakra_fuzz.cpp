// Chakra execution traces on arbitrary bytes: importer, steps, and the graph of the step. The metadata is put in front of most inputs,
// so that they are about nodes.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "foretrace/analysis/step_graphs.hpp"
#include "foretrace/trace/load.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string bytes;
  if ((data[0] & 1) != 0) bytes = std::string("\x07\x0a\x05") + "0.0.4";
  bytes += rest;
  foretrace::trace::LoadOptions options;
  options.threads = 1;
  options.partial = (data[0] & 2) != 0;
  const auto trace = foretrace::trace::load_bytes(bytes, "fuzz.et", options);
  if (!trace || trace->format != "chakra") return 0;
  const auto& e = trace->events;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    require(e.duration[i] >= 0 && e.lane[i].index() < trace->lanes.size() && e.name[i].index() < trace->strings.size());
  }
  const auto graphs = foretrace::analysis::StepGraphs::open(*trace, foretrace::trace::find_steps(*trace));
  if (!graphs || graphs->steps().steps.empty()) return 0;
  const auto graph = graphs->graph(graphs->median());
  if (graph) require(foretrace::graph::verify(*graph).has_value());
  return 0;
}
