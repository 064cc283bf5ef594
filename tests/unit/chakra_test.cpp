// Chakra execution traces and tables of tasks: what is written, and what comes back.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "base/text.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/trace/load.hpp"
#include "graph_compare.hpp"
#include "report_sample.hpp"
#include "trace/importers/chakra_schedule.hpp"

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

// Messages as the schema describes them, by hand: what other programs write and foretrace does not.
std::string varint(std::uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7) out += static_cast<char>(n | 0x80);
  return out + static_cast<char>(n);
}
std::string number(unsigned field, std::uint64_t n) { return varint(field << 3) + varint(n); }
std::string text(unsigned field, std::string_view bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
std::string behind_length(const std::string& message) { return varint(message.size()) + message; }
std::string cpu(bool is) { return text(10, text(1, "is_cpu_op") + number(27, is ? 1 : 0)); }
std::string tid(std::uint64_t n) { return text(10, text(1, "tid") + number(9, n)); }

// Metadata of attributes alone; operations in parts; work that names its stream as a thread; no start times.
std::string reference_file(unsigned attributes) {
  std::string out = behind_length(text(attributes, text(1, "schema") + text(29, "1.0.1")) +
                                  text(attributes, text(1, "pid") + number(13, 114598)));
  out +=
      behind_length(text(2, "aten::mm(0)") + number(3, 4) + number(7, 100) + cpu(true) + tid(1));  // id 0 is left out
  out += behind_length(number(1, 5) + text(2, "aten::mm(1)") + number(3, 4) + text(5, varint(0)) + number(7, 30) +
                       cpu(true) + tid(1));
  out += behind_length(number(1, 6) + text(2, "sgemm") + number(3, 4) + text(4, varint(99)) + text(5, varint(0)) +
                       number(7, 500) + cpu(false) + tid(7));
  out += behind_length(number(1, 7) + text(2, "ncclKernel_AllReduce") + number(3, 7) + text(5, varint(5) + varint(6)) +
                       number(7, 200) + cpu(false) + tid(14) + text(10, text(1, "comm_type") + number(9, 0)) +
                       text(10, text(1, "comm_size") + number(9, 4096)));
  return out;
}

TEST(Chakra, ReadsWhatTheReferenceConverterWrites) {
  for (const unsigned attributes : {1U, 2U}) {  // before and since metadata have a version
    const Result<trace::Trace> trace = trace::load_bytes(reference_file(attributes), "x.et", options(true));
    ASSERT_TRUE(trace) << trace.error().to_string();
    EXPECT_EQ(trace->format, "chakra");
    EXPECT_EQ(trace->metadata_value("schema"), "\"1.0.1\"");
    ASSERT_EQ(trace->size(), 6U);  // four nodes, two launches
    EXPECT_EQ(trace->name(0), "aten::mm");
    EXPECT_EQ(trace->name(1), "aten::mm");
    // Each starts when what it depends on has ended.
    EXPECT_EQ(trace->events.start[0], 0);
    EXPECT_EQ(trace->events.start[1], 100'000);
    EXPECT_EQ(trace->events.start[2], 100'000);
    EXPECT_EQ(trace->events.start[3], 600'000);
    EXPECT_NE(trace->diagnostics.find("starts_from_dependencies"), nullptr);
    EXPECT_EQ(trace->lanes[trace->events.lane[2].index()].tid_number, 7);
    EXPECT_EQ(trace->lanes[trace->events.lane[3].index()].tid_number, 14);
    const trace::CollectiveInfo* collective = trace->args.collective(trace->events.args[3]);
    ASSERT_NE(collective, nullptr);
    EXPECT_EQ(trace->strings[collective->name], "allreduce");
    const graph::Graph graph = median(*trace);
    EXPECT_EQ(graph.traced, 800'000);
    // The work is launched by its operation, and so can move.
    for (std::uint32_t t = 0; t < graph.size(); ++t) {
      EXPECT_TRUE(!graph::is_gpu(graph.kind[t]) || graph.launch[t].valid());
    }
  }
}

TEST(Chakra, ReadsCollectivesOfAstraSim) {
  std::string file = behind_length(text(2, text(1, "schema") + text(29, "1.0.2-chakra.0.0.4")) +
                                   text(2, text(1, "input_file") + text(29, std::string(100'000, 'x'))) +
                                   text(2, text(1, "collective") + text(29, "allreduce")));
  const auto comm = [](const char* key, std::uint64_t value) { return text(10, text(1, key) + number(7, value)); };
  file += behind_length(text(2, "COMM_SEND_NODE_tb0_step0") + number(3, 5) + comm("comm_type", 5) +
                        comm("comm_size", 1024) + comm("comm_dst", 3) + comm("comm_tag", 0));
  file += behind_length(number(1, 1) + text(2, "COMM_RECV_NODE_tb0_step1") + number(3, 6) + number(5, 0) +
                        comm("comm_type", 6) + comm("comm_size", 1024) + comm("comm_src", 1));
  file += behind_length(number(1, 2) + text(2, "COMP_NODE_tb0_step1") + number(3, 4) + number(5, 1) + number(7, 9));
  const Result<trace::Trace> trace = trace::load_bytes(file, "allreduce.0.et", options(true));
  ASSERT_TRUE(trace) << trace.error().to_string();
  EXPECT_EQ(trace->format, "chakra");
  ASSERT_EQ(trace->size(), 3U);
  EXPECT_EQ(trace->args.find(trace->events.args[0], "Dst Rank").value_or(""), "3");
  EXPECT_EQ(trace->args.find(trace->events.args[1], "Src Rank").value_or(""), "1");
  EXPECT_EQ(trace->strings[trace->args.collective(trace->events.args[1])->name], "recv");
}

TEST(Chakra, NodesThatDependOnEachOtherAreCountedAndPlaced) {
  std::string file = behind_length(text(1, "0.0.4"));
  file += behind_length(number(1, 1) + text(2, "a") + number(3, 4) + number(5, 2) + number(7, 10));
  file += behind_length(number(1, 2) + text(2, "b") + number(3, 4) + number(5, 1) + number(7, 10));
  file += behind_length(number(1, 3) + text(2, "c") + number(3, 4) + number(5, 3) + number(7, 10));  // itself
  const Result<trace::Trace> trace = trace::load_bytes(file, "x.et", options(false));
  ASSERT_TRUE(trace) << trace.error().to_string();
  EXPECT_NE(trace->diagnostics.find("cyclic_dependencies"), nullptr);
  EXPECT_EQ(trace->events.start[2], 0);
  EXPECT_EQ(trace->events.start[0], 10'000);
  EXPECT_EQ(trace->events.start[1], 20'000);
}

// Every node starts behind all it depends on, no two run on one lane at once, and something runs at every moment.
RC_GTEST_PROP(Chakra, AScheduleKeepsTheOrderAndWastesNoTime, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 60);
  std::vector<trace::ScheduledNode> nodes(count);
  std::unordered_map<std::int64_t, std::uint32_t> place;
  for (std::size_t i = 0; i < count; ++i) {
    nodes[i].lane = *rc::gen::inRange<std::uint32_t>(0, 4);
    nodes[i].duration = *rc::gen::inRange<Ns>(1, 50);
    for (int d = *rc::gen::inRange(0, 3); i > 0 && d > 0; --d) {
      nodes[i].data_deps.push_back(*rc::gen::inRange<std::int64_t>(0, static_cast<std::int64_t>(i)));
    }
    place[static_cast<std::int64_t>(i)] = static_cast<std::uint32_t>(i);
  }
  RC_ASSERT(trace::schedule(nodes, place) == 0U);
  for (std::size_t i = 0; i < count; ++i) {
    bool explained = nodes[i].start == 0;
    for (const std::int64_t d : nodes[i].data_deps) {
      const trace::ScheduledNode& before = nodes[static_cast<std::size_t>(d)];
      RC_ASSERT(nodes[i].start >= before.start + before.duration);
      explained |= nodes[i].start == before.start + before.duration;
    }
    for (std::size_t j = 0; j < count; ++j) {
      if (j == i || nodes[j].lane != nodes[i].lane) continue;
      const Ns end = nodes[j].start + nodes[j].duration;
      RC_ASSERT(end <= nodes[i].start || nodes[i].start + nodes[i].duration <= nodes[j].start);
      explained |= end == nodes[i].start;
    }
    RC_ASSERT(explained);
  }
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
