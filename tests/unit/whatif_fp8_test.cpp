// Linear layers in FP8: which are converted, what each of them adds, and who cannot.

#include <gmock/gmock.h>

#include "measured_step.hpp"

namespace foretrace::whatif {
namespace {

using test::predicted;
using testing::HasSubstr;

constexpr const char* kLlama = "h200-lengths/llama_w4-today";
constexpr const char* kBert = "h200-lengths/bert_base-today";
constexpr const char* kVit = "h200-lengths/vit_b_16-today";

std::size_t tasks_called(const graph::Graph& g, std::string_view name) {
  std::size_t n = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) n += graph::is_gpu(g.kind[t]) && g.task_name(t) == name ? 1u : 0u;
  return n;
}

TEST(Fp8, EveryLinearLayerWhoseSizesAllowItCastsThreeTensors) {
  // Seven layers in each of four blocks, and the head of 32,000 words.
  EXPECT_EQ(tasks_called(predicted(kLlama, {"fp8"}).graph, "fp8 amax"), 3u * 29);
  // Six in each of twelve blocks and one in front of the decoder, whose 30,522 words are no multiple of 16.
  EXPECT_EQ(tasks_called(predicted(kBert, {"fp8"}).graph, "fp8 amax"), 3u * 73);
  // Two in each of twelve; projections inside nn.MultiheadAttention are no linear modules, and 1,000 classes no multiple of 16.
  EXPECT_EQ(tasks_called(predicted(kVit, {"fp8"}).graph, "fp8 amax"), 3u * 24);
}

TEST(Fp8, WithSeparateCastsNoLayerGainsWithFusedOnesLargeOnesDo) {
  const Prediction base = predicted(kLlama, {});
  const Prediction separate = predicted(kLlama, {"fp8"});
  const Prediction fused = predicted(kLlama, {"fp8:casts=fused"});
  const Prediction paying = predicted(kLlama, {"fp8:casts=fused,which=paying"});
  EXPECT_GT(separate.gpu_time, base.gpu_time);
  EXPECT_LT(fused.gpu_time, separate.gpu_time);
  ASSERT_EQ(paying.declined, "");
  EXPECT_LE(paying.gpu_time, base.gpu_time);
  EXPECT_TRUE(separate.validated);
  EXPECT_FALSE(fused.validated) << "nobody measured it";
  EXPECT_THAT(predicted(kBert, {"fp8:which=paying"}).declined, HasSubstr("none of the 73 linear layers gains"));
}

TEST(Fp8, LayersAreChosenByName) {
  const Prediction some = predicted(kLlama, {"fp8:layers=model.layers.0"});
  EXPECT_EQ(tasks_called(some.graph, "fp8 amax"), 3u * 7);
  EXPECT_THAT(predicted(kLlama, {"fp8:layers=no.such"}).declined,
              HasSubstr("no layer of this step is called 'no.such'"));
}

TEST(Fp8, KeepsLessForTheBackwardPass) {
  for (const char* name : {kLlama, kBert, kVit}) {
    const Prediction p = predicted(name, {"fp8"});
    EXPECT_LT(p.peak_parts->activations, predicted(name, {}).peak_parts->activations) << name;
  }
}

TEST(Fp8, DeclinesWithTheReason) {
  EXPECT_THAT(predicted(kLlama, {"gpu:to=A100-SXM4-80GB", "fp8"}).declined,
              HasSubstr("A100-SXM4-80GB has no tensor cores for FP8"));
  EXPECT_EQ(predicted(kLlama, {"gpu:to=H100-SXM5-80GB", "fp8"}).declined, "");
  EXPECT_THAT(predicted(kLlama, {"fp8", "fp8"}).declined, HasSubstr("already multiplies in FP8"));
  EXPECT_THAT(predicted("h200-clean/resnet50", {"fp8"}).declined, HasSubstr("multiples of 16"));
  EXPECT_THAT(predicted("h200-clean/unet@4-image", {"fp8"}).declined, HasSubstr("no linear layer"));
}

TEST(Fp8, FromFp32AndInStacks) {
  const Prediction plain = predicted("h200-clean/bert_base", {"fp8"});
  EXPECT_EQ(plain.declined, "") << "FP32 products become FP8 ones too";
  EXPECT_FALSE(plain.validated);
  EXPECT_TRUE(predicted("h200-clean/bert_base", {"amp:dtype=bf16", "fp8"}).validated);
  for (const char* other : {"batch:x=2", "sequence:x=2", "ddp", "no-sync"}) {
    EXPECT_EQ(predicted(kLlama, {"fp8", other}).declined, "") << other;
    EXPECT_EQ(predicted(kLlama, {other, "fp8"}).declined, "") << other;
  }
  const Prediction twice = predicted(kLlama, {"fp8", "batch:x=2"});
  const Prediction once = predicted(kLlama, {"fp8"});
  EXPECT_NEAR(static_cast<double>(twice.gpu_time) / static_cast<double>(once.gpu_time), 1.9, 0.15);
}

TEST(Fp8, NobodyIsAdvisedToUnasked) { EXPECT_TRUE((*find_whatif("fp8"))->advise.empty()); }

TEST(Fp8, DevicesThatMultiplyIt) {
  for (const hardware::Device& d : hardware::devices()) {
    if (d.name.starts_with("H100") || d.name.starts_with("H200") || d.name.starts_with("L4") ||
        d.name.starts_with("B200")) {
      EXPECT_TRUE(d.multiplies_fp8()) << d.name;
    }
    if (d.name.starts_with("A100") || d.name.starts_with("V100") || d.name.starts_with("T4")) {
      EXPECT_FALSE(d.multiplies_fp8()) << d.name;
    }
    const double half = d.tflops(work::Dtype::kBf16);
    EXPECT_DOUBLE_EQ(d.tflops(work::Dtype::kFp8), d.multiplies_fp8() ? 2 * half : half) << d.name;
  }
}

}  // namespace
}  // namespace foretrace::whatif
