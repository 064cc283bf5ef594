// Buckets as PyTorch builds them, and N workers from one step.

#include <gtest/gtest.h>

#include <filesystem>

#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"
#include "trace/latencies.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::test {
namespace {

using hardware::FabricCollectives;
using whatif::Gradients;
using whatif::Parallelism;
using whatif::Scheme;

Gradients gradients_of(const std::vector<std::int64_t>& elements) {
  Gradients g;
  for (const std::int64_t n : elements) {
    g.list.push_back({.elements = n});
    g.elements += n;
  }
  return g;
}

std::vector<std::size_t> sizes(const whatif::BucketPlan& plan) {
  std::vector<std::size_t> s;
  for (const whatif::Bucket& b : plan) s.push_back(b.gradients.size());
  return s;
}

TEST(Buckets, CloseOnceTheyHoldTheirLimit) {
  const Gradients g = gradients_of({10, 10, 10, 10, 10, 1});  // 40 bytes each
  EXPECT_EQ(sizes(pytorch_buckets(g, 80, 80)), (std::vector<std::size_t>{2, 2, 2}));
  EXPECT_EQ(sizes(pytorch_buckets(g, 81, 1)), (std::vector<std::size_t>{1, 3, 2}));
  EXPECT_EQ(sizes(pytorch_buckets(g, 1 << 30, 1 << 30)), (std::vector<std::size_t>{6}));
}

std::filesystem::path ranks_folder() { return std::filesystem::path(FORETRACE_SOURCE_DIR) / "data" / "h200-ranks"; }

class Scale : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<trace::Trace> loaded = trace::load((ranks_folder() / "resnet50.mps.solo.w2.r0.json.gz").string());
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    trace_ = std::make_unique<trace::Trace>(std::move(*loaded));
    Result<analysis::Baseline> baseline = analysis::make_baseline(*trace_, std::nullopt, 67.73);
    ASSERT_TRUE(baseline) << baseline.error().to_string();
    baseline_ = std::make_unique<analysis::Baseline>(std::move(*baseline));
  }

  whatif::Prediction predict(const Parallelism& s, int workers, const char* fabric = "25GbE") {
    return predict_on(*hardware::find_fabric(fabric), s, workers);
  }

  whatif::Prediction predict_on(const hardware::Fabric& fabric, const Parallelism& how, int workers,
                                int gpus_per_node = 1) {
    std::vector<whatif::Use> uses;
    if (workers > 1) {
      uses.push_back(whatif::parallel_use(how, std::make_shared<FabricCollectives>(fabric), workers, gpus_per_node));
    }
    whatif::Prediction p = analysis::predict(*baseline_, uses);
    EXPECT_EQ(p.declined, "");
    return p;
  }

  std::unique_ptr<trace::Trace> trace_;
  std::unique_ptr<analysis::Baseline> baseline_;
};

TEST_F(Scale, FindsEveryParameterOfTheModel) {
  const Gradients g = *find_gradients(baseline_->model);
  EXPECT_EQ(g.list.size(), 161U);
  EXPECT_EQ(g.elements, 25'557'032);
}

TEST_F(Scale, BucketsEqualThoseOfTheDdpTrace) {
  // nelems of the four all-reduces in the recorded step with bucket_cap_mb=25.
  const Gradients g = *find_gradients(baseline_->model);
  const whatif::BucketPlan plan = pytorch_buckets(g, 25 << 20, 25 << 20);
  std::vector<std::int64_t> elements;
  for (const whatif::Bucket& b : plan) elements.push_back(b.bytes / 4);
  EXPECT_EQ(elements, (std::vector<std::int64_t>{7564264, 6563840, 7091712, 4337216}));
}

TEST_F(Scale, OneWorkerIsTheMeasuredStep) {
  const whatif::Prediction p = predict({}, 1);
  EXPECT_NEAR(static_cast<double>(p.step), 67.73e6, 1e3);
  EXPECT_EQ(p.exposed_communication, 0);
  EXPECT_NEAR(p.speedup, 1, 1e-4);
}

TEST_F(Scale, EverySchemeAnswersAndStaysAboveOneWorkersStep) {
  for (const std::string& name : whatif::scheme_names()) {
    Parallelism s;
    s.scheme = *whatif::parse_scheme(name);
    const whatif::Prediction p = predict(s, 16, "DGX-A100");
    EXPECT_GT(p.step, 65'000'000) << name;
    EXPECT_LE(p.low, p.step) << name;
    EXPECT_GE(p.high, p.step) << name;
    EXPECT_TRUE(graph::verify(p.graph)) << name;
  }
}

TEST_F(Scale, AFasterNetworkNeverTakesLonger) {
  Ns before = std::numeric_limits<Ns>::max();
  for (const char* fabric : {"10GbE", "25GbE", "HDR", "NDR"}) {
    const Ns step = predict({}, 8, fabric).step;
    EXPECT_LE(step, before) << fabric;
    before = step;
  }
}

TEST_F(Scale, ASlowWorkerHoldsAll) {
  Parallelism slow;
  slow.slow_worker = 1.5;
  EXPECT_GT(predict(slow, 8, "NDR").step, predict({}, 8, "NDR").step * 13 / 10);
}

TEST_F(Scale, AnExplicitPlanIsTaken) {
  const Gradients g = *find_gradients(baseline_->model);
  Parallelism s;
  for (const whatif::Bucket& b : pytorch_buckets(g, 5 << 20, 5 << 20)) {
    s.buckets.push_back({b.gradients.front(), b.gradients.back()});
  }
  Parallelism same;
  same.bucket_mb = 5;
  same.first_bucket_mb.reset();
  EXPECT_EQ(predict(s, 4).step, predict(same, 4).step);
  EXPECT_EQ(predict(s, 4).buckets, s.buckets.size());
}

TEST_F(Scale, PrioritiesGainMostWhereCommunicationEqualsComputation) {
  Parallelism fifo;
  fifo.scheme = Scheme::kP3;
  fifo.priorities = false;
  Parallelism p3;
  p3.scheme = Scheme::kP3;
  const auto gain = [&](double gbits) {
    hardware::Fabric f = *hardware::find_fabric("10GbE");
    f.levels[0] = {"net", hardware::LinkKind::kNetwork, gbits / 8, true, 1, 1, 0, false};
    const auto step = [&](const Parallelism& s) { return static_cast<double>(predict_on(f, s, 4).step); };
    return step(fifo) / step(p3);
  };
  const double slow = gain(0.5);
  const double middle = gain(16);
  const double fast = gain(1000);
  EXPECT_GT(middle, slow + 0.02);
  EXPECT_GT(middle, fast + 0.02);
  EXPECT_NEAR(slow, 1, 0.06);
  EXPECT_NEAR(fast, 1, 0.08);  // on a part of a GPU the order in which slices are sent still counts
}

// The graph holds the forward pass of the next step too; the GPU's time is that of one step.
TEST_F(Scale, PrioritiesAddNoWorkToTheGpuButTheServersSums) {
  Parallelism p3;
  p3.scheme = Scheme::kP3;
  const auto alone = static_cast<double>(predict({}, 1).gpu_time);
  EXPECT_NEAR(static_cast<double>(predict(p3, 4).gpu_time), alone, 0.03 * alone);
}

// A step that loads its batch on the main thread does so in front of its forward pass, whoever sends the gradients.
TEST(Schemes, WhatLiesInFrontOfTheForwardPassStaysInTheStep) {
  const std::filesystem::path data = std::filesystem::path(FORETRACE_SOURCE_DIR) / "data";
  Result<trace::Trace> loaded = trace::load((data / "h200-catalogue" / "resnet18.base.json.gz").string());
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  const Result<analysis::Baseline> baseline = analysis::make_baseline(*loaded, std::nullopt, std::nullopt);
  ASSERT_TRUE(baseline) << baseline.error().to_string();
  const auto collectives = std::make_shared<FabricCollectives>(*hardware::find_fabric("DGX-H100"));
  for (const std::string& name : whatif::scheme_names()) {
    Parallelism how;
    how.scheme = *whatif::parse_scheme(name);
    const whatif::Prediction p = analysis::predict(*baseline, {whatif::parallel_use(how, collectives, 16, 8)});
    EXPECT_EQ(p.declined, "") << name;
    EXPECT_LT(p.speedup, 1.01) << name;
  }
}

// A network of one level without latency, so that times are bytes over bandwidth.
hardware::Fabric plain_network(double gbs) {
  hardware::Fabric f;
  f.name = "plain";
  f.levels.push_back({"net", hardware::LinkKind::kNetwork, gbs, false, 1, 1e-9, 0, false});
  return f;
}

// Costs of the tasks of a name on lanes of the network, added up.
Ns total(const graph::Graph& g, std::string_view name) {
  Ns sum = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) sum += g.task_name(t) == name ? g.cost[t] : 0;
  return sum;
}

std::size_t count(const graph::Graph& g, std::string_view name) {
  std::size_t n = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) n += g.task_name(t) == name ? 1 : 0;
  return n;
}

class Servers : public Scale {
 protected:
  static constexpr double kGbs = 2;

  whatif::Prediction with(int workers, int servers, std::optional<double> slice_mb = {}) {
    Parallelism s;
    s.scheme = Scheme::kPs;
    s.servers = servers;
    s.slice_mb = slice_mb;
    return predict_on(plain_network(kGbs), s, workers);
  }
  double bytes() { return static_cast<double>(find_gradients(baseline_->model)->bytes()); }
};

TEST_F(Servers, OneServersLinkCarriesAllWorkersBytes) {
  for (const int n : {2, 8, 64}) {
    const whatif::Prediction p = with(n, 1);
    const double law = n * bytes() / kGbs;
    EXPECT_NEAR(static_cast<double>(total(p.graph, "push")) / law, 1, 1e-3) << n;
    EXPECT_NEAR(static_cast<double>(total(p.graph, "pull")) / law, 1, 1e-3) << n;
    EXPECT_GT(p.step, static_cast<Ns>(law));
  }
}

TEST_F(Servers, MoreServersShareTheLoadUntilTheWorkersOwnLinksAreFull) {
  const double whole = bytes() / kGbs;
  for (const int m : {1, 2, 4, 8, 16}) {
    const double law = std::max(8.0 / m, 1.0) * whole;
    EXPECT_NEAR(static_cast<double>(total(with(8, m).graph, "push")) / law, 1, 1e-3) << m;
  }
}

TEST_F(Servers, ServersOnAllWorkersMoveWhatARingMoves) {
  for (const int n : {2, 8, 64}) {
    const whatif::Prediction p = with(n, 0);
    const double ring = 2.0 * (n - 1) / n * bytes() / kGbs;
    EXPECT_NEAR(static_cast<double>(total(p.graph, "push") + total(p.graph, "pull")) / ring, 1, 1e-3) << n;
  }
}

TEST_F(Servers, SlicesLetPullsBeginBeforeTheBucketIsPushed) {
  const whatif::Prediction whole = with(8, 1);
  const whatif::Prediction sliced = with(8, 1, 1);
  EXPECT_LT(sliced.step, whole.step - 50'000'000);
  EXPECT_NEAR(static_cast<double>(total(sliced.graph, "push")), static_cast<double>(total(whole.graph, "push")),
              1e-3 * static_cast<double>(total(whole.graph, "push")));
  // Both directions full all the time: what is left is one direction's bytes and the last slice's way back.
  EXPECT_LT(static_cast<double>(sliced.step), 8 * bytes() / kGbs + 100e6);
}

TEST_F(Servers, TheFirstPushIsCopiedTheOthersAreAdded) {
  const whatif::Prediction p = with(8, 2);
  EXPECT_EQ(count(p.graph, "server: COPY_FIRST, SUM"), p.buckets);
  EXPECT_EQ(count(p.graph, "server: SUM of the last"), p.buckets);
  // Memory traffic of a server: a copy of its half and seven sums of it.
  // This rank had a half of the GPU, and of its memory's bandwidth.
  const hardware::Device& device = baseline_->model.device;
  const double gbs = device.streaming_gbs() * device.sm_count / hardware::find_device(device.name)->sm_count;
  const auto floor_ns = static_cast<double>(trace::default_latencies().short_kernel);  // of each of its eight kernels
  const double law = (2 + 7 * 3) * bytes() / 2 / gbs + 8 * floor_ns * static_cast<double>(p.buckets);
  const auto sums =
      static_cast<double>(total(p.graph, "server: COPY_FIRST, SUM") + total(p.graph, "server: SUM of the last"));
  EXPECT_NEAR(sums / law, 1, 1e-3);
}

TEST_F(Scale, RingStepsAddUpToTheCollective) {
  for (const int n : {2, 4, 8}) {
    Parallelism steps;
    steps.ring_steps = true;
    const whatif::Prediction whole = predict({}, n);
    const whatif::Prediction detailed = predict(steps, n);
    constexpr std::string_view kName = "all-reduce of a bucket";
    EXPECT_EQ(count(whole.graph, kName), whole.buckets);
    EXPECT_EQ(count(detailed.graph, kName), whole.buckets * 2 * (static_cast<std::size_t>(n) - 1)) << n;
    EXPECT_EQ(total(detailed.graph, kName), total(whole.graph, kName)) << n;
    EXPECT_NEAR(static_cast<double>(detailed.step), static_cast<double>(whole.step), 2e3) << n;
  }
}

TEST_F(Scale, RingStepsOfThousandsOfWorkersAreJoined) {
  Parallelism steps;
  steps.ring_steps = true;
  const whatif::Prediction p = predict(steps, 16384);
  EXPECT_LE(count(p.graph, "all-reduce of a bucket"), p.buckets * static_cast<std::size_t>(whatif::kMostSteps));
}

TEST_F(Scale, ManyPartsLeaveOnlyTheSlowestLevelOfBlueConnect) {
  hardware::Fabric f = plain_network(1);
  f.gpus_per_node = 4;
  f.levels.insert(f.levels.begin(), {"in", hardware::LinkKind::kPcie, 1, false, 1, 1e-9, 0, false});
  const auto step = [&](std::optional<double> slice_mb) {
    Parallelism s;
    s.scheme = Scheme::kBlueConnect;
    s.bucket_mb = 1000;
    s.first_bucket_mb.reset();
    s.slice_mb = slice_mb;
    return predict_on(f, s, 16, 4);
  };
  const whatif::Prediction whole = step({});
  const whatif::Prediction cut = step(1);
  const auto bytes = static_cast<double>(find_gradients(baseline_->model)->bytes());
  // One GB/s: 3/4 of the bytes twice inside, 2 * 3/4 of a quarter between. The two ways inside share the node's links.
  const double inside = 2 * 0.75 * bytes;
  const double between = 1.5 * bytes / 4;
  EXPECT_NEAR(static_cast<double>(whole.communication), inside + between, 0.02 * inside);
  EXPECT_NEAR(static_cast<double>(cut.communication), inside, 0.06 * inside);
}

// Said before the trace is read, whichever what-if names the cluster.
TEST(Cluster, WorkersThatDoNotFillTheirNodesAreRefused) {
  for (const char* text : {"ddp:workers=8,gpus_per_node=3", "bucket:mb=25,gpus_per_node=5", "zero3:gpus_per_node=6",
                           "compress-gradients:gpus_per_node=3", "ddp:workers=20000", "ddp:slow_worker=0.5",
                           "fsdp:collectives_tag=inside"}) {
    const Result<whatif::Use> use = whatif::parse_use(text);
    ASSERT_FALSE(use) << text;
    EXPECT_EQ(use.error().code, ErrorCode::kUsage) << text;
  }
  for (const char* text : {"ddp:workers=8,gpus_per_node=4", "ddp:workers=2,gpus_per_node=8", "ddp:workers=8"}) {
    EXPECT_TRUE(whatif::parse_use(text)) << text;
  }
}

// Swin's blocks lie in lists of lists, and one begins its backward before the last gradient of the one in front is there.
TEST(Sharded, UnitsWhoseBackwardPassesOverlap) {
  const auto trace = trace::load(FORETRACE_SOURCE_DIR "/data/h200-heldout/swin_t.base.json.gz");
  ASSERT_TRUE(trace);
  const auto baseline = analysis::make_baseline(*trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(baseline);
  for (const char* scheme : {"fsdp:workers=4", "zero3:workers=4"}) {
    const auto use = whatif::parse_use(scheme);
    ASSERT_TRUE(use) << scheme;
    EXPECT_EQ(analysis::predict(*baseline, {*use}).declined, "") << scheme;
  }
}

}  // namespace
}  // namespace foretrace::test
