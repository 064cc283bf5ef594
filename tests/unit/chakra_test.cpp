// Chakra execution traces and tables of tasks: what is written, and what comes back.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/trace/load.hpp"
#include "graph_compare.hpp"
#include "report_sample.hpp"

namespace foretrace::report {
namespace {

trace::LoadOptions options(bool strict, bool partial = false) {
  trace::LoadOptions out;
  out.threads = 1;
  out.strict = strict;
  out.partial = partial;
  return out;
}

trace::Trace example() {
  Result<trace::Trace> trace = trace::load(FORETRACE_SOURCE_DIR "/examples/resnet50-h200.json.gz");
  EXPECT_TRUE(trace);
  return trace ? std::move(*trace) : trace::Trace{};
}

Exported exported(const trace::Trace& trace, const std::string& format) {
  const Result<overview::ExportableStep> step = overview::exportable_step(trace, trace::find_steps(trace));
  EXPECT_TRUE(step);
  Result<Exported> file = export_step(trace, *step, {.format = format});
  EXPECT_TRUE(file) << (file ? "" : file.error().to_string());
  return file ? std::move(*file) : Exported{};
}

graph::Graph median(const trace::Trace& trace) {
  const Result<analysis::StepGraphs> graphs = analysis::StepGraphs::open(trace, trace::find_steps(trace));
  EXPECT_TRUE(graphs);
  Result<graph::Graph> graph = graphs->graph(graphs->median());
  EXPECT_TRUE(graph);
  return std::move(*graph);
}

TEST(Chakra, ImportOfExportIsTheSameGraph) {
  for (const trace::Trace& from : {Sample{}.load(), example()}) {
    const Exported file = exported(from, "chakra");
    const Result<trace::Trace> back = trace::load_bytes(file.bytes, "step.0.et", options(true));
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->format, "chakra");
    EXPECT_EQ(back->size(), file.tasks);
    const Result<graph::Graph> graph = analysis::embedded_graph(*back);
    ASSERT_TRUE(graph) << graph.error().to_string();
    test::expect_same_graph(median(from), *graph);
  }
}

TEST(Chakra, AFileThatIsCutIsAnErrorOrAsMuchAsThereIs) {
  const Exported file = exported(Sample{}.load(), "chakra");
  const std::string_view cut = std::string_view(file.bytes).substr(0, file.bytes.size() - 3);
  const Result<trace::Trace> refused = trace::load_bytes(cut, "cut.et", options(false));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnreadable);
  EXPECT_NE(refused.error().message.find("middle of a node"), std::string::npos);
  const Result<trace::Trace> partial = trace::load_bytes(cut, "cut.et", options(false, true));
  ASSERT_TRUE(partial);
  EXPECT_TRUE(partial->partial);
  EXPECT_EQ(partial->size(), file.tasks - 1);
}

// Metadata "0.0.4"; an operation (id 1) and work that depends on it (id 2), as another program would write them.
constexpr std::string_view kForeign(
    "\x07\x0a\x05"
    "0.0.4"
    "\x22\x08\x01\x12\x08"
    "aten::mm"
    "\x18\x04\x30\x0a\x38\x05\x52\x0e\x0a\x09"
    "is_cpu_op"
    "\xd8\x01\x01"
    "\x11\x08\x02\x12\x04"
    "gemm"
    "\x18\x04\x2a\x01\x01\x30\x0c\x38\x07",
    8 + 35 + 18);

TEST(Chakra, WorkBelongsToTheOperationItDependsOn) {
  const Result<trace::Trace> trace = trace::load_bytes(kForeign, "x.0.et", options(true));
  ASSERT_TRUE(trace) << trace.error().to_string();
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ(trace->kind(0), trace::EventKind::kOp);
  EXPECT_EQ(trace->kind(1), trace::EventKind::kKernel);
  EXPECT_EQ(trace->events.start[0], 10'000);
  EXPECT_EQ(trace->events.duration[0], 5'000);
  EXPECT_EQ(trace->events.external_id[0], 1);
  EXPECT_EQ(trace->events.external_id[1], 1);
}

TEST(Chakra, ANodeThatCannotBeReadIsCounted) {
  std::string bytes(kForeign);
  bytes += std::string_view("\x02\x0a\x7f", 3);  // a text longer than its message
  const Result<trace::Trace> trace = trace::load_bytes(bytes, "x.0.et", options(false));
  ASSERT_TRUE(trace) << trace.error().to_string();
  EXPECT_EQ(trace->size(), 2u);
  EXPECT_FALSE(trace::load_bytes(bytes, "x.0.et", options(true)));
}

// Commas in quotes part no cells.
std::vector<std::string> cells_of(std::string_view row) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : row) {
    quoted = c == '"' ? !quoted : quoted;
    if (c == ',' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::vector<std::string_view> lines(std::string_view text) {
  std::vector<std::string_view> out;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) out.push_back(line);
  }
  return out;
}

TEST(TaskTable, HasARowForEveryTask) {
  const Exported file = exported(Sample{}.load(), "csv");
  const std::vector<std::string_view> rows = lines(file.bytes);
  ASSERT_EQ(rows.size(), file.tasks + 1);
  const std::vector<std::string> header = cells_of(rows[0]);
  const auto column = [&](std::string_view name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  std::size_t critical = 0;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const std::vector<std::string> cells = cells_of(rows[r]);
    ASSERT_EQ(cells.size(), header.size()) << rows[r];
    EXPECT_EQ(cells[0], std::to_string(r - 1));
    critical += cells[column("critical")] == "1" ? 1 : 0;
  }
  EXPECT_EQ(critical, file.critical_tasks);
}

TEST(TaskTable, ParquetNeedsSomebodyWhoPacksIt) {
  const trace::Trace trace = Sample{}.load();
  const overview::ExportableStep step = overview::exportable_step(trace, trace::find_steps(trace)).value();
  const Result<Exported> refused = export_step(trace, step, {.format = "parquet"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  ExportOptions asked{.format = "parquet"};
  asked.pack_table = [](const std::string& csv) -> Result<std::string> { return "PAR1" + csv.substr(0, 4); };
  const Result<Exported> packed = export_step(trace, step, asked);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->bytes, "PAR1task");
}

}  // namespace
}  // namespace foretrace::report
