#pragma once
// Writing a simulated step for another program. An exporter is one file that describes itself and one line in
// exporters.cpp; the option's choices, `foretrace list formats` and "did you mean" come from the description.

#include <string>
#include <string_view>
#include <vector>

#include "foretrace/analysis/replay.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

struct ExportInput {
  const analysis::ReplayedStep& step;
  /// The trace the graph's event ids speak of, for measured durations and the names of operations; null when the graph was
  /// read back from an exported file: then the trace it was built from is not at hand.
  const trace::Trace* events = nullptr;
  /// The trace as loaded, for its metadata.
  const trace::Trace& file;
};

struct Exporter {
  std::string_view name;        ///< "perfetto"
  std::string_view about;       ///< one line, no period
  std::string_view extensions;  ///< ".json .json.gz"
  std::string_view hint;        ///< what to do with the file
  std::string (*write)(const ExportInput& input) = nullptr;
  bool packed = false;  ///< what it writes is a table of CSV that ExportOptions::pack_table turns into the file
};

struct Predecessor {
  std::uint32_t task;
  graph::DependencyKind kind;
};

/// What each task waits for, by task: the one before it on its lane first, then the others in the order of their ids. Without what only orders (a GPU
/// that was full) and what refers to another copy of the step.
std::vector<std::vector<Predecessor>> predecessors(const graph::Graph& graph);

/// All of them, in the order of their names.
const std::vector<Exporter>& exporters();
/// nullptr when there is none of that name.
const Exporter* find_exporter(std::string_view name);

}  // namespace foretrace::report
