// The order in which GPUs come out for named workloads: docs/internals/gpus.md states it with its reasons.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "foretrace/analysis/gpus.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace {
namespace {

struct Order {
  const char* trace;
  std::vector<std::string> whatifs;
  std::vector<std::string> fastest_first;
};

void holds(const Order& order) {
  const auto trace = trace::load(std::string(FORETRACE_SOURCE_DIR) + "/" + order.trace);
  ASSERT_TRUE(trace) << order.trace;
  Result<analysis::Baseline> base = analysis::make_baseline(*trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(base);
  const Result<analysis::GpusReport> r =
      analysis::compare_gpus(std::move(*base), {.targets = order.fastest_first, .whatifs = order.whatifs});
  ASSERT_TRUE(r) << r.error().to_string();
  // By the GPU's own time: a step that waits for its CPU is as slow on all of them.
  Ns before = 0;
  for (const std::string& name : order.fastest_first) {
    for (const analysis::GpuPrediction& g : r->predictions) {
      if (g.device.name != name) continue;
      ASSERT_EQ(g.prediction.declined, "");
      EXPECT_GT(g.prediction.gpu_time, before) << name << " comes out before the one that should lead it";
      before = g.prediction.gpu_time;
    }
  }
}

TEST(GpuOrder, Resnet50InMixedPrecision) {
  holds({"examples/resnet50-h200.json.gz",
         {"amp", "batch:x=0.5"},
         {"RTX-4090", "RTX-4080", "RTX-3090", "RTX-4070-Ti", "RTX-3080"}});
  holds(
      {"examples/resnet50-h200.json.gz", {"amp"}, {"H200-SXM", "H100-SXM5", "A100-SXM4-80GB", "V100-SXM2-32GB", "T4"}});
  holds({"examples/resnet50-h200.json.gz", {"amp"}, {"RTX-4090", "RTX-4080", "RTX-3090"}});
}

TEST(GpuOrder, TransformersInBf16) {
  holds({"data/h200-more/llama_w4.amp.json.gz",
         {},
         {"B200", "H200-SXM", "H100-SXM5", "A100-SXM4-80GB", "A100-SXM4-40GB"}});
  holds({"data/h200-more/bert_l8.base.json.gz",
         {"amp:dtype=bf16"},
         {"H100-SXM5", "A100-SXM4-80GB", "L40S", "RTX-6000-Ada", "A10", "L4"}});
  holds({"data/h200-more/llama_w4.amp.json.gz", {}, {"B200", "H200-SXM", "MI300X", "A100-SXM4-80GB"}});
  holds({"data/h200-decoders/llama8b@1x4096.json.gz", {}, {"H200-SXM", "MI300X"}});
}

// Weights in bf16, without autocast: recorded so, and as a what-if of the step in FP32.
TEST(GpuOrder, DecodersWithWeightsInBf16) {
  const std::vector<std::string> order = {"B200", "H200-SXM",  "H100-SXM5", "A100-SXM4-80GB",
                                          "L40S", "RTX-A6000", "A10"};
  holds({"data/h200-decoders/llama8b@1x4096.json.gz", {}, order});
  holds({"data/h200-heldout/llama_gqa.base.json.gz", {"half"}, order});
}

}  // namespace
}  // namespace foretrace
