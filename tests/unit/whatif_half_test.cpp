// Weights in half precision: no casts but the program's own, half the memory of what is half, and an update that moves half the bytes.

#include <gtest/gtest.h>

#include "measured_step.hpp"
#include "whatif/rewrite/half_program.hpp"

namespace foretrace::whatif {
namespace {

using test::predicted;

constexpr const char* kLlama = "h200-more/llama_w4.base";
constexpr const char* kLists =
    "h200-heldout/llama_gqa.base";  // its update runs over lists of tensors, whose shapes were not recorded
constexpr const char* kGpt2 = "h200-clean/gpt2.base";
constexpr const char* kVit = "h200-more/vit_b_16.base";

TEST(Half, IsFasterThanAutocastAndTakesLessMemory) {
  for (const char* trace : {kLlama, kVit}) {
    const Prediction base = predicted(trace, {});
    const Prediction amp = predicted(trace, {"amp:dtype=bf16"});
    const Prediction half = predicted(trace, {"half"});
    ASSERT_EQ(half.declined, "");
    EXPECT_LT(half.gpu_time, amp.gpu_time) << trace;  // nothing is cast
    EXPECT_LT(half.graph.size(), amp.graph.size()) << trace;
    EXPECT_FALSE(half.validated);
    if (!base.peak_bytes) continue;
    // Llama's softmax and logits stay FP32: 77 % of the memory, as measured on llama_gqa.
    const double part = static_cast<double>(*half.peak_bytes) / static_cast<double>(*base.peak_bytes);
    EXPECT_LT(part, trace == kVit ? 0.6 : 0.8) << trace;
    EXPECT_LT(*half.peak_bytes, *amp.peak_bytes) << trace;
  }
}

// Time of the GPU tasks that `chosen` names by phase and name.
template <class Chosen>
double gpu_time(const Prediction& p, const Chosen& chosen) {
  Ns sum = 0;
  for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
    if (graph::is_gpu(p.graph.kind[t]) && chosen(p.graph.phase[t], p.graph.task_name(t))) sum += p.graph.cost[t];
  }
  return static_cast<double>(sum);
}

TEST(Half, TheUpdateMovesHalfTheBytesToo) {
  const auto update = [](const Prediction& p) {
    return gpu_time(p, [](Phase phase, std::string_view /*name*/) { return phase == Phase::kOptimizer; });
  };
  for (const char* trace : {kLlama, kLists}) {
    const double before = update(predicted(trace, {}));
    ASSERT_GT(before, 0);
    EXPECT_LT(update(predicted(trace, {"half"})), 0.8 * before) << trace;
    EXPECT_NEAR(update(predicted(trace, {"amp:dtype=bf16"})), before, 0.02 * before) << trace;
  }
}

struct Conversions {
  std::size_t to_float = 0, to_half = 0;
};
Conversions conversions(const char* trace, work::Dtype dtype) {
  const std::shared_ptr<const Dataflow> flow = shared_flow(test::measured_step(trace).model);
  Conversions found;
  for (const AutocastUnit& u : half_program(*flow, dtype, HalfParameters::kKept).units) {
    for (const Cast& c : u.casts) ++(c.to_float ? found.to_float : found.to_half);
  }
  return found;
}

// Six layers: two norms each and one behind them, six softmaxes; the logits lead to the loss and stay FP32.
TEST(Half, WhatTheProgramConvertsToFloatStaysFloat) {
  const Conversions bf16 = conversions(kLists, work::Dtype::kBf16);
  EXPECT_EQ(bf16.to_half, 6U * 3 + 1);
  EXPECT_EQ(bf16.to_float, bf16.to_half + 1);
  // The softmax kernel reads fp16 itself.
  EXPECT_EQ(conversions(kLists, work::Dtype::kFp16).to_float, bf16.to_float - 6);
}

// Its softmax is followed by a conversion to the values' type, which changes nothing: only the logits are converted.
TEST(Half, AConversionThatLeadsToAProductChangesNothing) {
  const Conversions found = conversions(kGpt2, work::Dtype::kBf16);
  EXPECT_EQ(found.to_float, 1U);
  EXPECT_EQ(found.to_half, 0U);
}

// Measured in processes of their own (data/h200-changes): 9.28 and 7.02 GB, 37.7 and 28.8 ms of GPU work.
TEST(Half, MemoryAndTimeOfConvertedTensorsCount) {
  const Prediction llama = predicted(kLists, {"half"});
  EXPECT_NEAR(static_cast<double>(*llama.peak_bytes), 9.283e9, 0.05 * 9.283e9);
  EXPECT_NEAR(static_cast<double>(llama.gpu_time), 37.75e6, 0.05 * 37.75e6);
  const Prediction gpt2 = predicted(kGpt2, {"half"});
  EXPECT_NEAR(static_cast<double>(*gpt2.peak_bytes), 7.025e9, 0.02 * 7.025e9);
  EXPECT_NEAR(static_cast<double>(gpt2.gpu_time), 28.8e6, 0.05 * 28.8e6);
}

// FSDP that gathers parameters in bf16 computes the same, and keeps FP32 parameters for the update.
TEST(Half, FsdpInBf16KeepsWhatTheProgramConverts) {
  const auto casts = [](const Prediction& p) {
    std::size_t n = 0;
    for (std::uint32_t t = 0; t < p.graph.size(); ++t)
      n += graph::is_gpu(p.graph.kind[t]) && p.graph.task_name(t) == "cast" ? 1 : 0;
    return n;
  };
  const Prediction sharded = predicted(kLists, {"fsdp:workers=8,fabric=DGX-H100,param_dtype=bf16"});
  ASSERT_EQ(sharded.declined, "");
  EXPECT_EQ(casts(sharded), casts(predicted(kLists, {"half"})));
  EXPECT_GT(casts(sharded), 39U);
}

// FP32 attention writes (batch, row, head, channel); cuDNN's for half keeps its operands' order, and nothing is copied for it: of 190
// copies in ViT's passes 110 are left, as measured.
TEST(Half, NothingIsCopiedForAttention) {
  const auto copies = [](const Prediction& p) {
    std::size_t n = 0;
    for (std::uint32_t t = 0; t < p.graph.size(); ++t)
      n += p.graph.task_name(t).find(
               "elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel") !=
                   std::string_view::npos
               ? 1U
               : 0U;
    return n;
  };
  EXPECT_NEAR(static_cast<double>(copies(predicted(kVit, {"half"}))), 110, 2);
}

}  // namespace
}  // namespace foretrace::whatif
