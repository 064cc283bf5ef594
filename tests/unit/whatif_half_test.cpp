// Weights in half precision: no casts, half the memory, and an update that moves half the bytes.

#include <gtest/gtest.h>

#include "measured_step.hpp"

namespace foretrace::whatif {
namespace {

using test::predicted;

constexpr const char* kLlama = "h200-more/llama_w4.base";
constexpr const char* kVit = "h200-more/vit_b_16.base";

TEST(Half, IsFasterThanAutocastAndTakesHalfTheMemory) {
  for (const char* trace : {kLlama, kVit}) {
    const Prediction base = predicted(trace, {});
    const Prediction amp = predicted(trace, {"amp:dtype=bf16"});
    const Prediction half = predicted(trace, {"half"});
    ASSERT_EQ(half.declined, "");
    EXPECT_LT(half.gpu_time, amp.gpu_time) << trace;  // nothing is cast
    EXPECT_LT(half.graph.size(), amp.graph.size()) << trace;
    EXPECT_FALSE(half.validated);
    if (!base.peak_bytes) continue;
    EXPECT_LT(static_cast<double>(*half.peak_bytes), 0.6 * static_cast<double>(*base.peak_bytes)) << trace;
    EXPECT_LT(*half.peak_bytes, *amp.peak_bytes) << trace;
  }
}

TEST(Half, TheUpdateMovesHalfTheBytesToo) {
  const auto update = [](const Prediction& p) {
    Ns sum = 0;
    for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
      if (graph::is_gpu(p.graph.kind[t]) && p.graph.phase[t] == Phase::kOptimizer) sum += p.graph.cost[t];
    }
    return static_cast<double>(sum);
  };
  const double before = update(predicted(kLlama, {}));
  ASSERT_GT(before, 0);
  EXPECT_LT(update(predicted(kLlama, {"half"})), 0.8 * before);
  EXPECT_NEAR(update(predicted(kLlama, {"amp:dtype=bf16"})), before, 0.02 * before);
}

}  // namespace
}  // namespace foretrace::whatif
