#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>

#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "report_sample.hpp"

namespace foretrace::report {
namespace {

analysis::SummaryReport summary_of(const Sample& sample, const analysis::SummaryOptions& options = {}) {
  const trace::Trace trace = sample.load();
  Result<analysis::SummaryReport> report = analysis::summarise(trace, trace::find_steps(trace), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().to_string());
  return report ? *report : analysis::SummaryReport{};
}

template <class Rows>
auto find(const Rows& rows, std::string_view name) {
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  EXPECT_NE(at, rows.end()) << "no row " << name;
  return at == rows.end() ? typename Rows::value_type{} : *at;
}

analysis::SummaryReport::LaneUse lane(const analysis::SummaryReport& report, std::string_view part) {
  const auto at = std::find_if(report.lanes.begin(), report.lanes.end(),
                               [&](const auto& l) { return l.label.find(part) != std::string::npos; });
  EXPECT_NE(at, report.lanes.end()) << "no lane " << part;
  return at == report.lanes.end() ? analysis::SummaryReport::LaneUse{} : *at;
}

constexpr Ns us(Ns n) { return n * kNsPerUs; }

TEST(Summary, StepsAndTheChosenOne) {
  const analysis::SummaryReport report = summary_of({});
  ASSERT_EQ(report.steps.size(), 2u);
  EXPECT_EQ(report.steps[0].name, "ProfilerStep#3");
  EXPECT_EQ(report.steps[0].duration, us(900));
  EXPECT_EQ(report.chosen, 0u);  // of two equal ones the first
  EXPECT_EQ(report.device, "NVIDIA H200");
  analysis::SummaryOptions options;
  options.step = 4;
  EXPECT_EQ(summary_of({}, options).chosen, 1u);
}

TEST(Summary, PhasesByLaunchThreadAndRange) {
  const analysis::SummaryReport report = summary_of({});
  EXPECT_EQ(find(report.phases, "data").gpu_time, us(5 + 2));  // to the GPU and back
  EXPECT_EQ(find(report.phases, "forward").gpu_time, us(50));
  EXPECT_EQ(find(report.phases, "backward").gpu_time, us(120));
  EXPECT_EQ(find(report.phases, "optimizer").gpu_time, us(30));
  EXPECT_EQ(find(report.phases, "communication").gpu_time, us(200));
  EXPECT_EQ(find(report.phases, "other").gpu_time, 0);
  EXPECT_EQ(report.gpu_time, us(407));
  EXPECT_EQ(report.gpu_events, 7u);
  // CPU time is work, with the time in front of an operation: copy_ 0-20, linear 20-195, item 560-850 (its
  // synchronisation found nothing to wait for); from 195 to 495 the main thread waits for backward.
  EXPECT_EQ(find(report.phases, "forward").cpu_time, us(20 + 175 + 290));
  EXPECT_EQ(find(report.phases, "optimizer").cpu_time, us(65));
  EXPECT_EQ(find(report.phases, "backward").cpu_time, us(100 + 50));
  EXPECT_EQ(find(report.phases, "communication").cpu_time, us(25));
  EXPECT_EQ(find(report.phases, "other").cpu_time, us(50));
}

TEST(Summary, LayersForwardAndBackward) {
  const analysis::SummaryReport report = summary_of({});
  EXPECT_EQ(report.named_layers, 1u);
  const analysis::SummaryReport::LayerRow fc = find(report.layers, "fc");
  EXPECT_EQ(fc.type, "Linear");
  EXPECT_EQ(fc.forward, us(50));
  EXPECT_EQ(fc.backward, us(120));  // gradient accumulation goes with the node before it
  EXPECT_EQ(find(report.layers, "(optimizer)").gpu_time(), us(30));
  EXPECT_EQ(find(report.layers, "(communication)").gpu_time(), us(200));
  Ns sum = 0;
  for (const auto& row : report.layers) sum += row.gpu_time();
  EXPECT_EQ(sum, report.gpu_time);
}

TEST(Summary, WithoutSequenceNumbersBackwardIsItsOwnLayer) {
  const analysis::SummaryReport report = summary_of({.sequence_numbers = false});
  EXPECT_EQ(find(report.layers, "fc").backward, 0);
  Ns backward = 0;
  for (const auto& row : report.layers) {
    EXPECT_TRUE(row.backward == 0 || row.synthetic) << row.name;
    backward += row.backward;
  }
  EXPECT_EQ(backward, us(120));
}

TEST(Summary, WithoutRangesLayersAreMadeFromOperations) {
  const analysis::SummaryReport report = summary_of({.layers = false});
  EXPECT_EQ(report.named_layers, 0u);
  EXPECT_EQ(report.named_coverage, 0);
  EXPECT_EQ(report.layer_coverage, 1);
  const analysis::SummaryReport::LayerRow linear = find(report.layers, "aten::linear[4,4]");
  EXPECT_TRUE(linear.synthetic);
  EXPECT_EQ(linear.forward, us(50));
  EXPECT_EQ(linear.backward, us(120));
  EXPECT_NE(to_text(report, {.width = 300}).find("Nothing names layers here"), std::string::npos);
}

TEST(Summary, LayerCoverage) {
  const analysis::SummaryReport report = summary_of({});
  EXPECT_EQ(report.layer_coverage, 1);
  EXPECT_DOUBLE_EQ(report.named_coverage, 170.0 / 407);
  EXPECT_NE(to_text(report).find("100.0% of the GPU's time belongs to a layer, 41.8% to one the trace names."),
            std::string::npos);
}

TEST(Summary, OperationsOwnTimes) {
  const analysis::SummaryReport report = summary_of({});
  const analysis::SummaryReport::OpRow mm = find(report.ops, "aten::mm");
  EXPECT_EQ(mm.calls, 2u);
  EXPECT_EQ(mm.gpu_time, us(150));
  EXPECT_EQ(mm.gpu_events, 2u);
  EXPECT_EQ(mm.cpu_time, us(120));
  EXPECT_EQ(find(report.ops, "aten::linear").cpu_time, us(85 + 30));  // with the time in front of it
  EXPECT_EQ(find(report.ops, "aten::linear").gpu_time, 0);
  EXPECT_EQ(report.ops.front().name, "record_param_comms");
}

TEST(Summary, KernelsByName) {
  const analysis::SummaryReport report = summary_of({});
  EXPECT_EQ(find(report.kernels, "sgemm").launches, 2u);
  EXPECT_EQ(find(report.kernels, "sgemm").total, us(150));
  EXPECT_EQ(find(report.kernels, "Memcpy HtoD (Pinned -> Device)").kind, "memcpy");
}

TEST(Summary, LanesAndTheirUse) {
  const analysis::SummaryReport report = summary_of({});
  const analysis::SummaryReport::LaneUse main = lane(report, "thread 100");
  EXPECT_EQ(main.busy, us(10 + 90 + 50 + 150));
  EXPECT_EQ(main.idle, us(600));
  EXPECT_EQ(main.waiting, us(100));
  EXPECT_EQ(lane(report, "thread 200").busy, us(100 + 40 + 20));
  EXPECT_EQ(lane(report, "stream 7").busy, us(207));
  EXPECT_EQ(lane(report, "stream 16").busy, us(200));
  EXPECT_EQ(report.gpu_busy, us(207 + 200 - 30));  // the optimizer runs under the all-reduce
  const auto gpu =
      std::find_if(report.lanes.begin(), report.lanes.end(), [](const auto& l) { return l.kind == "gpu"; });
  ASSERT_NE(gpu, report.lanes.end());
  EXPECT_EQ(gpu->busy, report.gpu_busy);
  EXPECT_EQ(gpu->events, 7u);
}

TEST(Summary, MemoryPeakAndWhere) {
  const analysis::SummaryReport report = summary_of({});
  ASSERT_EQ(report.memory.size(), 1u);  // the CPU's allocations are not the GPU's
  EXPECT_EQ(report.memory[0].allocated_bytes, 5000);
  EXPECT_EQ(report.memory[0].reserved_bytes, 8192);
  EXPECT_EQ(report.memory[0].op, "aten::mm");
  EXPECT_EQ(report.memory[0].layer, "fc");
  EXPECT_EQ(report.memory[0].phase, "backward");
  EXPECT_TRUE(summary_of({.memory = false}).memory.empty());
}

TEST(Summary, WorkBelongsToTheStepThatLaunchedIt) {
  // The step's range ends before its last kernels run: they still count, and only for this step.
  const analysis::SummaryReport report = summary_of({.step_length_us = 530, .collective = false});
  EXPECT_EQ(find(report.phases, "optimizer").gpu_time, us(30));
  // A step whose work outlives its range lasts until the next one begins: the read-back behind it is part of the period.
  EXPECT_EQ(report.gpu_time_after_step, us(30 + 2));
  EXPECT_EQ(report.gpu_time, us(5 + 50 + 100 + 20 + 30 + 2));
}

TEST(Summary, WorkWithoutALaunchIsCountedWhereItStarts) {
  const analysis::SummaryReport report = summary_of({.runtime = false, .external_ids = false});
  EXPECT_EQ(report.gpu_time, us(407));
  EXPECT_EQ(find(report.ops, "(launch not recorded)").gpu_events, 7u);
  // With External ids the operation is known even so.
  EXPECT_EQ(find(summary_of({.runtime = false}).ops, "aten::mm").gpu_time, us(150));
}

TEST(Summary, NnModuleFramesNameLayersWhereNoRangeDoes) {
  Sample sample{.layers = false};
  sample.extra_events =
      ",{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: "
      "Linear_0\",\"pid\":100,\"tid\":100,\"ts\":10101,\"dur\":97,"
      "\"args\":{\"Python id\":5}}";
  const analysis::SummaryReport report = summary_of(sample);
  EXPECT_EQ(find(report.layers, "Linear_0").type, "Linear");
  EXPECT_EQ(find(report.layers, "Linear_0").gpu_time(), us(170));
}

TEST(Summary, SamplesPerSecondOnlyWhereTheBatchIsKnown) {
  EXPECT_FALSE(summary_of({}).samples_per_s);
  analysis::SummaryOptions options;
  options.samples = 9;
  EXPECT_DOUBLE_EQ(summary_of({}, options).samples_per_s.value_or(0), 10000.0);
}

TEST(Summary, ErrorsSayWhatIsThere) {
  const trace::Trace trace = Sample{}.load();
  analysis::SummaryOptions options;
  options.step = 99;
  const Result<analysis::SummaryReport> missing = analysis::summarise(trace, trace::find_steps(trace), options);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kUsage);
  const Result<trace::Trace> empty = trace::load_bytes("{\"traceEvents\":[]}", "empty.json");
  ASSERT_TRUE(empty);
  const Result<analysis::SummaryReport> declined = analysis::summarise(*empty, trace::find_steps(*empty));
  ASSERT_FALSE(declined);
  EXPECT_EQ(declined.error().code, ErrorCode::kDeclined);
  EXPECT_EQ(declined.error().file, "empty.json");
}

TEST(Summary, DeclinesWhatItDoesNotKnow) {
  const Result<trace::Trace> other = trace::load_bytes(
      "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"mine\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":5}]}",
      "mine.json");
  ASSERT_TRUE(other);
  const Result<analysis::SummaryReport> declined = analysis::summarise(*other, trace::find_steps(*other));
  ASSERT_FALSE(declined);
  EXPECT_EQ(declined.error().code, ErrorCode::kDeclined);
}

TEST(Summary, RangesOfOldTracesAreNotOperations) {
  const Result<trace::Trace> old = trace::load_bytes(
      "{\"traceEvents\":["
      "{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"ProfilerStep#2\",\"pid\":1,\"tid\":1,\"ts\":100,\"dur\":90},"
      "{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"Optimizer.step#SGD.step\",\"pid\":1,\"tid\":1,\"ts\":120,\"dur\":"
      "50},"
      "{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"aten::add_\",\"pid\":1,\"tid\":1,\"ts\":130,\"dur\":10}]}",
      "old.json");
  ASSERT_TRUE(old);
  const Result<analysis::SummaryReport> report = analysis::summarise(*old, trace::find_steps(*old));
  ASSERT_TRUE(report);
  ASSERT_EQ(report->ops.size(), 1u);
  EXPECT_EQ(report->ops[0].name, "aten::add_");
  EXPECT_EQ(report->lanes[0].busy, us(10));
  // As in newer traces: time no operation covers goes with the one behind it.
  EXPECT_EQ(find(report->phases, "optimizer").cpu_time, us(90));
}

TEST(Summary, JsonHoldsWhatTextShows) {
  const std::string json = to_json(summary_of({}));
  EXPECT_EQ(json.find("{\n  \"schema\": 1,"), 0u);
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  ASSERT_FALSE(parser.parse(json).get(document));
  EXPECT_EQ(std::string_view(document["step"]), "ProfilerStep#3");
  EXPECT_DOUBLE_EQ(double(document["traced_ms"]), 0.9);
  EXPECT_DOUBLE_EQ(double(document["gpu_ms"]), 0.407);
  EXPECT_EQ(std::int64_t(document["peak_bytes"]), 5000);
  EXPECT_TRUE(document["samples_per_s"].is_null());
  EXPECT_EQ(simdjson::dom::array(document["kernels"]).size(), 5u);
}

TEST(Summary, TextKeepsToTheWidth) {
  const std::string text = to_text(summary_of({}), {.width = 70, .top = 2});
  EXPECT_NE(text.find("… and 3 more, "), std::string::npos) << text;
  EXPECT_NE(text.find("GPU busy 41.9%"), std::string::npos) << text;
}

TEST(Summary, AStepWithoutGpuWorkIsStillSummarised) {
  const analysis::SummaryReport report = summary_of({.kernels = false});
  EXPECT_EQ(report.gpu_time, 0);
  EXPECT_NE(to_text(report).find("no GPU work in this step"), std::string::npos);
  simdjson::dom::parser parser;
  EXPECT_FALSE(parser.parse(to_json(report)).error());
}

TEST(Summary, BreakdownAndCriticalPathAddUpToTheStep) {
  const analysis::SummaryReport report = summary_of({});
  ASSERT_TRUE(report.simulated);
  const analysis::SimulatedStep& s = *report.simulated;
  EXPECT_EQ(s.replayed, us(900));
  EXPECT_EQ(s.error_pct, 0);
  const simulate::Breakdown& b = s.breakdown;
  EXPECT_EQ(b.step, us(900));
  EXPECT_EQ(b.cpu_only + b.gpu_only + b.both + b.exposed_communication + b.idle, b.step);
  EXPECT_EQ(b.path_cpu + b.path_gpu + b.path_communication + b.path_waits, b.step);
  EXPECT_EQ(b.communication, us(200));
  Ns path = 0, waits = 0;
  std::uint64_t tasks = 0;
  for (const auto& layer : s.path_layers) {
    path += layer.time;
    tasks += layer.tasks;
  }
  for (const auto& reason : s.reasons) waits += reason.wait;
  EXPECT_EQ(path + waits, b.step);
  EXPECT_EQ(tasks, s.path_length);
  ASSERT_FALSE(s.path_tasks.empty());
  EXPECT_EQ(s.path_tasks.front().time, us(145));  // the time in front of item, and its own until the next call
  EXPECT_LE(s.bounds.no_gpu, s.replayed);
  EXPECT_LE(s.bounds.no_cpu, s.replayed);
  EXPECT_GT(s.bounds.no_cpu, 0);
}

TEST(Summary, PercentagesInJsonAddUpToAHundred) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  ASSERT_FALSE(parser.parse(to_json(summary_of({}))).get(document));
  for (const char* key : {"breakdown", "critical_path"}) {
    double sum = 0;
    for (const auto field : simdjson::dom::object(document[key])) {
      if (field.key.ends_with("_pct")) sum += double(field.value);
    }
    EXPECT_NEAR(sum, 100, 1e-9) << key;
  }
  EXPECT_EQ(std::string_view(document["bottleneck"]).substr(0, 10), "CPU-bound:");
  EXPECT_DOUBLE_EQ(double(document["replayed_ms"]), 0.9);
  EXPECT_DOUBLE_EQ(double(document["layer_coverage_pct"]), 100);
}

TEST(Summary, OfAnExportedFile) {
  const trace::Trace trace = Sample{}.load();
  const trace::Steps steps = trace::find_steps(trace);
  const Result<Exported> file = export_step(trace, overview::exportable_step(trace, steps).value());
  ASSERT_TRUE(file);
  const Result<trace::Trace> back = trace::load_bytes(file->bytes, "export.json");
  ASSERT_TRUE(back);
  const Result<analysis::SummaryReport> again = analysis::summarise(*back, trace::find_steps(*back));
  ASSERT_TRUE(again) << again.error().to_string();
  const analysis::SummaryReport first = summary_of({});
  ASSERT_TRUE(again->simulated);
  EXPECT_EQ(again->steps[0].name, "ProfilerStep#3");
  EXPECT_EQ(again->simulated->replayed, first.simulated->replayed);
  EXPECT_EQ(again->simulated->verdict.traced.sentence(), first.simulated->verdict.traced.sentence());
  EXPECT_EQ(again->gpu_time, first.gpu_time);
  EXPECT_EQ(again->gpu_busy, first.gpu_busy);
  EXPECT_EQ(find(again->phases, "backward").cpu_time, find(first.phases, "backward").cpu_time);
  EXPECT_EQ(find(again->layers, "fc").backward, find(first.layers, "fc").backward);
  EXPECT_EQ(find(again->kernels, "sgemm").total, find(first.kernels, "sgemm").total);
}

TEST(Summary, TheBottleneckComesFirst) {
  const std::string text = to_text(summary_of({.collective = false}));
  EXPECT_LT(text.find("CPU-bound: "), text.find("Breakdown"));
  EXPECT_LT(text.find("Breakdown"), text.find("Lanes"));
}

TEST(Summary, AMeasuredStepCalibratesAndGivesSamplesPerSecond) {
  analysis::SummaryOptions options;
  options.samples = 9;
  options.measurements = 0.8;
  const analysis::SummaryReport report = summary_of({}, options);
  ASSERT_TRUE(report.simulated);
  EXPECT_EQ(report.simulated->measured, us(800));
  EXPECT_TRUE(report.simulated->unprofiled.calibrated);
  EXPECT_TRUE(report.unprofiled_samples_per_s);
}

}  // namespace
}  // namespace foretrace::report
