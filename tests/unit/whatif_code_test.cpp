// The line that switches a change on follows the parameters of the use.

#include <gtest/gtest.h>

#include <string>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {
namespace {

std::string code(std::string_view text, bool training = true) {
  const Result<Use> use = parse_use(text);
  EXPECT_TRUE(use) << text;
  if (!use) return {};
  const std::string line =
      use->whatif->code_for == nullptr ? std::string() : use->whatif->code_for(use->parameters, training);
  return line.empty() ? use->whatif->code : line;
}

bool has(const std::string& line, std::string_view part) { return line.find(part) != std::string::npos; }

TEST(Code, HalfTypeAndScaler) {
  EXPECT_TRUE(has(code("amp"), "torch.float16")) << code("amp");
  EXPECT_TRUE(has(code("amp"), "GradScaler"));
  EXPECT_TRUE(has(code("amp:dtype=bf16"), "torch.bfloat16"));
  EXPECT_FALSE(has(code("amp:dtype=bf16"), "GradScaler"));
  EXPECT_FALSE(has(code("amp", false), "GradScaler"));
  EXPECT_TRUE(has(code("amp:dtype=bf16", false), "inference_mode"));
}

TEST(Code, WithoutParametersItIsTheCatalogues) {
  for (const WhatIf& w : catalogue()) {
    if (w.name == "accumulate" || w.name == "compress-gradients" || w.name == "bucket") continue;  // they name a value
    if (!parse_use(w.name)) continue;  // a parameter must be given
    EXPECT_EQ(code(w.name), w.code) << w.name;
  }
}

TEST(Code, ValuesAppear) {
  EXPECT_TRUE(has(code("accumulate:n=4"), "chunk(4)"));
  EXPECT_TRUE(has(code("batch:x=2"), "batch_size=2 *"));
  EXPECT_TRUE(has(code("bucket:mb=50"), "bucket_cap_mb=50"));
  EXPECT_TRUE(has(code("ddp:bucket_mb=10"), "bucket_cap_mb=10"));
  EXPECT_TRUE(has(code("dataloader:workers=9"), "num_workers=9"));
  EXPECT_TRUE(has(code("dataloader:pin=0"), "pin_memory=False"));
  EXPECT_TRUE(has(code("compile:mode=max-autotune"), "mode='max-autotune'"));
  EXPECT_TRUE(has(code("compile:layers=a|b"), "for a and 1 more")) << code("compile:layers=a|b");
  EXPECT_TRUE(has(code("checkpoint:reentrant=1"), "True"));
  EXPECT_TRUE(has(code("checkpoint:layers=a"), "for a"));
  EXPECT_TRUE(has(code("compress-gradients:method=powersgd,rank=4"), "rank=4"));
  EXPECT_TRUE(has(code("compress-activations:bits=8"), "8_bits"));
  EXPECT_TRUE(has(code("fsdp:version=1"), "FullyShardedDataParallel"));
  EXPECT_TRUE(has(code("sequence:x=2"), "2 * max_length"));
}

}  // namespace
}  // namespace foretrace::whatif
