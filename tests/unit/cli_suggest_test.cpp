#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/suggest.hpp"

namespace foretrace {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("summary", "summary"), 0u);
  EXPECT_EQ(edit_distance("sumary", "summary"), 1u);
  EXPECT_EQ(edit_distance("docotr", "doctor"), 1u);  // two neighbours swapped
  EXPECT_EQ(edit_distance("AMP", "amp"), 0u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(EditDistance, IsSymmetricAndBounded) {
  EXPECT_TRUE(rc::check("symmetric, at most the longer length, 0 only for equal words",
                        [](const std::string& a, const std::string& b) {
                          const std::size_t d = edit_distance(a, b);
                          RC_ASSERT(d == edit_distance(b, a));
                          RC_ASSERT(d <= std::max(a.size(), b.size()));
                          RC_ASSERT(edit_distance(a, a) == 0u);
                        }));
}

const std::vector<std::string> kNames{"doctor",     "summary",         "list",
                                      "completion", "fused-optimizer", "foreach-optimizer"};

TEST(ClosestMatch, FindsSlips) {
  EXPECT_EQ(closest_match("sumary", kNames), "summary");
  EXPECT_EQ(closest_match("Dcotor", kNames), "doctor");
  EXPECT_EQ(closest_match("fused_optimizer", kNames), "fused-optimizer");
  EXPECT_EQ(closest_match("lst", kNames), "list");
}

TEST(ClosestMatch, FindsUniqueBeginnings) {
  EXPECT_EQ(closest_match("comp", kNames), "completion");
  EXPECT_EQ(closest_match("f", kNames), std::nullopt);  // two begin so
}

TEST(ClosestMatch, StaysSilentWhenNothingIsClose) {
  EXPECT_EQ(closest_match("xyzzy", kNames), std::nullopt);
  EXPECT_EQ(closest_match("", kNames), std::nullopt);
  EXPECT_EQ(closest_match("x", {"y"}), std::nullopt);
  EXPECT_EQ(closest_match("a", {}), std::nullopt);
  EXPECT_EQ(closest_match(std::string(1 << 20, 'a'), kNames), std::nullopt);
}

TEST(DidYouMean, IsAQuestionOrNothing) {
  EXPECT_EQ(did_you_mean("sumary", kNames), "did you mean 'summary'?");
  EXPECT_EQ(did_you_mean("xyzzy", kNames), "");
}

}  // namespace
}  // namespace foretrace
