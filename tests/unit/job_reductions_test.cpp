// Whether the all-reduces of a recorded job are its gradients, each once.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "whatif/job/reductions.hpp"

namespace foretrace::whatif {
namespace {

TEST(Reductions, OtherAllReducesAreNoNotablePart) {
  Gradients gradients;
  gradients.elements = 250'000;  // 1 MB
  const auto checked = [&](std::int64_t others) {
    return each_gradient_once(
               {{.task = 1, .bytes = 600'000}, {.task = 2, .bytes = 400'000}, {.task = 3, .bytes = others}}, gradients)
        .has_value();
  };
  EXPECT_TRUE(checked(4));
  EXPECT_TRUE(checked(90'000));
  EXPECT_FALSE(checked(110'000));
  EXPECT_FALSE(checked(1'000'000));  // each twice
}

TEST(Reductions, GradientsInAnotherTypeAreNotThose) {
  Gradients gradients;
  gradients.elements = 250'000;
  EXPECT_FALSE(each_gradient_once({{.task = 1, .bytes = 500'000}}, gradients));
  EXPECT_FALSE(each_gradient_once({}, gradients));
}

}  // namespace
}  // namespace foretrace::whatif
