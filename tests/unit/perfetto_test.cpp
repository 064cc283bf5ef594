#include <gtest/gtest.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/byte_source.hpp"
#include "base/deflate.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "graph_compare.hpp"
#include "random_graph.hpp"
#include "report/exporter.hpp"
#include "report_sample.hpp"

namespace foretrace::report {
namespace {

namespace fs = std::filesystem;

struct Loaded {
  trace::Trace trace;
  trace::Steps steps;
  explicit Loaded(trace::Trace t) : trace(std::move(t)), steps(trace::find_steps(trace)) {}
};

Loaded example() {
  Result<trace::Trace> trace = trace::load(FORETRACE_SOURCE_DIR "/examples/resnet50-h200.json.gz");
  EXPECT_TRUE(trace);
  return Loaded(std::move(*trace));
}

Exported exported(const Loaded& from, std::optional<std::int64_t> number = {}, const ExportOptions& options = {}) {
  const Result<overview::ExportableStep> step = overview::exportable_step(from.trace, from.steps, number);
  EXPECT_TRUE(step);
  Result<Exported> file = export_step(from.trace, *step, options);
  EXPECT_TRUE(file) << (file ? "" : file.error().to_string());
  return file ? std::move(*file) : Exported{};
}

graph::Graph built(const Loaded& from, std::size_t step) {
  Result<graph::Graph> graph = graph::GraphBuilder(from.trace, from.steps).build(step);
  EXPECT_TRUE(graph);
  return std::move(*graph);
}

Loaded reloaded(const Exported& file) {
  Result<trace::Trace> trace =
      trace::load_bytes(file.bytes, "exported.json", {.threads = 0, .strict = true, .partial = false, .progress = {}});
  EXPECT_TRUE(trace) << (trace ? "" : trace.error().to_string());
  return Loaded(trace ? std::move(*trace) : trace::Trace{});
}

TEST(Perfetto, ImportOfExportIsTheSameGraph) {
  for (const Loaded& from : {Loaded(Sample{}.load()), example()}) {
    const Loaded back = reloaded(exported(from));
    const Result<graph::Graph> graph = analysis::embedded_graph(back.trace);
    ASSERT_TRUE(graph) << graph.error().to_string();
    const graph::Graph original = built(from, from.steps.median());
    test::expect_same_graph(original, *graph);
    EXPECT_TRUE(std::equal(original.origin.begin(), original.origin.end(), graph->origin.begin()));
  }
}

TEST(Perfetto, ReplayOfAnExportGivesTheSameTimes) {
  const Loaded from = example();
  const Loaded back = reloaded(exported(from, 3, {.gzip = true}));
  const Result<analysis::TraceReplay> first = analysis::replay(from.trace, from.steps, {.step = 3});
  const Result<analysis::TraceReplay> again = analysis::replay(back.trace, back.steps);
  ASSERT_TRUE(first && again);
  EXPECT_TRUE(again->from_export);
  ASSERT_EQ(again->steps.size(), 1u);
  EXPECT_EQ(again->steps[0].name, "ProfilerStep#3");
  EXPECT_EQ(again->steps[0].number, 3);
  EXPECT_EQ(again->steps[0].traced, first->steps[0].traced);
  EXPECT_EQ(again->steps[0].replayed, first->steps[0].replayed);
  EXPECT_EQ(again->steps[0].start_error_p95, first->steps[0].start_error_p95);
  EXPECT_EQ(again->unprofiled.step, first->unprofiled.step);
  EXPECT_FALSE(again->steps[0].strict_error_pct);  // nothing is built, so nothing can be left out
}

TEST(Perfetto, AnExportCanBeExportedAgain) {
  const Exported first = exported(Loaded(Sample{}.load()));
  const Exported second = exported(reloaded(first));
  const Result<graph::Graph> a = analysis::embedded_graph(reloaded(first).trace),
                             b = analysis::embedded_graph(reloaded(second).trace);
  ASSERT_TRUE(a && b);
  test::expect_same_graph(*a, *b);
}

TEST(Perfetto, RandomGraphsSurvive) {
  const trace::Trace nowhere;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    test::RandomShape shape;
    shape.seed = seed;
    graph::Graph graph = test::RandomGraph(shape).graph;
    graph.step_name = "ProfilerStep#7";
    ASSERT_TRUE(graph::verify(graph));
    const analysis::ReplayedStep step = analysis::replay_step(graph);
    const std::string text = find_exporter("perfetto")->write({step, nullptr, nowhere});
    const Result<trace::Trace> back = trace::load_bytes(text, "random.json");
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->diagnostics.lost_records(), 0u);
    const Result<graph::Graph> again = analysis::embedded_graph(*back);
    ASSERT_TRUE(again) << again.error().to_string();
    test::expect_same_graph(graph, *again);
  }
}

struct Slice {
  Ns start, end;
  std::string name, category;
  bool critical;
};
struct Drawing {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Slice>> tracks;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> names;
  std::map<std::int64_t, std::set<std::int64_t>> tasks;  ///< of each process, by ft.task
  std::size_t launches = 0, path_arrows = 0;
};

Ns ns_of(double us) { return static_cast<Ns>(std::llround(us * 1000)); }

Drawing draw(const std::string& text) {
  Drawing out;
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  EXPECT_FALSE(parser.parse(text).get(document));
  for (const simdjson::dom::element e : simdjson::dom::array(document["traceEvents"])) {
    const std::string_view ph = e["ph"];
    const auto track = std::pair(std::int64_t(e["pid"]), std::int64_t(e["tid"]));
    if (ph == "M" && std::string_view(e["name"]) == "thread_name")
      out.names[track] = std::string_view(e["args"]["name"]);
    if (ph == "s") ++(std::string_view(e["cat"]) == "ac2g" ? out.launches : out.path_arrows);
    if (ph != "X") continue;
    bool critical = false;
    if (e["args"]["critical"].get(critical) != simdjson::SUCCESS) critical = false;
    const Ns start = ns_of(double(e["ts"]));
    out.tracks[track].push_back({start, start + ns_of(double(e["dur"])), std::string(std::string_view(e["name"])),
                                 std::string(std::string_view(e["cat"])), critical});
    std::int64_t task = -1;
    if (e["args"]["ft.task"].get(task) == simdjson::SUCCESS) out.tasks[track.first].insert(task);
  }
  return out;
}

TEST(Perfetto, EveryTaskOnBothSidesOnNamedTracksWithoutOverlap) {
  const Loaded from = example();
  const graph::Graph graph = built(from, from.steps.median());
  const Drawing d = draw(exported(from).bytes);
  EXPECT_EQ(d.tasks.at(1).size(), graph.size());
  EXPECT_EQ(d.tasks.at(2).size(), graph.size());
  std::size_t launched = 0;
  for (std::size_t t = 0; t < graph.size(); ++t) launched += graph.launch[t].valid() ? 1u : 0u;
  EXPECT_EQ(d.launches, 2 * launched);
  EXPECT_GT(d.path_arrows, 0u);
  for (const auto& [track, slices] : d.tracks) {
    ASSERT_TRUE(d.names.contains(track));
    std::vector<Slice> sorted = slices;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Slice& a, const Slice& b) { return a.start < b.start; });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      ASSERT_GE(sorted[i].start, sorted[i - 1].end) << d.names.at(track) << ": " << sorted[i].name;
    }
    EXPECT_GE(sorted.front().start, 0);
  }
}

TEST(Perfetto, TheReplayIsDrawnWhereItWasMeasured) {
  // This trace replays exactly, so every GPU slice lies at the same place in both processes.
  const Drawing d = draw(exported(example()).bytes);
  std::map<std::string, const std::vector<Slice>*> sides[3];
  for (const auto& [track, slices] : d.tracks) sides[track.first][d.names.at(track)] = &slices;
  for (const auto& [name, slices] : sides[1]) {
    if (!name.starts_with("GPU")) continue;
    const std::vector<Slice>& simulated = *sides[2].at(name);
    ASSERT_EQ(simulated.size(), slices->size());
    for (std::size_t i = 0; i < simulated.size(); ++i) {
      EXPECT_EQ(simulated[i].start, (*slices)[i].start);
      EXPECT_EQ(simulated[i].end, (*slices)[i].end);
      EXPECT_EQ(simulated[i].name, (*slices)[i].name);
    }
  }
}

TEST(Perfetto, TheCriticalPathIsMarkedAndHasATrack) {
  const Exported file = exported(Loaded(Sample{}.load()));
  const Drawing d = draw(file.bytes);
  Ns path = 0;
  std::size_t marked = 0;
  for (const auto& [track, slices] : d.tracks) {
    const bool own_track = d.names.at(track) == "critical path";
    for (const Slice& s : slices) {
      if (own_track) path += s.end - s.start;
      if (!own_track && track.first == 2) {
        marked += s.critical ? 1u : 0u;
        EXPECT_EQ(s.critical, s.category == "critical path") << s.name;
      }
    }
  }
  EXPECT_EQ(path, file.replayed);
  EXPECT_EQ(marked, file.critical_tasks);
}

TEST(Perfetto, AnExportIsAnOrdinaryTraceOfTheStep) {
  const Loaded from = example();
  const Loaded back = reloaded(exported(from));
  EXPECT_EQ(back.trace.diagnostics.lost_records(), 0u);
  ASSERT_EQ(back.steps.steps.size(), 1u);
  EXPECT_EQ(back.steps.source, trace::StepSource::kProfilerStep);
  EXPECT_EQ(back.steps.steps[0].duration(), from.steps.steps[from.steps.median()].duration());
  Ns work = 0, kernels = 0;
  for (std::size_t e = 0; e < back.trace.size(); ++e) {
    if (!trace::is_gpu_work(back.trace.kind(e))) continue;
    work += back.trace.events.duration[e];
    ++kernels;
  }
  const graph::Graph graph = built(from, from.steps.median());
  Ns expected = 0, gpu_tasks = 0;
  for (std::size_t t = 0; t < graph.size(); ++t) {
    if (!graph::is_gpu(graph.kind[t])) continue;
    expected += graph.cost[t];
    ++gpu_tasks;
  }
  EXPECT_EQ(kernels, gpu_tasks);
  EXPECT_EQ(work, expected);
  ASSERT_EQ(back.trace.devices.size(), 1u);
  EXPECT_EQ(back.trace.devices[0].name, "NVIDIA H200");
}

TEST(Perfetto, TheRecordersFiguresTravelWithTheFile) {
  const Sample sample{.extra_metadata = ",\"foretrace\":{\"measured_ms\":0.75}"};
  EXPECT_EQ(host::recorder_figures(reloaded(exported(Loaded(sample.load()))).trace).measured_ms, 0.75);
}

TEST(Export, ErrorsSayWhatIsThere) {
  const Loaded from(Sample{}.load());
  const overview::ExportableStep step = overview::exportable_step(from.trace, from.steps).value();
  const Result<Exported> format = export_step(from.trace, step, {.format = "perfeto"});
  ASSERT_FALSE(format);
  EXPECT_EQ(format.error().code, ErrorCode::kUsage);
  EXPECT_NE(format.error().hint.find("perfetto"), std::string::npos);
  EXPECT_FALSE(overview::exportable_step(from.trace, from.steps, 99));
  const Result<graph::Graph> none = analysis::embedded_graph(from.trace);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kDeclined);
}

TEST(Export, ADamagedGraphIsAnErrorNotACrash) {
  const std::string good = exported(Loaded(Sample{}.load())).bytes;
  const std::size_t key = good.find("\"foretraceGraph\"");
  ASSERT_NE(key, std::string::npos);
  const std::vector<std::string> values = {"7", "\"\"", "\"nonsense\"",
                                           "\"foretrace graph 1\\nstep \\\"x\\\" last=0\\n\"", "{\"a\": 1}"};
  for (const std::string& value : values) {
    const std::string bad = good.substr(0, key) + "\"foretraceGraph\": " + value + "}";
    const Result<trace::Trace> trace = trace::load_bytes(bad, "bad.json");
    ASSERT_TRUE(trace);
    const Result<analysis::TraceReplay> report = analysis::replay(*trace, trace::find_steps(*trace));
    ASSERT_FALSE(report) << value;
    EXPECT_EQ(report.error().code, ErrorCode::kUnreadable) << value;
    EXPECT_EQ(report.error().file, "bad.json");
  }
  // A graph that cannot run is refused too: here a task waits for itself.
  std::string loop = good;
  const std::size_t launch = loop.find("\\n> ", key);
  ASSERT_NE(launch, std::string::npos);
  loop.insert(launch, "\\n> 0 thread");
  const Result<trace::Trace> trace = trace::load_bytes(loop, "loop.json");
  ASSERT_TRUE(trace);
  const Result<graph::Graph> graph = analysis::embedded_graph(*trace);
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().message.find("cycle"), std::string::npos) << graph.error().message;
}

TEST(Export, ReadBackFromAFile) {
  const fs::path path = fs::temp_directory_path() / ("foretrace-export-" + std::to_string(::getpid()) + ".json.gz");
  const Loaded from(Sample{}.load());
  std::ofstream(path, std::ios::binary) << exported(from, {}, {.gzip = true}).bytes;
  const Result<graph::Graph> graph = read_back(path.string());
  fs::remove(path);
  ASSERT_TRUE(graph) << graph.error().to_string();
  test::expect_same_graph(built(from, from.steps.median()), *graph);
  EXPECT_FALSE(read_back("/no/such/file.json"));
}

TEST(Deflate, GivesBackWhatWentIn) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3'000'000}}) {
    std::string text;
    for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i * i % 977) + ",";
    text.resize(size);
    const Result<std::string> packed = deflate_gzip(text);
    ASSERT_TRUE(packed);
    EXPECT_EQ(*deflate_gzip(text), *packed);
    Result<std::unique_ptr<ByteSource>> source = memory_source(*packed);
    ASSERT_TRUE(source);
    std::string back(size + 10, '\0');
    const Result<std::size_t> got = (*source)->read(back.data(), back.size());
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_EQ(std::string_view(back).substr(0, *got), text);
  }
}

}  // namespace
}  // namespace foretrace::report
