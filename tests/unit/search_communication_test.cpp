// Buckets of gradients on several workers, on a real step.

#include <gtest/gtest.h>

#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "search/communication.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::test {
namespace {

using search::Communication;
using search::Strategy;

class Workers : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<trace::Trace> loaded = trace::load(FORETRACE_SOURCE_DIR "/examples/resnet50-h200.json.gz");
    ASSERT_TRUE(loaded.has_value());
    shared_trace = new trace::Trace(std::move(*loaded));
    Result<analysis::Baseline> made = analysis::make_baseline(*shared_trace, std::nullopt, 71.6);
    ASSERT_TRUE(made.has_value());
    shared_base = new analysis::Baseline(std::move(*made));
  }
  static void TearDownTestSuite() {
    delete shared_base;
    delete shared_trace;
  }
  static Communication on(const char* fabric) {
    Communication c;
    c.workers = 16;
    c.fabric = fabric;
    c.first_bucket_mb = 1;
    return c;
  }
  static const whatif::Model& model() { return shared_base->model; }

  static trace::Trace* shared_trace;
  static analysis::Baseline* shared_base;
};
trace::Trace* Workers::shared_trace = nullptr;
analysis::Baseline* Workers::shared_base = nullptr;

// Costs moved between the reductions of single gradients stand for buckets.
TEST_F(Workers, JoinedGradientsAreWorthWhatTheirBucketIs) {
  const Communication c = on("10GbE");
  const auto network = search::network_of(c, model().device);
  ASSERT_TRUE(network.has_value());
  const auto step = search::tensor_step(model(), c, *network);
  ASSERT_TRUE(step.has_value()) << step.error().to_string();
  const auto gradients = whatif::find_gradients(model());
  ASSERT_EQ((*step)->problem.tensors.size(), gradients->list.size());
  for (const double mb : {1.0, 5.0, 25.0, 1000.0}) {
    whatif::Parallelism s;
    s.bucket_mb = mb;
    s.first_bucket_mb.reset();
    const auto bytes = static_cast<std::int64_t>(mb * (1 << 20));
    const whatif::BucketPlan buckets = whatif::pytorch_buckets(*gradients, bytes, bytes);
    whatif::Model changed = model();
    whatif::Draft draft(model().graph, model().trace);
    ASSERT_TRUE(
        whatif::apply_parallelism(changed, draft, s, {network->collectives.get(), c.workers, network->gpus_per_node}));
    const graph::Graph g = draft.commit();
    search::TensorPlan plan = separate((*step)->problem);
    std::size_t next = 0;
    for (const whatif::Bucket& b : buckets) {
      for (std::size_t i = 1; i < b.gradients.size(); ++i) plan.joined_with_previous[next + i] = 1;
      next += b.gradients.size();
    }
    search::TensorEvaluator evaluator((*step)->problem, true);
    const auto expected = static_cast<double>(simulate::simulate(g).step);
    EXPECT_NEAR(static_cast<double>(evaluator.evaluate(plan)), expected, 0.02 * expected) << mb << " MiB";
  }
}

TEST_F(Workers, ThePlanIsNoWorseThanAnySizeAndReadsBack) {
  for (const char* const fabric : {"10GbE", "100GbE-RDMA"}) {
    search::OptimizeOptions options;
    options.communication = on(fabric);
    options.evaluations = 40;
    options.only = {"fused-optimizer", "bucket"};
    const auto found = search::optimize(*shared_base, options);
    ASSERT_TRUE(found.has_value()) << found.error().to_string();
    EXPECT_LE(found->prediction.step, found->baseline);
    for (const double mb : {1.0, 5.0, 25.0, 100.0}) {
      Strategy s = found->best;
      s.communication->scheme = "ddp";
      s.communication->compression = "none";
      s.communication->buckets.clear();
      s.communication->first_bucket_mb.reset();
      s.communication->bucket_mb = mb;
      const whatif::Prediction p = search::predict_strategy(*shared_base, s, whatif::Detail::kStepOnly);
      EXPECT_LE(static_cast<double>(found->prediction.step), 1.006 * static_cast<double>(p.step)) << fabric << mb;
    }
    const auto read = search::parse_strategy(report::strategy_json(found->best), "file");
    ASSERT_TRUE(read.has_value()) << read.error().to_string();
    EXPECT_EQ(search::predict_strategy(*shared_base, *read).step, found->prediction.step);
  }
}

TEST_F(Workers, OnlyTheSizesAllowed) {
  search::OptimizeOptions options;
  options.communication = on("10GbE");
  options.evaluations = 20;
  options.only = {"fused-optimizer", "bucket"};
  options.bucket_sizes = {5, 100};
  const auto found = search::optimize(*shared_base, options);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->best.communication->buckets.empty());
  const double mb = found->best.communication->bucket_mb;
  EXPECT_TRUE(mb == 5 || mb == 100 || found->best.communication == options.communication) << mb;
  EXPECT_EQ(found->best.communication->compression, "none") << "which nobody allowed";
}

TEST_F(Workers, AnotherModelsBucketsAreDeclined) {
  Strategy s;
  s.communication = on("10GbE");
  s.communication->buckets = {{0, 3, 1.0, 1}};
  EXPECT_NE(search::predict_strategy(*shared_base, s).declined.find("hold 4 gradients"), std::string::npos);
}

}  // namespace
}  // namespace foretrace::test
