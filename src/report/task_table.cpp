// One row per task, for spreadsheets and data frames: CSV, and the same table as Parquet where ExportOptions::pack_table is given.

#include <fmt/format.h>

#include "report/exporter.hpp"

namespace foretrace::report {
namespace {

// RFC 4180: a cell with a comma, a quote or a line's end is quoted.
std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string write_table(const ExportInput& input) {
  const analysis::ReplayedStep& step = input.step;
  const graph::Graph& g = step.graph;
  std::vector<char> critical(g.size(), 0);
  for (const analysis::PathSegment& s : step.path) critical[s.task] = 1;
  const std::vector<std::vector<Predecessor>> before = predecessors(g);

  std::string out =
      "task,kind,name,phase,layer,operation,lane,device,stream,measured_start_ns,start_ns,end_ns,cost_ns,origin,"
      "critical,"
      "launch_task,cause,cause_task,waits_for\n";
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    const graph::GraphLane& lane = g.lanes[g.lane[t]];
    const bool gpu = lane.kind == graph::GraphLaneKind::kGpu;
    std::string_view operation;
    if (input.events != nullptr && g.op[t].valid()) operation = input.events->name(g.op[t].index());
    std::string waits;
    for (const Predecessor& p : before[t]) waits += fmt::format("{}{}", waits.empty() ? "" : " ", p.task);
    const std::optional<std::uint32_t> cause = step.cause(t);
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", t, to_string(g.kind[t]),
                       cell(g.task_name(t)), to_string(g.phase[t]),
                       g.layer[t].valid() ? cell(g.strings[g.layers[g.layer[t].index()].name]) : "", cell(operation),
                       cell(g.strings[lane.name]), gpu ? fmt::format("{}", lane.device) : "",
                       gpu ? fmt::format("{}", lane.stream) : "", g.measured[t], step.start(t), step.end(t), g.cost[t],
                       to_string(g.origin[t]), critical[t] != 0 ? 1 : 0,
                       g.launch[t].valid() ? fmt::format("{}", g.launch[t].value) : "", to_string(step.cause_kind(t)),
                       cause ? fmt::format("{}", *cause) : "", waits);
  }
  return out;
}

}  // namespace

Exporter csv_exporter() {
  return {"csv", "one row per task: when it was measured and is simulated to run, and what it waits for",
          ".csv .csv.gz", "times are ns since the step began; waits_for names tasks", write_table};
}

Exporter parquet_exporter() {
  return {"parquet",   "the table of csv, typed (needs Python with pyarrow)",
          ".parquet",  "pandas.read_parquet reads it",
          write_table, true};
}

}  // namespace foretrace::report
