// Start-up work in a step: what is recognised, what is taken out, and which step is chosen.

#include <gtest/gtest.h>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/doctor.hpp"
#include "graph/startup.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

constexpr Ns kMs = 1'000'000;
constexpr Ns kUs = 1'000;

// A step of 10 ms: a launch of 5 us every 0.5 ms, of a kernel of 0.2 ms, then a wait. Each kernel is launched twice.
class StepMaker {
 public:
  explicit StepMaker(TraceMaker& m) : m_(m) {}

  Ns at = 0;

  void begin() { begin_ = at; }
  void work(int pairs = 10) {
    for (int i = 0; i < 2 * pairs; ++i) launch(fmt::format("kernel{}", i / 2), 5 * kUs);
  }
  // The launch and the operation around it; the GPU idles meanwhile.
  void launch(const std::string& kernel, Ns takes, Ns stretch = 10 * kUs) {
    m_.op("aten::op", at, at + stretch + takes + 10 * kUs);
    m_.launch(++correlation_, {at + stretch, at + stretch + takes}, kernel,
              {at + stretch + takes + 2 * kUs, at + stretch + takes + 202 * kUs});
    at += stretch + takes + 485 * kUs;
  }
  void call(const std::string& name, Ns takes) {
    m_.call(name, {at, at + takes}, ++correlation_);
    at += takes;
  }
  void end(int number) {
    m_.step(number, begin_, at);
    at += 1 * kUs;
  }
  int correlation() { return ++correlation_; }

 private:
  TraceMaker& m_;
  Ns begin_ = 0;
  int correlation_ = 0;
};

struct Made {
  trace::Trace trace;
  trace::Steps steps;
  graph::GraphBuilder builder;
  explicit Made(const TraceMaker& m) : trace(m.load()), steps(trace::find_steps(trace)), builder(trace, steps) {}
  graph::Graph graph(std::size_t step = 0) const {
    Result<graph::Graph> built = builder.build(step);
    EXPECT_TRUE(built) << (built ? "" : built.error().message);
    return built ? std::move(*built) : graph::Graph();
  }
  Ns length(std::size_t step = 0) const { return simulate::steady_state(graph(step)).timeline.step; }
};

// One step with something in front of its work.
template <class Before>
Made step_with(Before before) {
  TraceMaker m;
  StepMaker s(m);
  s.begin();
  before(m, s);
  s.work();
  s.end(0);
  return Made(m);
}

Ns steady_length() {
  return step_with([](TraceMaker&, StepMaker&) {}).length();
}

TEST(Startup, SteadyStepIsNotCold) {
  const Made made = step_with([](TraceMaker&, StepMaker&) {});
  EXPECT_FALSE(made.builder.cold(0));
  EXPECT_EQ(made.graph().notes.startup.time(), 0);
  EXPECT_EQ(made.graph().recorded_steps.steps, 1U);
}

TEST(Startup, FirstLaunchTakesWhatLaterOnesTake) {
  const Made made = step_with([](TraceMaker&, StepMaker& s) { s.launch("kernel0", 30 * kMs); });
  ASSERT_TRUE(made.builder.cold(0));
  const graph::Graph graph = made.graph();
  EXPECT_EQ(graph.notes.startup.launches, 30 * kMs - 5 * kUs);
  EXPECT_NEAR(static_cast<double>(made.length()), static_cast<double>(steady_length()), 0.6 * kMs);  // one launch more
}

TEST(Startup, LaunchOfAKnownKernelIsNoStartup) {
  const Made made = step_with([](TraceMaker&, StepMaker& s) {
    s.launch("kernel0", 5 * kUs);
    s.launch("kernel0", 30 * kMs);
  });
  EXPECT_FALSE(made.builder.cold(0));
}

TEST(Startup, LaunchThatWaitsForABusyGpuIsNoStartup) {
  const Made made = step_with([](TraceMaker& m, StepMaker& s) {
    m.launch(s.correlation(), {s.at, s.at + 5 * kUs}, "long", {s.at + 10 * kUs, s.at + 31 * kMs});
    s.at += 20 * kUs;
    s.launch("kernel0", 30 * kMs);
  });
  EXPECT_FALSE(made.builder.cold(0));
}

// A tenth of the step decides, and only calls of more than 2 ms count.
TEST(Startup, SmallPartsAreLeftIn) {
  EXPECT_FALSE(step_with([](TraceMaker&, StepMaker& s) { s.call("cuModuleLoadData", 2 * kMs - kUs); }).builder.cold(0));
  EXPECT_TRUE(step_with([](TraceMaker&, StepMaker& s) { s.call("cuModuleLoadData", 2 * kMs + kUs); }).builder.cold(0));
  const auto long_step = [](Ns loading) {
    return step_with([&](TraceMaker&, StepMaker& s) {
      s.call("cuModuleLoadData", loading);
      s.work(20);
    });
  };
  EXPECT_FALSE(long_step(3 * kMs).builder.cold(0));
  EXPECT_TRUE(long_step(4 * kMs).builder.cold(0));
}

TEST(Startup, ContextsAndModulesGo) {
  const Made made = step_with([](TraceMaker&, StepMaker& s) {
    s.call("cudaDeviceGetStreamPriorityRange", 300 * kMs);
    s.call("cudaMalloc", 4 * kMs);
    s.call("cuLibraryLoadData", 7 * kMs);
    s.call("cudaFree", 3 * kMs);
  });
  ASSERT_TRUE(made.builder.cold(0));
  const graph::Startup& startup = made.graph().notes.startup;
  EXPECT_EQ(startup.loading, 307 * kMs);
  EXPECT_EQ(startup.allocation, 7 * kMs);
  EXPECT_NEAR(static_cast<double>(made.length()), static_cast<double>(steady_length()), 0.1 * kMs);
}

TEST(Startup, CallsThatWaitStay) {
  const Made made = step_with([](TraceMaker&, StepMaker& s) {
    s.call("cudaDeviceSynchronize", 30 * kMs);
    s.call("cudaMallocAsync", 3 * kMs);
  });
  EXPECT_EQ(made.graph().notes.startup.allocation, 0);
}

TEST(Startup, TrialsGoWithTheirKernels) {
  const Made made = step_with([](TraceMaker& m, StepMaker& s) {
    const Ns begin = s.at;
    for (int i = 0; i < 6; ++i) {
      m.launch(s.correlation(), {s.at, s.at + 5 * kUs}, fmt::format("algorithm{}", i),
               {s.at + 10 * kUs, s.at + 2 * kMs});
      s.at += 10 * kUs;
      s.call("cudaEventSynchronize", 2 * kMs);
    }
    m.launch(s.correlation(), {s.at, s.at + 5 * kUs}, "algorithm3", {s.at + 10 * kUs, s.at + kMs});
    s.at += 20 * kUs;
    m.op("aten::cudnn_convolution", begin, s.at);
  });
  ASSERT_TRUE(made.builder.cold(0));
  const graph::Graph graph = made.graph();
  std::size_t kernels = 0;
  for (std::size_t t = 0; t < graph.size(); ++t) kernels += graph.task_name(t).starts_with("algorithm") ? 1 : 0;
  EXPECT_EQ(kernels, 1U) << "the algorithm that was chosen";
  EXPECT_GT(graph.notes.startup.tuning, 0);
  EXPECT_NEAR(static_cast<double>(made.length()), static_cast<double>(steady_length()), 1.2 * kMs);
}

// A backward pass tries algorithms for two gradients, each time with events of its own, and then runs what it chose.
TEST(Startup, WhatIsChosenBetweenTrialsStays) {
  const Made made = step_with([](TraceMaker& m, StepMaker& s) {
    const Ns begin = s.at;
    for (const char* gradient : {"input", "weight"}) {
      s.call("cudaEventCreate", 2 * kUs);
      for (int i = 0; i < 4; ++i) {
        m.launch(s.correlation(), {s.at, s.at + 5 * kUs}, fmt::format("trial{}", i), {s.at + 10 * kUs, s.at + 2 * kMs});
        s.at += 10 * kUs;
        s.call("cudaEventSynchronize", 2 * kMs);
      }
      m.launch(s.correlation(), {s.at, s.at + 5 * kUs}, gradient, {s.at + 10 * kUs, s.at + 50 * kUs});
      s.at += 60 * kUs;
    }
    m.op("aten::convolution_backward", begin, s.at);
  });
  const graph::Graph graph = made.graph();
  std::string kernels;
  for (std::size_t t = 0; t < graph.size(); ++t) {
    const std::string_view name = graph.task_name(t);
    if (graph::is_gpu(graph.kind[t]) && !name.starts_with("kernel")) kernels += std::string(name) + " ";
  }
  EXPECT_EQ(kernels, "input weight ");
}

TEST(Startup, CompilingGoes) {
  const Made made = step_with([](TraceMaker& m, StepMaker& s) {
    m.range("_compile.compile_inner (dynamo_timed)", s.at, s.at + 900 * kMs);
    m.op("aten::empty", s.at + 100 * kMs, s.at + 101 * kMs);
    s.at += 900 * kMs;
  });
  ASSERT_TRUE(made.builder.cold(0));
  EXPECT_GT(made.graph().notes.startup.compiling, 890 * kMs);
  EXPECT_NEAR(static_cast<double>(made.length()), static_cast<double>(steady_length()), 0.1 * kMs);
}

TEST(Startup, OperationsAroundStartupCallsTakeWhatOthersTake) {
  const Made made = step_with([](TraceMaker&, StepMaker& s) { s.launch("kernel0", 30 * kMs, 50 * kMs); });
  ASSERT_TRUE(made.builder.cold(0));
  EXPECT_GT(made.graph().notes.startup.operations, 49 * kMs);
  EXPECT_NEAR(static_cast<double>(made.length()), static_cast<double>(steady_length()), 0.6 * kMs);
}

// Three steps of which the cold one is the median by length: another one is chosen.
TEST(Startup, ColdStepIsNotChosen) {
  TraceMaker m;
  StepMaker s(m);
  for (int i = 0; i < 3; ++i) {
    s.begin();
    if (i == 0) s.call("cuModuleLoadData", 20 * kMs);
    s.work(i == 2 ? 40 : 10);
    s.end(i);
  }
  const Made made(m);
  ASSERT_EQ(made.steps.median(), 0U);
  EXPECT_TRUE(made.builder.cold(0));
  EXPECT_FALSE(made.builder.cold(1));
  EXPECT_EQ(made.builder.median(), 1U);
  EXPECT_EQ(made.graph(1).recorded_steps.steps, 2U);
  const analysis::DoctorReport report = analysis::examine(made.trace, made.steps);
  EXPECT_EQ(report.find("cold_step"), nullptr);
  EXPECT_NE(report.find("cold_steps"), nullptr);
}

TEST(Startup, AllocatorOfEveryStepIsNoStartup) {
  TraceMaker m;
  StepMaker s(m);
  for (int i = 0; i < 3; ++i) {
    s.begin();
    s.call("hipMalloc", 5 * kMs);
    s.work();
    s.call("hipFree", 60 * kMs);
    s.end(i);
  }
  const Made made(m);
  EXPECT_FALSE(made.builder.cold(0));
  EXPECT_EQ(made.graph(1).notes.allocator, 65 * kMs);
  const analysis::DoctorReport report = analysis::examine(made.trace, made.steps);
  ASSERT_NE(report.find("allocator"), nullptr);
  EXPECT_NE(report.find("allocator")->remedy.find("expandable_segments"), std::string::npos);
  EXPECT_NE(report.verdict().find("allocate driver memory"), std::string::npos);
  // The calls are the program's: a CUDA graph leaves them where they are.
  const Result<analysis::Baseline> baseline = analysis::make_baseline(made.trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(baseline);
  const auto uses = analysis::parse_uses({"cuda-graph"});
  const whatif::Prediction p = analysis::predict(*baseline, *uses);
  ASSERT_TRUE(p.declined.empty()) << p.reason();
  EXPECT_GE(p.step, 65 * kMs);
}

// One step alone: memory that is only taken is the allocator growing, memory that is given back is not.
TEST(Startup, LoneStepThatFreesHasAllocatorTrouble) {
  const Made grows = step_with([](TraceMaker&, StepMaker& s) { s.call("cudaMalloc", 9 * kMs); });
  EXPECT_TRUE(grows.builder.cold(0));
  EXPECT_EQ(grows.graph().notes.allocator, 0);
  const Made frees = step_with([](TraceMaker&, StepMaker& s) {
    s.call("cudaFree", 5 * kMs);
    s.call("cudaMalloc", 4 * kMs);
  });
  EXPECT_FALSE(frees.builder.cold(0));
  EXPECT_EQ(frees.graph().notes.allocator, 9 * kMs);
}

// Long CPU time that nothing explains may be start-up, too: no prediction where that decides.
TEST(Startup, UnsureStepsAreDeclined) {
  const auto with_python = [](Ns python) {
    return step_with([&](TraceMaker& m, StepMaker& s) {
      s.call("cudaDeviceGetStreamPriorityRange", 300 * kMs);
      m.op("aten::uniform_", s.at, s.at + python);
      s.at += python;
    });
  };
  const Made little = with_python(3 * kMs), much = with_python(30 * kMs);
  const Result<analysis::Baseline> answered = analysis::make_baseline(little.trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->figures.startup.loading, 300 * kMs);
  EXPECT_NE(answered->figures.steadiness, "");
  EXPECT_EQ(analysis::examine(little.trace, little.steps).findings.front().name, "cold_step");
  const Result<analysis::Baseline> declined = analysis::make_baseline(much.trace, std::nullopt, std::nullopt);
  ASSERT_FALSE(declined);
  EXPECT_EQ(declined.error().code, ErrorCode::kDeclined);
  const analysis::DoctorReport report = analysis::examine(much.trace, much.steps);
  EXPECT_FALSE(report.predicts());
  EXPECT_NE(report.verdict().find("start-up"), std::string::npos) << report.verdict();
}

}  // namespace
}  // namespace foretrace::test
