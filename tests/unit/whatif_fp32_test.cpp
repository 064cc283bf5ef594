// The way back from TF32 and, for a compiled program, from half precision, compared with steps measured there.

#include <gmock/gmock.h>

#include <algorithm>

#include "measured_step.hpp"

namespace foretrace::whatif {
namespace {

using test::predicted;
using test::step_at;
using ::testing::HasSubstr;

const Model& jax_step(const char* name) {
  return step_at(std::string("data/h200-jax/") + name + ".xplane.pb.gz").model;
}

double gpu_ms(const Prediction& p) { return static_cast<double>(p.gpu_time) / 1e6; }

TEST(FullPrecision, ProductsInStrictFp32) {
  const Prediction p = predicted("h200-more/llama_w4.tf32", {"fp32"});
  ASSERT_EQ(p.declined, "");
  EXPECT_NEAR(gpu_ms(p), 296.7, 0.05 * 296.7);
  EXPECT_EQ(p.peak_bytes, predicted("h200-more/llama_w4.tf32", {}).peak_bytes);  // tensors are FP32 in both
}

TEST(FullPrecision, ACompiledProgramWithoutHalf) {
  const Model& bf16 = jax_step("transformer.bf16.b8");
  const Prediction tf32 = predicted(bf16, {"fp32:products=tf32"});
  ASSERT_EQ(tf32.declined, "");
  EXPECT_NEAR(gpu_ms(tf32), 8.5, 0.1 * 8.5);
  const Prediction fp32 = predicted(bf16, {"fp32"});
  EXPECT_NEAR(gpu_ms(fp32), 27.6, 0.1 * 27.6);
  // Conversions are gone, and the update is as it was.
  EXPECT_LT(tf32.graph.size(), predicted(bf16, {}).graph.size());
  const auto update = [](const Prediction& p) {
    Ns sum = 0;
    for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
      if (graph::is_gpu(p.graph.kind[t]) && p.graph.phase[t] == Phase::kOptimizer) sum += p.graph.cost[t];
    }
    return sum;
  };
  EXPECT_EQ(update(tf32), update(predicted(bf16, {})));
  // 3.56 GB, as the program in TF32 has it; its buffers are not all twice as large.
  EXPECT_NEAR(static_cast<double>(*tf32.peak_bytes), 3.56e9, 0.15 * 3.56e9);
}

// Another precision and back: near where it began.
TEST(FullPrecision, ThereAndBack) {
  const double strict = gpu_ms(predicted("h200-more/llama_w4.base", {}));
  EXPECT_NEAR(gpu_ms(predicted("h200-more/llama_w4.base", {"tf32", "fp32"})), strict, 0.02 * strict);
  const Model& tf32 = jax_step("transformer.tf32.b8");
  const Prediction before = predicted(tf32, {});
  const Prediction back = predicted(tf32, {"amp:dtype=bf16", "fp32:products=tf32"});
  EXPECT_NEAR(gpu_ms(back), gpu_ms(before), 0.05 * gpu_ms(before));
  EXPECT_NEAR(static_cast<double>(*back.peak_bytes), static_cast<double>(*before.peak_bytes), 1e7);
  const auto kernels = [](const Prediction& p) {
    return std::count_if(p.graph.kind.begin(), p.graph.kind.end(), [](graph::TaskKind k) { return graph::is_gpu(k); });
  };
  EXPECT_EQ(kernels(back), kernels(before));  // the casts that came are gone
}

TEST(FullPrecision, DeclinesWhatItCannotUndo) {
  EXPECT_THAT(predicted("h200-more/llama_w4.amp", {"fp32"}).declined, HasSubstr("the program decides"));
  EXPECT_THAT(predicted("h200-more/llama_w4.base", {"fp32"}).declined, HasSubstr("already has that precision"));
  EXPECT_THAT(predicted("h200-more/llama_w4.tf32", {"fp32:products=tf32"}).declined,
              HasSubstr("already has that precision"));
}

}  // namespace
}  // namespace foretrace::whatif
