// Sizes no tensor and no memory has: a damaged file may state them, and they must end in large numbers or in "not known", never in
// an overflow. The sanitizers watch these tests.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/saturate.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/memory/memory.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "sweep/uses.hpp"
#include "trace/tensor_size.hpp"
#include "trace_maker.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::test {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 40;

TEST(Saturate, CountsEndAtTheLargest) {
  EXPECT_EQ(saturated_product(3, -4), -12);
  EXPECT_EQ(saturated_product(kHuge, kHuge), kMostCounted);
  EXPECT_EQ(saturated_product(kHuge, -kHuge), -kMostCounted);
  EXPECT_EQ(saturated_product(INT64_MIN, INT64_MIN), kMostCounted);
  EXPECT_EQ(saturated_product({kHuge, kHuge, 0}), 0);
  EXPECT_EQ(saturated_sum(INT64_MAX, INT64_MAX), kMostCounted);
  EXPECT_EQ(saturated_sum(INT64_MIN, 5), -kMostCounted + 5);
  EXPECT_EQ(saturated(1e300), kMostCounted);
  EXPECT_EQ(saturated(-1e300), -kMostCounted);
  EXPECT_EQ(saturated(-2.7), -2);
}

TEST(Saturate, ShapesThatCannotBe) {
  EXPECT_TRUE(trace::possible_shape({}));
  EXPECT_TRUE(trace::possible_shape({1024, 0, 1 << 20}));
  EXPECT_TRUE(trace::possible_shape({kHuge}));
  EXPECT_FALSE(trace::possible_shape({kHuge, 2}));
  EXPECT_FALSE(trace::possible_shape({0, kHuge, kHuge}));
  EXPECT_FALSE(trace::possible_shape({-1, 4}));
  EXPECT_EQ(trace::elements_of({kHuge, kHuge}), kMostCounted);
  EXPECT_EQ(trace::parse_shapes("[[2,3],[1099511627776,1099511627776],[-5]]"),
            (std::vector<std::vector<std::int64_t>>{{2, 3}, {}, {}}));
}

// Operations of every family that counts something, each with these sizes.
std::string operations(std::string_view size) {
  TraceMaker m;
  Ns at = 10'000;
  Ns gpu = 100'000;
  int id = 0;
  const auto add = [&](std::string_view name, std::string_view dims, std::string_view types, std::string_view values) {
    m.launch(++id, {at + 1'000, at + 4'000}, fmt::format("kernel of {}", name), {gpu, gpu + 4'000});
    m.event("cpu_op", name, 1, 1, {at, at + 6'000},
            fmt::format(R"("Input Dims":{},"Input type":{},"Concrete Inputs":{})", dims, types, values));
    at += 10'000;
    gpu += 12'000;
  };
  const auto tensor = [&](int rank) {
    std::string out;
    for (int i = 0; i < rank; ++i) out += fmt::format("{}{}", i == 0 ? "" : ",", size);
    return "[" + out + "]";
  };
  const std::string lists = fmt::format(R"("[{0}, {0}]")", size);
  const std::string pair = fmt::format("[{},{}]", tensor(2), tensor(2));
  add("aten::mm", pair, R"(["float","float"])", R"(["",""])");
  add("aten::bmm", fmt::format("[{0},{0}]", tensor(3)), R"(["float","float"])", R"(["",""])");
  add("aten::mm", fmt::format("[[{0},1],[1,{0}]]", size), R"(["float","float"])", R"(["",""])");
  add("aten::linear", fmt::format("[{},{}]", tensor(4), tensor(2)), R"(["float","float"])", R"(["",""])");
  add("aten::cudnn_convolution", "[[2,3,8,8],[4,3,3,3],[],[],[],[]]",
      R"(["float","float","ScalarList","ScalarList","ScalarList","Scalar"])",
      fmt::format(R"(["","",{0},{0},{0},"{1}"])", lists, size));
  add("aten::cudnn_convolution", fmt::format("[{0},{0},[],[],[],[]]", tensor(4)),
      R"(["float","float","ScalarList","ScalarList","ScalarList","Scalar"])",
      R"(["","","[1, 1]","[1, 1]","[1, 1]","1"])");
  add("aten::max_pool2d_with_indices", "[[2,3,8,8],[],[],[],[],[]]",
      R"(["float","ScalarList","ScalarList","ScalarList","ScalarList","Scalar"])",
      fmt::format(R"(["",{0},{0},{0},{0},"False"])", lists));
  add("aten::embedding", fmt::format("[[1099511627776,1],{}]", tensor(1)), R"(["float","long int"])", R"(["",""])");
  add("aten::_cudnn_rnn", "[[2,3,4],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]",
      R"(["float","TensorList","Scalar","","float","float","Scalar","Scalar","Scalar","Scalar","Scalar","Scalar","Scalar","Scalar",""])",
      fmt::format(R"(["","","","","","","2","{0}","0","{0}","False","0.","True","True",""])", size));
  add("aten::_scaled_dot_product_flash_attention", fmt::format("[{0},{0},{0}]", tensor(4)),
      R"(["c10::Half","c10::Half","c10::Half"])", R"(["","",""])");
  add("aten::add", pair, R"(["float","float"])", R"(["",""])");
  add("aten::view", fmt::format("[{},[]]", tensor(2)), R"(["float","ScalarList"])", fmt::format(R"(["",{}])", lists));
  add("aten::sum", fmt::format("[{},[]]", tensor(3)), R"(["float","ScalarList"])", fmt::format(R"(["",{}])", lists));
  add("aten::_foreach_add_", fmt::format("[[{0},{0},{0}],[{0},{0},{0}]]", tensor(2)), R"(["TensorList","TensorList"])",
      R"(["",""])");
  m.step(1, 0, gpu + 10'000);
  return m.json();
}

class HostileSizes : public testing::TestWithParam<const char*> {};

TEST_P(HostileSizes, EveryWhatIfAnswersOrSaysWhyNot) {
  const Result<trace::Trace> trace = trace::load_bytes(operations(GetParam()), "made.json", {});
  ASSERT_TRUE(trace) << trace.error().to_string();
  Result<analysis::Baseline> baseline = analysis::make_baseline(*trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(baseline) << baseline.error().to_string();
  for (const std::string& text : sweep::every_use()) {
    const whatif::Prediction p = whatif::predict(baseline->model, {sweep::parsed(text)}, std::nullopt);
    EXPECT_GE(p.step, 0) << text;
    EXPECT_TRUE(p.declined.empty() || p.declined.find("not sound") == std::string::npos) << text << p.declined;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostileSizes,
                         testing::Values("0", "-1", "1048576", "1099511627776", "9223372036854775807",
                                         "-9223372036854775808", "99999999999999999999999999"));

TEST(HostileSizes, MemoryThatNoGpuHas) {
  TraceMaker m;
  m.step(1, 0, 100'000).launch(1, {1'000, 4'000}, "kernel", {6'000, 90'000});
  const char* const sizes[] = {"9223372036854775807", "-9223372036854775808", "4611686018427387904"};
  Ns at = 5'000;
  for (int round = 0; round < 40; ++round) {
    for (const char* bytes : sizes) {
      m.event("cpu_instant_event", "[memory]", 1, 1, {at, at},
              fmt::format(R"("Total Allocated":{},"Bytes":{},"Addr":{},"Device Type":1,"Device Id":0)",
                          sizes[round % 3], bytes, round));
      at += 500;
    }
  }
  const Result<trace::Trace> trace = trace::load_bytes(m.json(), "made.json", {});
  ASSERT_TRUE(trace) << trace.error().to_string();
  const trace::Steps steps = trace::find_steps(*trace);
  std::optional<memory::Curve> curve = memory::curve(*trace, steps.steps.front());
  if (!curve) return;
  memory::scale_batch(*curve, 1e300);
  memory::recompute(*curve);
  EXPECT_LE(curve->peak_bytes, kMostCounted);
  const auto scaled = [&](double x) {
    memory::Curve c = *curve;
    memory::scale_batch(c, x);
    return c;
  };
  EXPECT_GE(memory::largest_batch(scaled, 141e9), 0);
}

}  // namespace
}  // namespace foretrace::test
