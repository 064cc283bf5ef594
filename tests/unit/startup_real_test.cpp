// Start-up work in real traces: none in the steady ones, and steady steps with start-up work put into them come out as they were.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::test {
namespace {

namespace fs = std::filesystem;

constexpr Ns kMs = 1'000'000;

std::vector<std::string> traces_under(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool kineto = name.ends_with(".json.gz") && !name.ends_with(".et.json.gz");
    if (kineto || name.ends_with(".xplane.pb.gz")) out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

void expect_steady(const std::vector<std::string>& files) {
  ASSERT_FALSE(files.empty());
  for (const std::string& file : files) {
    const Result<trace::Trace> trace = trace::load(file);
    if (!trace) continue;
    const trace::Steps steps = trace::find_steps(*trace);
    if (steps.steps.empty()) continue;
    const graph::GraphBuilder builder(*trace, steps);
    for (std::size_t i = 0; i < steps.steps.size(); ++i) {
      EXPECT_FALSE(builder.cold(i)) << file << ": " << steps.steps[i].name;
    }
    const Result<graph::Graph> graph = builder.build(builder.median());
    if (!graph) continue;
    EXPECT_EQ(graph->notes.allocator, 0) << file;
  }
}

TEST(SteadyTraces, OfTheRepositoryAreNotCold) {
  expect_steady(traces_under(FORETRACE_SOURCE_DIR "/examples"));
  expect_steady(traces_under(FORETRACE_SOURCE_DIR "/data"));
}

TEST(SteadyTraces, MeasuredOnAnH200AreNotCold) {
  const char* truth = std::getenv("FORETRACE_TRUTH");
  if (truth == nullptr) GTEST_SKIP() << "FORETRACE_TRUTH is not set";
  expect_steady(traces_under(truth));
}

TEST(ColdTraces, FirstIterationOfASwitchTransformer) {
  const char* folder = std::getenv("FORETRACE_PUBLIC");
  if (folder == nullptr) GTEST_SKIP() << "FORETRACE_PUBLIC is not set";
  const Result<trace::Trace> trace = trace::load(std::string(folder) + "/zoo2/cold-switch-transformers.json.gz");
  ASSERT_TRUE(trace);
  const Result<analysis::Baseline> baseline = analysis::make_baseline(*trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(baseline) << baseline.error().message;
  EXPECT_GT(baseline->figures.startup.time(), 500 * kMs);
  EXPECT_LT(baseline->figures.unprofiled, 60 * kMs);
  const whatif::Prediction p = analysis::predict(*baseline, *analysis::parse_uses({"cuda-graph"}));
  EXPECT_LT(p.speedup, 6);
}

/// A trace whose events can be delayed.
class ColdMaker {
 public:
  explicit ColdMaker(const std::string& file) : trace(*trace::load(FORETRACE_SOURCE_DIR "/data/" + file)) {
    for (std::uint32_t e = 0; e < trace.size(); ++e) {
      if (trace.events.ph[e] == 'X' && trace.kind(e) == trace::EventKind::kRuntime) calls_.push_back(e);
    }
    std::sort(calls_.begin(), calls_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return trace.events.start[a] < trace.events.start[b]; });
  }

  /// The call takes longer, and all that comes behind it is later.
  void lengthen(std::uint32_t call, Ns by) {
    const Ns when = trace.events.start[call];
    for (std::uint32_t e = 0; e < trace.size(); ++e) {
      const bool timed = trace.events.ph[e] == 'X' || trace.kind(e) == trace::EventKind::kMemory;
      if (!timed) continue;
      if (trace.events.start[e] > when) {
        trace.events.start[e] += by;
      } else if (trace.events.ph[e] == 'X' && trace.end(e) > when && !trace::is_gpu_work(trace.kind(e))) {
        trace.events.duration[e] += by;
      }
    }
  }

  void lengthen_first_launches(Ns by) {
    std::unordered_map<std::int64_t, StringId> kernel;
    for (std::uint32_t e = 0; e < trace.size(); ++e) {
      if (trace.kind(e) == trace::EventKind::kKernel) kernel[trace.events.correlation[e]] = trace.events.name[e];
    }
    std::unordered_set<std::uint32_t> seen;
    for (const std::uint32_t call : calls_) {
      const auto launched = kernel.find(trace.events.correlation[call]);
      if (launched == kernel.end() || !seen.insert(launched->second.value).second) continue;
      lengthen(call, by + by * static_cast<Ns>(seen.size() % 4));
    }
  }

  /// Calls that do nothing for the GPU become calls of this name.
  std::size_t turn_calls_into(std::string_view name, std::size_t count, Ns by) {
    std::size_t turned = 0;
    for (const std::uint32_t call : calls_) {
      const std::string_view was = trace.name(call);
      const bool idle = was == "cudaStreamIsCapturing" || was == "cudaStreamGetCaptureInfo" ||
                        was.starts_with("cudaOccupancy") || was.starts_with("cudaFunc");
      if (!idle || turned == count) continue;
      trace.events.name[call] = trace.strings.intern(name);
      lengthen(call, by);
      ++turned;
    }
    return turned;
  }

  trace::Trace trace;

 private:
  std::vector<std::uint32_t> calls_;  // by start
};

class ColdFromSteady : public testing::TestWithParam<const char*> {
 protected:
  void expect_as_steady(const trace::Trace& cold, bool may_decline = true) {
    const Result<trace::Trace> steady = trace::load(std::string(FORETRACE_SOURCE_DIR "/data/") + GetParam());
    const Result<analysis::Baseline> before = analysis::make_baseline(*steady, std::nullopt, std::nullopt);
    ASSERT_TRUE(before) << before.error().message;
    const Result<analysis::Baseline> after = analysis::make_baseline(cold, std::nullopt, std::nullopt);
    if (!after && may_decline) {
      EXPECT_EQ(after.error().code, ErrorCode::kDeclined);
      return;
    }
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_GT(after->figures.startup.time(), 0);
    const auto truth = static_cast<double>(before->figures.replayed);
    EXPECT_NEAR(static_cast<double>(after->figures.replayed), truth, 0.25 * truth);
  }
};

TEST_P(ColdFromSteady, FirstLaunchesLoadTheirKernels) {
  ColdMaker maker(GetParam());
  maker.lengthen_first_launches(5 * kMs);
  expect_as_steady(maker.trace, false);
}

TEST_P(ColdFromSteady, TheAllocatorGrows) {
  ColdMaker maker(GetParam());
  maker.lengthen_first_launches(3 * kMs);
  maker.turn_calls_into("cudaMalloc", 12, 4 * kMs);
  expect_as_steady(maker.trace);
}

TEST_P(ColdFromSteady, TheContextIsCreated) {
  ColdMaker maker(GetParam());
  if (maker.turn_calls_into("cudaDeviceGetStreamPriorityRange", 1, 900 * kMs) == 0) GTEST_SKIP();
  expect_as_steady(maker.trace);
}

// Steps that the CPU bounds: on an idle GPU a late launch delays the kernel by as much.
INSTANTIATE_TEST_SUITE_P(Networks, ColdFromSteady,
                         testing::Values("h200-clean/mlp.base.json.gz", "h200-clean/swin_t@4.base.json.gz",
                                         "h200-clean/densenet121@8.base.json.gz",
                                         "h200-clean/efficientnet_b0@16.base.json.gz",
                                         "h200-clean/bert_base@4.base.json.gz"));

}  // namespace
}  // namespace foretrace::test
