// TF32 as PyTorch has it by default (convolutions) and as NVIDIA's containers have it (products too).

#include <gtest/gtest.h>

#include "measured_step.hpp"

namespace foretrace::whatif {
namespace {

using test::predicted;

constexpr const char* kResnet = "h200-clean/resnet50.base";

TEST(Tf32, WhatChangesCanBeChosen) {
  const Prediction strict = predicted(kResnet, {});
  const Prediction both = predicted(kResnet, {"tf32"});
  const Prediction convolutions = predicted(kResnet, {"tf32:only=convolutions"});
  const Prediction products = predicted(kResnet, {"tf32:only=products"});
  ASSERT_EQ(convolutions.declined + products.declined + both.declined, "");
  EXPECT_LT(both.gpu_time, convolutions.gpu_time);
  EXPECT_LT(convolutions.gpu_time, products.gpu_time);
  EXPECT_LT(products.gpu_time, strict.gpu_time);
}

TEST(Tf32, WithoutConvolutionsTheDefaultOfPyTorchChangesNothing) {
  const Prediction p = predicted("h200-more/bert_l8.base", {"tf32:only=convolutions"});
  EXPECT_EQ(p.declined, "tf32: no convolution runs in strict FP32");
  EXPECT_EQ(predicted("h200-more/bert_l8.base", {"tf32:only=products"}).gpu_time,
            predicted("h200-more/bert_l8.base", {"tf32"}).gpu_time);
}

}  // namespace
}  // namespace foretrace::whatif
