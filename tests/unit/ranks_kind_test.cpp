// The kind of a job, from jobs written by hand: every parallelism by what it moves and where, products of them, and pipelines of every
// schedule.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "foretrace/analysis/doctor.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/report/export.hpp"
#include "scripted_job.hpp"

namespace foretrace::test {
namespace {

using ranks::JobKind;
using ranks::Parallelism;
using ranks::Schedule;

constexpr int kActivations = 4'000'000, kGradients = 25'000'000;

JobKind kind_of(ScriptedJob& m) {
  m.step();
  auto report = analysis::analyse_ranks(m.job(), {});
  EXPECT_TRUE(report) << report.error().to_string();
  return report ? report->kind : JobKind{};
}

void forward(ScriptedJob& m, std::size_t r, const std::string& op = "aten::mm") {
  m.compute(r, "gemm", 100'000, false, op);
}
void backward(ScriptedJob& m, std::size_t r) { m.compute(r, "gemm", 100'000, true); }
void optimizer(ScriptedJob& m, std::size_t r) { m.compute(r, "adam", 20'000, false, "aten::_fused_adamw_"); }

TEST(RanksKind, DataParallelReducesInBackwardAlone) {
  ScriptedJob m(2);
  for (std::size_t r = 0; r < 2; ++r) {
    forward(m, r);
    backward(m, r);
    m.collective(r, {.elements = kGradients, .overlaps = true}, true);
    backward(m, r);
    m.collective(r, {.elements = kGradients, .overlaps = true}, true);
    optimizer(m, r);
  }
  const JobKind kind = kind_of(m);
  EXPECT_EQ(kind.parallel, "dp2");
  ASSERT_EQ(kind.groups.size(), 1U);
  EXPECT_EQ(kind.groups[0].operations, 2U);
  EXPECT_EQ(kind.groups[0].bytes, 2.0 * 4 * kGradients);
}

// Buffers that are broadcast in forward do not make it ZeRO.
TEST(RanksKind, BuffersAreNoParameters) {
  ScriptedJob m(2);
  for (std::size_t r = 0; r < 2; ++r) {
    m.collective(r, {.name = "broadcast", .elements = kGradients / 200});
    forward(m, r);
    backward(m, r);
    m.collective(r, {.elements = kGradients}, true);
  }
  EXPECT_EQ(kind_of(m).parallel, "dp2");
}

void tensor_parallel(ScriptedJob& m, std::size_t r, const std::string& group) {
  for (int layer = 0; layer < 2; ++layer) {
    forward(m, r);
    m.collective(r, {.group = group, .elements = kActivations});
  }
}

// A mesh of 2 x 2: no description, only what is moved.
TEST(RanksKind, TensorTimesDataParallel) {
  ScriptedJob m(4);
  m.groups["a"] = {0, 1};
  m.groups["b"] = {2, 3};
  m.groups["c"] = {0, 2};
  m.groups["d"] = {1, 3};
  for (std::size_t r = 0; r < 4; ++r) {
    const std::string inner = r < 2 ? "a" : "b", outer = r % 2 == 0 ? "c" : "d";
    tensor_parallel(m, r, inner);
    for (int layer = 0; layer < 2; ++layer) {
      backward(m, r);
      m.collective(r, {.group = inner, .elements = kActivations}, true);
    }
    m.collective(r, {.group = outer, .elements = kGradients}, true);
    m.collective(r, {.group = "0", .elements = 1}, true);  // a norm over all ranks is no dimension
    optimizer(m, r);
  }
  const JobKind kind = kind_of(m);
  EXPECT_EQ(kind.parallel, "tp2 dp2");
  EXPECT_EQ(kind.size_of(Parallelism::kTensor), 2U);
  EXPECT_EQ(kind.groups.back().kind, Parallelism::kOther);
  EXPECT_FALSE(kind.sequence_parallel);
}

TEST(RanksKind, SequenceParallelScattersInForward) {
  ScriptedJob m(2);
  for (std::size_t r = 0; r < 2; ++r) {
    for (const bool back : {false, true}) {
      for (int layer = 0; layer < 2; ++layer) {
        m.collective(r, {.name = "_allgather_base", .elements = kActivations / 2, .out_elements = kActivations}, back);
        m.compute(r, "gemm", 100'000, back);
        m.collective(r, {.name = "_reduce_scatter_base", .elements = kActivations}, back);
      }
    }
    m.collective(r, {.elements = 1000}, true);  // gradients of norms: still the same ranks
    optimizer(m, r);
  }
  const JobKind kind = kind_of(m);
  EXPECT_EQ(kind.parallel, "tp2");
  EXPECT_TRUE(kind.sequence_parallel);
}

void sharded(ScriptedJob& m, std::size_t r, const std::string& group, bool again) {
  for (int layer = 0; layer < 2; ++layer) {
    m.collective(r, {.group = group, .name = "_allgather_base", .elements = kGradients});
    forward(m, r);
  }
  for (int layer = 0; layer < 2; ++layer) {
    backward(m, r);
    if (again) m.collective(r, {.group = group, .name = "_allgather_base", .elements = kGradients}, true);
    backward(m, r);
    m.collective(r, {.group = group, .name = "_reduce_scatter_base", .elements = kGradients}, true);
  }
}

TEST(RanksKind, ShardedParametersAreGatheredTwice) {
  ScriptedJob m(2);
  for (std::size_t r = 0; r < 2; ++r) sharded(m, r, "0", true);
  const JobKind kind = kind_of(m);
  EXPECT_EQ(kind.parallel, "fsdp2");
  EXPECT_EQ(kind.zero, 3);
}

TEST(RanksKind, ParametersGatheredOnceAreZeroOne) {
  ScriptedJob m(2);
  for (std::size_t r = 0; r < 2; ++r) {
    forward(m, r);
    backward(m, r);
    m.collective(r, {.name = "_reduce_scatter_base", .elements = kGradients}, true);
    optimizer(m, r);
    m.collective(r, {.name = "_allgather_base", .elements = kGradients / 2, .out_elements = kGradients});
  }
  const JobKind kind = kind_of(m);
  EXPECT_EQ(kind.parallel, "dp2 zero1");
  EXPECT_EQ(kind.zero, 1);
}

TEST(RanksKind, ReplicatedShardsAreHybrid) {
  ScriptedJob m(4);
  m.groups["a"] = {0, 1};
  m.groups["b"] = {2, 3};
  m.groups["c"] = {0, 2};
  m.groups["d"] = {1, 3};
  for (std::size_t r = 0; r < 4; ++r) {
    sharded(m, r, r < 2 ? "a" : "b", true);
    m.collective(r, {.group = r % 2 == 0 ? "c" : "d", .elements = kGradients / 2}, true);
  }
  const JobKind kind = kind_of(m);
  EXPECT_EQ(kind.parallel, "fsdp2 dp2");
  EXPECT_TRUE(kind.hybrid);
}

// Exchanges around experts and around attention move the same; what is computed between them differs.
TEST(RanksKind, ExchangesAroundAttentionAreContextParallel) {
  for (const bool attention : {false, true}) {
    ScriptedJob m(2);
    for (std::size_t r = 0; r < 2; ++r) {
      for (int layer = 0; layer < 2; ++layer) {
        forward(m, r);
        m.collective(r, {.name = "all_to_allv", .elements = kActivations});
        forward(m, r, attention ? "aten::_scaled_dot_product_flash_attention" : "aten::mm");
        m.collective(r, {.name = "all_to_allv", .elements = kActivations});
        forward(m, r);
      }
      backward(m, r);
      m.collective(r, {.name = "all_to_allv", .elements = kActivations}, true);
      m.collective(r, {.elements = kGradients}, true);
    }
    // Experts see other samples on every rank, so that gradients of the rest are those of data-parallel ranks.
    EXPECT_EQ(kind_of(m).parallel, attention ? "cp2" : "ep2 dp2");
  }
}

TEST(RanksKind, ExchangesBehindLookupsAreTables) {
  ScriptedJob m(2);
  for (std::size_t r = 0; r < 2; ++r) {
    forward(m, r);
    forward(m, r, "aten::embedding_bag");
    m.collective(r, {.name = "all_to_allv", .elements = kActivations});
    forward(m, r);
    backward(m, r);
    m.collective(r, {.name = "all_to_allv", .elements = kActivations}, true);
    m.collective(r, {.elements = kGradients}, true);
  }
  EXPECT_EQ(kind_of(m).parallel, "emb2 dp2");
}

TEST(RanksKind, GatheredKeysAreContextParallel) {
  ScriptedJob m(2);
  for (std::size_t r = 0; r < 2; ++r) {
    for (int layer = 0; layer < 2; ++layer) {
      forward(m, r);
      m.collective(r, {.name = "_allgather_base", .elements = kActivations});
      forward(m, r, "aten::_scaled_dot_product_flash_attention");
      forward(m, r);
    }
    backward(m, r);
    m.collective(r, {.name = "_reduce_scatter_base", .elements = kActivations}, true);
  }
  EXPECT_EQ(kind_of(m).parallel, "cp2");
}

// All ranks pass keys on at once: a ring, and no pipeline.
TEST(RanksKind, ARingIsContextParallel) {
  ScriptedJob m(3);
  for (std::size_t r = 0; r < 3; ++r) {
    const int next = (static_cast<int>(r) + 1) % 3, before = (static_cast<int>(r) + 2) % 3;
    for (int hop = 0; hop < 2; ++hop) {
      m.batch(r, {{.to = next}, {.from = before}});
      forward(m, r, "aten::_scaled_dot_product_flash_attention");
    }
  }
  const JobKind kind = kind_of(m);
  EXPECT_EQ(kind.parallel, "cp3");
  EXPECT_FALSE(kind.pipeline.has_value());
}

// Messages of one stage, in the order of its passes: "F" and "B" of micro-batches, "W" of weights alone.
void stage(ScriptedJob& m, int s, int stages, const std::string& passes) {
  const auto r = static_cast<std::size_t>(s);
  for (const char pass : passes) {
    if (pass == 'F') {
      if (s > 0) m.batch(r, {{.from = s - 1}});
      forward(m, r);
      if (s + 1 < stages) m.batch(r, {{.to = s + 1}});
    } else if (pass == 'B') {
      if (s + 1 < stages) m.batch(r, {{.from = s + 1}});
      backward(m, r);
      if (s > 0) m.batch(r, {{.to = s - 1}});
    } else {
      backward(m, r);
    }
  }
}

struct Passes {
  Schedule schedule;
  std::vector<std::string> stages;
};

TEST(RanksKind, SchedulesByTheOrderOfPasses) {
  const std::vector<Passes> all = {
      {Schedule::kGPipe, {"FFFFBBBB", "FFFFBBBB", "FFFFBBBB"}},
      {Schedule::kOneForwardOneBackward, {"FFFBFBBB", "FFBFBFBB", "FBFBFBFB"}},
      {Schedule::kZeroBubble, {"FFFBFBWBWBWW", "FFBFBFBWBWWW", "FBFBFBWFBWWW"}},
  };
  for (const Passes& p : all) {
    ScriptedJob m(3);
    m.buffered = true;
    for (int s = 0; s < 3; ++s) stage(m, s, 3, p.stages[static_cast<std::size_t>(s)]);
    const JobKind kind = kind_of(m);
    ASSERT_TRUE(kind.pipeline.has_value());
    EXPECT_EQ(kind.parallel, "pp3");
    EXPECT_EQ(kind.pipeline->stages, 3U);
    EXPECT_EQ(kind.pipeline->micro_batches, 4U);
    EXPECT_EQ(to_string(kind.pipeline->schedule), to_string(p.schedule));
    for (std::uint32_t r = 0; r < 3; ++r) EXPECT_EQ(kind.places[r].stage, r);
  }
}

// Two ranks with two chunks each: activations also go from the last rank to the first.
TEST(RanksKind, InterleavedStagesSendAround) {
  ScriptedJob m(2);
  m.buffered = true;
  for (int i = 0; i < 2; ++i) {  // chunk 0 on rank 0, chunk 1 on rank 1, chunk 2 on rank 0, chunk 3 on rank 1
    forward(m, 0);
    m.batch(0, {{.to = 1}});
    m.batch(1, {{.from = 0}});
    forward(m, 1);
    m.batch(1, {{.to = 0}});
  }
  for (int i = 0; i < 2; ++i) {
    m.batch(0, {{.from = 1}});
    forward(m, 0);
    m.batch(0, {{.to = 1}});
    m.batch(1, {{.from = 0}});
    forward(m, 1);
    backward(m, 1);
    m.batch(1, {{.to = 0}});
  }
  for (int i = 0; i < 2; ++i) {
    m.batch(0, {{.from = 1}});
    backward(m, 0);
    m.batch(0, {{.to = 1}});
    m.batch(1, {{.from = 0}});
    backward(m, 1);
    m.batch(1, {{.to = 0}});
  }
  for (int i = 0; i < 2; ++i) {
    m.batch(0, {{.from = 1}});
    backward(m, 0);
  }
  const JobKind kind = kind_of(m);
  ASSERT_TRUE(kind.pipeline.has_value());
  EXPECT_EQ(kind.pipeline->chunks, 2U);
  EXPECT_EQ(kind.pipeline->micro_batches, 2U);
  EXPECT_EQ(kind.pipeline->schedule, Schedule::kInterleaved);
}

// The first and the last stage share the embedding: two ranks of one pipeline are no data-parallel ones.
TEST(RanksKind, TiedEmbeddingsAreNoDimension) {
  ScriptedJob m(3);
  m.buffered = true;
  m.groups["tied"] = {0, 2};
  for (int s = 0; s < 3; ++s) stage(m, s, 3, "FFBB");
  for (const std::size_t r : {0U, 2U}) m.collective(r, {.group = "tied", .elements = kGradients}, true);
  const JobKind kind = kind_of(m);
  EXPECT_EQ(kind.parallel, "pp3");
  EXPECT_EQ(kind.groups.back().kind, Parallelism::kTied);
}

// The second stage computes three times as long: its neighbours wait, and that is a bubble and nobody's fault.
TEST(RanksKind, AnUnevenStageIsNoStraggler) {
  ScriptedJob m(3);
  for (int i = 0; i < 3; ++i) {
    m.compute(0, "gemm", kNsPerMs);
    m.batch(0, {{.to = 1}});
    m.batch(1, {{.from = 0}});
    m.compute(1, "gemm", 3 * kNsPerMs);
    m.batch(1, {{.to = 2}});
    m.batch(2, {{.from = 1}});
    m.compute(2, "gemm", kNsPerMs);
  }
  m.step();
  const auto report = analysis::analyse_ranks(m.job(), {});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->stragglers.found.empty());
  EXPECT_EQ(report->stragglers.without_any, report->replayed);
  ASSERT_TRUE(report->kind.pipeline.has_value());
  const auto& places = report->kind.places;
  EXPECT_EQ(places[0].bubble, 0);
  EXPECT_GT(places[2].bubble, 6 * kNsPerMs);
  EXPECT_EQ(places[1].compute, 9 * kNsPerMs);
  EXPECT_EQ(report->kind.pipeline->bubble, (places[0].bubble + places[1].bubble + places[2].bubble) / 3);
}

// Ranks of one stage do the same work: the slow one of them is still named.
TEST(RanksKind, ASlowRankOfAStageIsNamed) {
  ScriptedJob m(4);
  m.groups["a"] = {0, 1};
  m.groups["b"] = {2, 3};
  m.groups["c"] = {0, 2};
  m.groups["d"] = {1, 3};
  m.pair_group = {"a", "a", "b", "b"};
  for (const int first : {0, 2}) {
    const auto r = static_cast<std::size_t>(first);
    for (int i = 0; i < 4; ++i) {
      m.compute(r, "gemm", kNsPerMs);
      m.batch(r, {{.to = first + 1}});
      m.batch(r + 1, {{.from = first}});
      m.compute(r + 1, "gemm", (first == 2 ? 3 : 2) * kNsPerMs);
    }
    for (int i = 0; i < 4; ++i) {
      m.compute(r + 1, "gemm", 2 * kNsPerMs, true);
      m.batch(r + 1, {{.to = first}});
      m.batch(r, {{.from = first + 1}});
      m.compute(r, "gemm", 2 * kNsPerMs, true);
    }
    m.collective(r, {.group = "c", .elements = kGradients}, true);
    m.collective(r + 1, {.group = "d", .elements = kGradients}, true);
  }
  m.step();
  const auto report = analysis::analyse_ranks(m.job(), {});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->kind.parallel, "pp2 dp2");
  ASSERT_FALSE(report->stragglers.found.empty());
  EXPECT_EQ(report->stragglers.found[0].rank, 3U);
  EXPECT_EQ(report->stragglers.found[0].like, 1U);
}

TEST(RanksKind, TheTimelineShowsGroupsAndTheBubble) {
  ScriptedJob m(2);
  m.groups["c"] = {0, 1};
  for (int i = 0; i < 2; ++i) {
    forward(m, 0);
    m.batch(0, {{.to = 1}});
    m.batch(1, {{.from = 0}});
    forward(m, 1);
  }
  m.step();
  const ranks::Job job = m.job();
  const auto step = analysis::open_ranks_step(job);
  ASSERT_TRUE(step);
  const auto written = report::export_ranks(job, **step, {});
  ASSERT_TRUE(written) << written.error().to_string();
  for (const char* part : {"rank 0 measured", "rank 1 simulated", "bubble (stage 1)", "\"bubble\"", "pp send-recv",
                           "(waits for other ranks)"}) {
    EXPECT_NE(written->bytes.find(part), std::string::npos) << part;
  }
}

// A rank alone names its groups, and with them the ranks that are missing.
TEST(RanksKind, OneRankNamesTheMissing) {
  ScriptedJob m(4);
  m.groups["a"] = {0, 1};
  m.groups["c"] = {0, 2};
  for (const std::size_t r : {0U, 1U, 2U}) forward(m, r);
  for (const std::size_t r : {0U, 1U}) m.collective(r, {.group = "a", .elements = kActivations});
  for (const std::size_t r : {0U, 2U}) {
    backward(m, r);
    m.collective(r, {.group = "c", .elements = kGradients}, true);
  }
  m.step();
  std::vector<trace::Trace> traces = m.traces();
  traces.resize(1);
  auto job = ranks::assemble(std::move(traces));
  ASSERT_TRUE(job);
  const auto report = analysis::analyse_ranks(*job, {});
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->kind.parallel, "tp2 dp2");
  EXPECT_EQ(report->kind.absent, (std::vector<std::int64_t>{1, 2}));
}

// What `doctor` says of a folder: groups that lack a file, and ranks that lack a step.
TEST(RanksKind, DoctorNamesWhatIsMissingOfAJob) {
  ScriptedJob m(4);
  m.groups["a"] = {0, 1};
  m.groups["b"] = {2, 3};
  m.descriptions["b"] = "mesh_tp";
  for (std::size_t r = 0; r < 4; ++r) {
    forward(m, r);
    m.collective(r, {.group = r < 2 ? "a" : "b", .elements = kActivations});
  }
  m.step();
  for (const std::size_t r : {0U, 1U}) m.collective(r, {.group = "a", .elements = kActivations});
  m.step();
  std::vector<analysis::DoctorReport> reports;
  std::vector<trace::Trace> traces = m.traces();
  for (const std::size_t r : {0U, 1U, 3U})
    reports.push_back(analysis::examine(traces[r], trace::find_steps(traces[r])));
  const analysis::TraceSet set = analysis::examine_set(reports);
  EXPECT_TRUE(set.communicates);
  ASSERT_EQ(set.lacking.size(), 1U);
  EXPECT_EQ(set.lacking[0].group, "mesh_tp");
  EXPECT_EQ(set.lacking[0].missing, std::vector<std::int64_t>{2});
  EXPECT_TRUE(set.shorter_ranks.empty());
  EXPECT_NE(set.sentence().find("Group mesh_tp of ranks 2-3 lacks 2."), std::string::npos) << set.sentence();
  // Rank 1's file ends a step early.
  reports[1].numbered_steps.pop_back();
  EXPECT_EQ(analysis::examine_set(reports).shorter_ranks, std::vector<std::int64_t>{1});
}

// Jobs of others, where they are at hand.
TEST(RanksKind, PublicJobs) {
  const char* root = std::getenv("FORETRACE_PUBLIC");
  if (root == nullptr) GTEST_SKIP() << "FORETRACE_PUBLIC is not set";
  const std::pair<const char*, const char*> all[] = {{"zoo2/made-jobs/fsdp", "fsdp4"},
                                                     {"zoo2/made-jobs/pp", "pp4"},
                                                     {"zoo2/made-jobs/tpdp", "tp2 dp2"},
                                                     {"dlrm-8ranks-v100", "emb8 dp8"}};
  for (const auto& [folder, parallel] : all) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(root) / folder)) {
      files.push_back(entry.path().string());
    }
    const auto job = ranks::load_job(files);
    ASSERT_TRUE(job) << folder;
    const auto report = analysis::analyse_ranks(*job, {});
    ASSERT_TRUE(report) << folder;
    EXPECT_EQ(report->kind.parallel, parallel);
  }
  const std::pair<const char*, const char*> logs[] = {{"AR", "pp4 dp4 zero1"}, {"SE", "pp2 dp32 zero1"}};
  for (const auto& [name, parallel] : logs) {
    const auto trace = trace::load(fmt::format("{}/straggler-jobs/trace-{}.csv.gz", root, name));
    ASSERT_TRUE(trace);
    const auto job = ranks::read_pipeline(*trace);
    ASSERT_TRUE(job);
    EXPECT_EQ(ranks::kind_of(*job).parallel, parallel);
    EXPECT_EQ(ranks::kind_of(*job).shape.schedule, Schedule::kOneForwardOneBackward);
  }
}

// Half of the micro-batches enter at each end.
TEST(RanksKind, BothEndsBeginInDualPipe) {
  ScriptedJob m(4);
  m.buffered = true;
  for (int at = 0; at < 4; ++at) {
    const auto r = static_cast<std::size_t>(at);
    for (int i = 0; i < 4; ++i) {
      const bool up = (i % 2 == 0) == (at < 2);  // each half begins with what enters at its end
      const int next = up ? at + 1 : at - 1, before = up ? at - 1 : at + 1;
      if (before >= 0 && before < 4) m.batch(r, {{.from = before}});
      forward(m, r);
      if (next >= 0 && next < 4) m.batch(r, {{.to = next}});
    }
  }
  const JobKind kind = kind_of(m);
  ASSERT_TRUE(kind.pipeline.has_value());
  EXPECT_EQ(kind.pipeline->schedule, Schedule::kDualPipe);
  EXPECT_EQ(kind.pipeline->micro_batches, 4U);
}

}  // namespace
}  // namespace foretrace::test
