// Chakra execution traces on arbitrary bytes: importer, steps, and the graph of the step. Metadata is put in front of most inputs, so
// that they are about nodes: with a version, or (bit 2 of the first byte) as the reference converter writes them.

#include "foretrace/analysis/baseline.hpp"
#include "fuzz/format_checks.hpp"

using foretrace::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kVersion =
      "\x07\x0a\x05"
      "0.0.4";
  constexpr std::string_view kAttribute =
      "\x12\x12\x10\x0a\x06"
      "schema"
      "\xea\x01\x05"
      "1.0.1";
  const bool attribute = size > 0 && (data[0] & 4) != 0;
  const auto trace = foretrace::fuzz::load_behind_head(data, size, attribute ? kAttribute : kVersion, "fuzz.et");
  if (!trace || trace->format != "chakra") return 0;
  const auto graphs = foretrace::analysis::StepGraphs::open(*trace, foretrace::trace::find_steps(*trace));
  if (!graphs || graphs->steps().steps.empty()) return 0;
  const auto graph = graphs->graph(graphs->median());
  if (graph) require(foretrace::graph::verify(*graph).has_value());
  return 0;
}
