#include <gtest/gtest.h>
#include <simdjson.h>

#include <ostream>

#include "foretrace/analysis/doctor.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "report_sample.hpp"
#include "trace_maker.hpp"

namespace foretrace::report {
namespace {

analysis::DoctorReport doctor_of(const Sample& sample) {
  const trace::Trace trace = sample.load();
  return analysis::examine(trace, trace::find_steps(trace));
}

std::string names(const analysis::DoctorReport& report) {
  std::string out;
  for (const analysis::Finding& finding : report.findings) out += finding.name + " ";
  return out;
}

std::string kernel(const std::string& more) {
  return ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":10850,\"dur\":4,\"args\":{"
         "\"device\":0,"
         "\"stream\":7,\"grid\":[1,1,1],\"block\":[1,1,1],\"registers per thread\":1" +
         more + "}}";
}
std::string call(int tid, int ts, int dur, const std::string& name, int correlation, int pid = 100) {
  return ",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"" + name + "\",\"pid\":" + std::to_string(pid) +
         ",\"tid\":" + std::to_string(tid) + ",\"ts\":" + std::to_string(ts) + ",\"dur\":" + std::to_string(dur) +
         ",\"args\":{\"correlation\":" + std::to_string(correlation) + "}}";
}

TEST(Doctor, ShowsWhatTheRecorderStored) {
  const analysis::DoctorReport report = doctor_of(Sample{
      .extra_metadata = R"(,"foretrace":{"version":1,"measured_ms":0.8,"measured_by":"host","step_ms":[0.79,0.81],)"
                        R"("measured_p10_ms":0.79,"measured_p90_ms":0.81,"measured_steps":2,"host_cpu_count":16,)"
                        R"("host_cpus_usable":8,"torch":"2.11.0","python":"3.12.3",)"
                        R"("peak_bytes":5000,"host_cpu":"a CPU","asynchronous":false,"rank":null,)"
                        R"("missing":["layer ranges: none"],"secret":"do not show"})"});
  const std::string text = to_text(report), json = to_json(report);
  for (const char* part : {"0.800 ms a step without the profiler (2 steps, 0.790 to 0.810 ms)", "peak 5.0 kB",
                           "a CPU, 8 of 16 CPUs", "PyTorch 2.11.0, Python 3.12.3", "missing: layer ranges: none"}) {
    // Lines may break between words.
    std::string flat = text;
    for (std::size_t at = flat.find("\n"); at != std::string::npos; at = flat.find("\n", at)) {
      const std::size_t end = flat.find_first_not_of(" \n", at);
      flat.replace(at, end == std::string::npos ? std::string::npos : end - at, " ");
    }
    EXPECT_NE(flat.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ((text + json).find("do not show"), std::string::npos);
  EXPECT_NE(json.find("\"measured_ms\": 0.8"), std::string::npos) << json;
  EXPECT_EQ(report.find("measured_refused"), nullptr);
  const analysis::DoctorReport slip =
      doctor_of(Sample{.extra_metadata = R"(,"foretrace":{"version":1,"measured_ms":0.0008})"});
  ASSERT_NE(slip.find("measured_refused"), nullptr);
  EXPECT_NE(slip.find("measured_refused")->what.find("seconds?"), std::string::npos);
}

TEST(Doctor, AWholeTraceLacksNothing) {
  const analysis::DoctorReport report = doctor_of({});
  EXPECT_EQ(names(report), "");
  EXPECT_EQ(report.verdict(), "Good for predictions.");
  EXPECT_EQ(report.steps.size(), 2u);
  EXPECT_EQ(report.step_source, "ProfilerStep ranges");
  EXPECT_EQ(report.cpu_threads, 2u);
  EXPECT_EQ(report.gpu_streams, 2u);
  EXPECT_EQ(report.processes, std::vector<std::int64_t>{100});
  ASSERT_EQ(report.devices.size(), 1u);
  EXPECT_EQ(report.devices[0].name, "NVIDIA H200");
  EXPECT_EQ(report.devices[0].gpu_events, 14u);
  EXPECT_EQ(report.rank, 0);
}

struct Case {
  const char* finding;
  analysis::Weight weight;
  Sample sample;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.finding; }
};

class DoctorFinding : public testing::TestWithParam<Case> {};

TEST_P(DoctorFinding, IsFound) {
  const analysis::DoctorReport report = doctor_of(GetParam().sample);
  const analysis::Finding* finding = report.find(GetParam().finding);
  ASSERT_NE(finding, nullptr) << "found only: " << names(report);
  EXPECT_EQ(finding->weight, GetParam().weight);
  EXPECT_FALSE(finding->what.empty());
  EXPECT_FALSE(finding->cost.empty());
  EXPECT_NE(to_text(report).find(GetParam().finding), std::string::npos);
}

Sample with_events(std::string events) {
  Sample sample;
  sample.extra_events = std::move(events);
  return sample;
}

INSTANTIATE_TEST_SUITE_P(
    All, DoctorFinding,
    testing::Values(
        Case{"no_kernels", analysis::Weight::kBlocks, {.kernels = false}},
        Case{"no_cpu", analysis::Weight::kCosts, {.cpu = false}},
        Case{"no_shapes", analysis::Weight::kCosts, {.shapes = false}},
        Case{"no_cuda_sync", analysis::Weight::kCosts, {.sync = false}},
        Case{"no_cuda_sync", analysis::Weight::kNote, {.sync = false, .collective = false}},  // one stream
        Case{"no_memory", analysis::Weight::kCosts, {.memory = false}},
        Case{"no_external_id", analysis::Weight::kNote, {.external_ids = false}},
        Case{"no_profiler_step", analysis::Weight::kCosts, {.profiler_step = false}},
        Case{"no_device_properties", analysis::Weight::kCosts, {.device = false}},
        Case{"no_layers", analysis::Weight::kCosts, {.layers = false}},
        Case{"no_backward_links", analysis::Weight::kCosts, {.sequence_numbers = false}},
        Case{"no_launch_calls", analysis::Weight::kCosts, {.runtime = false}},
        Case{"no_launch_geometry", analysis::Weight::kCosts, {.geometry = false}},
        Case{"no_distributed_info", analysis::Weight::kCosts, {.distributed = false}},
        Case{"one_rank_of_many", analysis::Weight::kCosts, {.world_of_one = false}},
        Case{"no_collective_sizes", analysis::Weight::kCosts, {.collective_size = false}},
        Case{"python_stacks", analysis::Weight::kNote, {.python_stack = true}},
        Case{"one_step", analysis::Weight::kNote, {.steps = 1}},
        Case{"no_training", analysis::Weight::kNote, {.training = false}},
        Case{"whole_microseconds", analysis::Weight::kNote, {.whole_us = true}},
        Case{"orphan_kernels", analysis::Weight::kCosts, with_events(kernel(",\"correlation\":9999"))},
        Case{"orphan_kernels", analysis::Weight::kCosts, with_events(kernel(""))},
        Case{"kernel_before_launch", analysis::Weight::kCosts,
             with_events(kernel(",\"correlation\":9999") + call(100, 10870, 5, "cudaLaunchKernel", 9999))},
        Case{
            "duplicate_correlation_ids", analysis::Weight::kCosts,
            with_events(call(100, 10850, 5, "cudaLaunchKernel", 9999) + call(100, 10860, 5, "cudaLaunchKernel", 9999))},
        Case{"steps_cut_off", analysis::Weight::kCosts, with_events(call(100, 10850, 5, "cudaLaunchKernel", 9999))},
        Case{"several_processes", analysis::Weight::kCosts,
             with_events(call(300, 10850, 5, "cudaEventRecord", 9999, 300))},
        Case{"cuda_graph", analysis::Weight::kNote,
             with_events(call(100, 10840, 5, "cudaGraphLaunch", 9999) + kernel(",\"correlation\":9999"))},
        Case{"overlapping_events", analysis::Weight::kNote, with_events(call(100, 10840, 20, "cudaEventRecord", 9999))},
        Case{"profiler_stalls", analysis::Weight::kCosts,
             with_events(",{\"ph\":\"X\",\"cat\":\"overhead\",\"name\":\"Buffer "
                         "Flush\",\"pid\":-1,\"tid\":0,\"ts\":10100,\"dur\":50}")},
        Case{"unresolved_stream_waits", analysis::Weight::kNote,
             with_events(
                 ",{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait Event\",\"pid\":0,\"tid\":7,\"ts\":10100,"
                 "\"dur\":1,\"args\":{\"cuda_sync_kind\":\"Stream Wait Event\",\"stream\":7,"
                 "\"wait_on_cuda_event_record_corr_id\":-1}}")}));

TEST(Doctor, AFullLaunchQueueIsNotTheProfilersFault) {
  const analysis::DoctorReport report =
      doctor_of(with_events(",{\"ph\":\"X\",\"cat\":\"overhead\",\"name\":\"Command Buffer "
                            "Full\",\"pid\":-1,\"tid\":0,\"ts\":10100,\"dur\":500}"));
  EXPECT_EQ(report.find("profiler_stalls"), nullptr);
}

TEST(Doctor, StepsThatDiffer) {
  Sample sample;
  sample.profiler_step = false;
  for (const auto& [name, ts, dur] :
       {std::tuple("ProfilerStep#3", 10000, 900), std::tuple("ProfilerStep#4", 11000, 700)}) {
    sample.extra_events += ",{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"" + std::string(name) +
                           "\",\"pid\":100,\"tid\":100,\"ts\":" + std::to_string(ts) +
                           ",\"dur\":" + std::to_string(dur) + "}";
  }
  const analysis::Finding* finding = doctor_of(sample).find("steps_vary");
  ASSERT_NE(finding, nullptr);
}

TEST(Doctor, ReadsVersionsAndFlagsAndKeepsSecrets) {
  Sample sample;
  sample.extra_metadata =
      ",\"cuda_runtime_version\":13000,\"cupti_version\":130001,\"record_shapes\":1,\"with_stack\":0,"
      "\"torch_version\":\"2.11.0+cu130\",\"cuda_driver_version\":\"token "
      "hf_abcdef\",\"AWS_SECRET_KEY\":\"hunter2\",\"host_name\":\"box17\"";
  const analysis::DoctorReport report = doctor_of(sample);
  const std::vector<std::pair<std::string, std::string>> versions{
      {"PyTorch", "2.11.0+cu130"}, {"CUDA runtime", "13.0"}, {"CUPTI", "130001"}, {"schema", "1"}};
  EXPECT_EQ(report.versions, versions);
  EXPECT_EQ(report.profiler_flags, std::vector<std::string>{"record_shapes"});
  EXPECT_EQ(report.other_metadata, 2u);
  for (const std::string& shown : {to_text(report), to_json(report)}) {
    EXPECT_EQ(shown.find("hunter2"), std::string::npos);
    EXPECT_EQ(shown.find("box17"), std::string::npos);
    EXPECT_EQ(shown.find("hf_abcdef"), std::string::npos);
  }
}

TEST(Doctor, CutOffFilesAreUsableUpToTheCut) {
  const std::string whole = Sample{}.json();
  trace::LoadOptions options;
  options.partial = true;
  const Result<trace::Trace> trace =
      trace::load_bytes(std::string_view(whole).substr(0, whole.size() - 200), "cut.json", options);
  ASSERT_TRUE(trace) << trace.error().to_string();
  const analysis::DoctorReport report = analysis::examine(*trace, trace::find_steps(*trace));
  EXPECT_NE(report.find("partial"), nullptr);
  EXPECT_FALSE(report.problems.empty());
  EXPECT_NE(to_text(report).find("Problems in the file"), std::string::npos);
}

TEST(Doctor, JsonOfEveryReportIsValid) {
  for (const Sample& sample : {Sample{}, Sample{.kernels = false}, Sample{.cpu = false}, Sample{.steps = 0}}) {
    const std::string json = to_json(doctor_of(sample));
    EXPECT_EQ(json.find("{\n  \"schema\": 1,"), 0u);
    simdjson::dom::parser parser;
    EXPECT_FALSE(parser.parse(json).error()) << json;
  }
}

TEST(Doctor, LinesKeepToTheWidth) {
  const std::string text = to_text(doctor_of({.shapes = false, .memory = false, .layers = false}), {.width = 84});
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 84u) << text.substr(at, end - at);
    at = end + 1;
  }
}

std::vector<analysis::DoctorReport> ranks(const std::vector<std::int64_t>& list, std::int64_t world) {
  std::vector<analysis::DoctorReport> reports;
  for (const std::int64_t rank : list) {
    analysis::DoctorReport report = doctor_of({.world_of_one = false});
    report.rank = rank;
    report.world_size = world;
    reports.push_back(std::move(report));
  }
  return reports;
}

// What building and simulating the median step tells ---------------------------------------------------------------------

analysis::DoctorReport doctor_of(const test::TraceMaker& maker) {
  const trace::Trace trace = maker.load();
  return analysis::examine(trace, trace::find_steps(trace));
}

TEST(DoctorGraph, ReplaysTheMedianStep) {
  const analysis::DoctorReport report = doctor_of(Sample{});
  ASSERT_TRUE(report.replay);
  EXPECT_EQ(report.replay->step, "ProfilerStep#3");
  EXPECT_EQ(report.replay->replayed, 900 * kNsPerUs);
  EXPECT_EQ(report.replay->error_pct, 0);
  EXPECT_NE(to_text(report).find("ProfilerStep#3: 0.900 ms simulated unchanged, +0.00% off the trace"),
            std::string::npos);
}

TEST(DoctorGraph, DelaysWithoutACauseCostWhenTheyAreLong) {
  test::TraceMaker m;
  m.step(3, 0, 2'000'000).op("aten::mm", 5'000, 20'000);
  m.launch(1, {10'000, 15'000}, "gemm", {100'000, 150'000});
  const analysis::DoctorReport report = doctor_of(m);
  const analysis::Finding* found = report.find("unexplained_lags");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->weight, analysis::Weight::kCosts);  // 85 us of 2 ms
  EXPECT_EQ(found->count, 1u);
  test::TraceMaker longer;
  longer.step(3, 0, 20'000'000).op("aten::mm", 5'000, 20'000);
  longer.launch(1, {10'000, 15'000}, "gemm", {100'000, 150'000});
  const analysis::DoctorReport diluted = doctor_of(longer);
  ASSERT_NE(diluted.find("unexplained_lags"), nullptr);
  EXPECT_EQ(diluted.find("unexplained_lags")->weight, analysis::Weight::kNote);
}

TEST(DoctorGraph, WorkFromBeforeTheStep) {
  test::TraceMaker m;
  m.launch(1, {10'000, 15'000}, "earlier", {20'000, 400'000});
  m.step(3, 100'000, 500'000).op("aten::mm", 110'000, 130'000);
  m.launch(2, {115'000, 120'000}, "gemm", {402'000, 450'000});
  m.call("cudaDeviceSynchronize", {200'000, 460'000}, 3);
  const analysis::DoctorReport report = doctor_of(m);
  const analysis::Finding* found = report.find("border_work");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->what, "1 GPU task ran in ProfilerStep#3 without being launched in it");
}

TEST(DoctorGraph, EventsOfOtherProcesses) {
  const analysis::DoctorReport report = doctor_of(with_events(call(300, 10850, 5, "cudaEventRecord", 9999, 300)));
  const analysis::Finding* found = report.find("foreign_processes");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->count, 1u);
}

TEST(DoctorGraph, WhereAllIsRampUpItSaysSo) {
  // The CPU runs ahead; nothing is in steady state while the queue fills, so the period is the GPU's 150 us.
  test::TraceMaker m;
  for (int s = 0; s < 2; ++s) {
    const Ns t = 100'000 * s;
    m.step(s, t, t + 100'000).op("aten::mm", t + 5'000, t + 95'000);
    m.launch(s + 1, {t + 10'000, t + 15'000}, "gemm", {20'000 + s * 152'000, 170'000 + s * 152'000});
  }
  const analysis::DoctorReport report = doctor_of(m);
  const analysis::Finding* found = report.find("ramp_up");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->weight, analysis::Weight::kCosts);
  ASSERT_TRUE(report.replay);
  EXPECT_GT(report.replay->error_pct, 40);
  EXPECT_EQ(report.replay->period, 152'000) << "which the replay meets";
  EXPECT_EQ(report.find("replay_off"), nullptr);
}

TEST(DoctorGraph, AnExportIsKnownAsOne) {
  const trace::Trace trace = Sample{}.load();
  const Result<Exported> file = export_step(trace, overview::exportable_step(trace, trace::find_steps(trace)).value());
  ASSERT_TRUE(file);
  const Result<trace::Trace> back = trace::load_bytes(file->bytes, "export.json");
  ASSERT_TRUE(back);
  const analysis::DoctorReport report = analysis::examine(*back, trace::find_steps(*back));
  EXPECT_EQ(names(report), "from_export ");
  EXPECT_EQ(report.other_metadata, 0u);
  ASSERT_TRUE(report.replay);
  EXPECT_EQ(report.replay->replayed, 900 * kNsPerUs);
  std::string damaged = file->bytes;
  damaged.replace(damaged.find("foretrace graph 1"), 17, "foretrace graph 7");
  const Result<trace::Trace> bad = trace::load_bytes(damaged, "bad.json");
  ASSERT_TRUE(bad);
  const analysis::DoctorReport blocked = analysis::examine(*bad, trace::find_steps(*bad));
  ASSERT_NE(blocked.find("no_graph"), nullptr);
  EXPECT_EQ(blocked.count(analysis::Weight::kBlocks), 1u);
}

TEST(DoctorSet, AllRanksTogether) {
  std::vector<analysis::DoctorReport> reports = ranks({2, 0, 1, 3}, 4);
  const analysis::TraceSet set = analysis::examine_set(reports);
  EXPECT_EQ(set.sentence(), "4 files; ranks 0-3 of 4: complete.");
  EXPECT_EQ(reports[0].find("one_rank_of_many"), nullptr);
}

TEST(DoctorSet, MissingAndRepeatedRanks) {
  std::vector<analysis::DoctorReport> reports = ranks({0, 2, 2, 5}, 8);
  const analysis::TraceSet set = analysis::examine_set(reports);
  EXPECT_EQ(set.sentence(), "4 files; ranks 0, 2, 5 of 8; missing: 1, 3-4, 6-7; more than once: 2.");
  EXPECT_NE(reports[0].find("one_rank_of_many"), nullptr);
}

TEST(DoctorSet, AnAbsurdWorldSizeIsNotListed) {
  std::vector<analysis::DoctorReport> reports = ranks({0}, INT64_MAX);
  EXPECT_TRUE(analysis::examine_set(reports).missing_ranks.empty());
}

}  // namespace
}  // namespace foretrace::report
