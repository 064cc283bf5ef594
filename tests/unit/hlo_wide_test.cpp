// Which tensors of a compiled program keep FP32 when the program becomes half: in one that is FP32 throughout, and in one that is half.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "trace/importers/hlo_module.hpp"

namespace foretrace::trace {
namespace {

std::string number(std::uint64_t n) {
  std::string out;
  for (; n >= 128; n >>= 7) out += static_cast<char>((n & 127) | 128);
  return out + static_cast<char>(n);
}
std::string field(int at, std::uint64_t n) { return number(static_cast<std::uint64_t>(at) << 3) + number(n); }
std::string field(int at, const std::string& bytes) {
  return number((static_cast<std::uint64_t>(at) << 3) | 2) + number(bytes.size()) + bytes;
}

constexpr int kF32 = 11, kBf16 = 16;
std::string shape(const std::vector<std::uint64_t>& dims, int type = kF32) {
  std::string out = field(2, static_cast<std::uint64_t>(type));
  for (const std::uint64_t d : dims) out += field(3, d);
  return out;
}

struct Given {
  std::string name, opcode, result;
  std::vector<int> operands = {};  // ids
  std::string scope = {};
  std::vector<std::uint64_t> dimensions = {};
  int calls = 0, parameter = 0;
  std::string target = {}, config = {};
};

std::string instruction(int id, const Given& g) {
  std::string out = field(1, g.name) + field(2, g.opcode) + field(3, g.result);
  if (!g.scope.empty()) out += field(7, field(2, "jit(step)/" + g.scope));
  out += field(9, static_cast<std::uint64_t>(g.parameter));
  for (const std::uint64_t d : g.dimensions) out += field(14, d);
  if (!g.target.empty()) out += field(28, g.target) + field(43, g.config);
  out += field(35, static_cast<std::uint64_t>(id));
  for (const int o : g.operands) out += field(36, static_cast<std::uint64_t>(o));
  if (g.calls != 0) out += field(38, static_cast<std::uint64_t>(g.calls));
  return out;
}

// Instructions of a computation have ids of its number times 100, in order; the last is the root.
std::string computation(int number, const std::vector<Given>& body) {
  std::string out = field(1, "c" + std::to_string(number)) + field(5, static_cast<std::uint64_t>(number));
  int id = number * 100;
  for (const Given& g : body) out += field(2, instruction(id++, g));
  return out + field(6, static_cast<std::uint64_t>(id - 1));
}

constexpr double kBytes = 64.0 * 128 * 4;

// x less its mean, times a trained scale, plus x, times a weight. `also`: the difference goes into a product, too.
std::string norm(int type, bool also) {
  const std::string x = shape({64, 128}, type), wide = shape({64, 128}), row = shape({64}), scale = shape({128}, type);
  const std::string gemm =
      R"({"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}})";
  std::string module = field(1, "jit_step");
  const auto add = [&](const std::string& c) { module += field(3, c); };
  add(computation(1, {{"a", "parameter", x}, {"z", "constant", shape({})}, {"r", "reduce", row, {100, 101}, "", {1}}}));
  add(computation(2, {{"a", "parameter", x},
                      {"b", "parameter", row, {}, "", {}, 0, 1},
                      {"s", "broadcast", wide, {201}, "", {0}},
                      {"d", "subtract", wide, {200, 202}}}));
  add(computation(3, {{"a", "parameter", wide},
                      {"b", "parameter", scale, {}, "", {}, 0, 1},
                      {"s", "broadcast", x, {301}, "", {1}},
                      {"m", "multiply", x, {300, 302}}}));
  add(computation(4, {{"a", "parameter", x}, {"b", "parameter", x, {}, "", {}, 0, 1}, {"p", "add", x, {400, 401}}}));
  add(computation(5, {{"a", "parameter", scale}, {"n", "negate", scale, {500}}}));
  std::vector<Given> entry = {{"x", "parameter", x},
                              {"scale", "parameter", scale, {}, "", {}, 0, 1},
                              {"w", "parameter", shape({128, 32}, type), {}, "", {}, 0, 2},
                              {"input_reduce_fusion", "fusion", row, {900}, "jvp(norm)/reduce_sum", {}, 1},
                              {"loop_subtract_fusion", "fusion", wide, {900, 903}, "jvp(norm)/sub", {}, 2},
                              {"loop_multiply_fusion", "fusion", x, {904, 901}, "jvp(norm)/mul", {}, 3},
                              {"loop_add_fusion", "fusion", x, {905, 900}, "jvp(norm)/add", {}, 4},
                              {"product",
                               "custom-call",
                               shape({64, 32}, type),
                               {also ? 904 : 906, 902},
                               "transpose(jvp(norm))/dot",
                               {},
                               0,
                               0,
                               "__cublas$gemm",
                               gemm},
                              {"loop_negate_fusion", "fusion", scale, {901}, "sub", {}, 5}};
  add(computation(9, entry));
  return field(1, module + field(6, 9));
}

CompiledOp work_of(const HloModule& module, std::string_view name) {
  const std::uint32_t at = module.find(name);
  return at == kNone ? CompiledOp{} : module.launches[at].work;
}

TEST(HloWide, NormsStayWideUntilTheirScale) {
  const std::string bytes = norm(kF32, false);
  HloModule module;
  ASSERT_TRUE(module.read(bytes));
  const CompiledOp difference = work_of(module, "loop_subtract_fusion");
  EXPECT_EQ(difference.fixed_written, kBytes);
  EXPECT_EQ(difference.fixed_read, 0);  // its input is what the program computes in
  const CompiledOp scaled = work_of(module, "loop_multiply_fusion");
  EXPECT_EQ(scaled.fixed_read, kBytes);
  EXPECT_EQ(scaled.fixed_written, 0);
  const CompiledOp added = work_of(module, "loop_add_fusion");
  EXPECT_EQ(added.fixed_read, 0);
  EXPECT_EQ(added.fixed_written, 0);
}

TEST(HloWide, WhatAProductReadsIsConverted) {
  const std::string bytes = norm(kF32, true);
  HloModule module;
  ASSERT_TRUE(module.read(bytes));
  EXPECT_EQ(work_of(module, "loop_subtract_fusion").fixed_written, 0);
  EXPECT_EQ(work_of(module, "loop_multiply_fusion").fixed_read, 0);
}

TEST(HloWide, AHalfProgramSaysItself) {
  const std::string bytes = norm(kBf16, false);
  HloModule module;
  ASSERT_TRUE(module.read(bytes));
  const CompiledOp difference = work_of(module, "loop_subtract_fusion");
  EXPECT_EQ(difference.dtype, "bf16");
  EXPECT_EQ(difference.fixed_read, 64 * 4);  // the means
  EXPECT_EQ(difference.fixed_written, kBytes);
  EXPECT_EQ(difference.bytes_read, kBytes / 2 + 64 * 4);
  EXPECT_EQ(work_of(module, "loop_add_fusion").fixed_written, 0);
}

}  // namespace
}  // namespace foretrace::trace
