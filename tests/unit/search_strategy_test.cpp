#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/search/optimize.hpp"

namespace foretrace::test {
namespace {

using search::parse_strategy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Strategy, WhatIfsAsObjectsAndAsText) {
  const auto s = parse_strategy(R"({"schema": 1, "whatifs": ["fused-optimizer",
      {"whatif": "checkpoint", "layers": ["encoder.layer.0", "encoder.layer.1"]},
      {"whatif": "accumulate", "n": 2}, {"whatif": "duration", "select": "a,b", "x": 0.5}]})",
                                "s.json");
  ASSERT_TRUE(s.has_value()) << s.error().to_string();
  EXPECT_THAT(s->whatifs, ElementsAre("fused-optimizer", "checkpoint:layers=encoder.layer.0|encoder.layer.1",
                                      "accumulate:n=2", "duration:select='a,b',x=0.5"));
  const auto uses = uses_of(*s);
  ASSERT_TRUE(uses.has_value());
  EXPECT_EQ((*uses)[3].parameters.text("select"), "a,b");
  EXPECT_FALSE(s->communication.has_value());
}

TEST(Strategy, Communication) {
  const auto s = parse_strategy(R"({"communication": {"workers": 16, "fabric": "10GbE", "scheme": "ddp",
      "buckets": [{"gradients": [0, 41], "mb": 25.3, "partitions": 2}, {"gradients": [42, 160]}]}})",
                                "s.json");
  ASSERT_TRUE(s.has_value()) << s.error().to_string();
  ASSERT_TRUE(s->communication.has_value());
  EXPECT_EQ(s->communication->workers, 16);
  EXPECT_EQ(s->communication->buckets[1].last, 160U);
  EXPECT_EQ(s->communication->buckets[0].partitions, 2);
  EXPECT_EQ(describe(*s), "ddp in 2 buckets");
}

TEST(Strategy, ErrorsNameThePlace) {
  const auto message = [](std::string_view text) {
    const auto s = parse_strategy(text, "s.json");
    return s ? std::string("accepted") : s.error().to_string();
  };
  EXPECT_THAT(message("{"), HasSubstr("s.json: this is not JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("JSON object"));
  EXPECT_THAT(message(R"({"whatif": []})"), HasSubstr("did you mean 'whatifs'?"));
  EXPECT_THAT(message(R"({"whatifs": ["ampp"]})"), HasSubstr("no what-if named 'ampp'"));
  EXPECT_THAT(message(R"({"whatifs": [{"n": 2}]})"), HasSubstr("needs its name"));
  EXPECT_THAT(message(R"({"schema": 2})"), HasSubstr("must be 1"));
  EXPECT_THAT(message(R"({"communication": {"workers": 0}})"), HasSubstr("from 1 up"));
  EXPECT_THAT(message(R"({"communication": {"buckets": [{"gradients": [1, 2]}]}})"),
              HasSubstr("gradient 0 is missing"));
  EXPECT_THAT(message(R"({"communication": {"buckets": [{"gradients": [3, 2]}]}})"), HasSubstr("before its first"));
  EXPECT_THAT(message(R"({"communication": {"buckets": [{"gradients": [0]}]}})"), HasSubstr("first and the last"));
}

}  // namespace
}  // namespace foretrace::test
