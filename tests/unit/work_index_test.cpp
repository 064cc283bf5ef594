// Work by index and along rows: what is told by arguments, and what by a launch.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "hardware/measured.hpp"
#include "work/describe_op.hpp"

namespace foretrace::work {
namespace {

using Operation = Gather::Operation;

Argument tensor(Shape shape, std::string type = "float", Shape strides = {}) {
  Argument a{.shapes = {std::move(shape)}, .strides = {}, .type = std::move(type), .value = {}};
  if (!strides.empty()) a.strides = {std::move(strides)};
  return a;
}
Argument indices(Shape shape, Shape strides = {}) { return tensor(std::move(shape), "long int", std::move(strides)); }
Argument value(std::string text) {
  return {.shapes = {Shape{}}, .strides = {}, .type = "Scalar", .value = std::move(text)};
}
Argument none() { return {.shapes = {Shape{}}, .strides = {}, .type = "", .value = {}}; }

Work described(std::string_view name, std::vector<Argument> arguments) {
  return describe_op(classify_op(name), name, OpView(std::move(arguments)));
}
Gather gather(const Work& w) { return std::get<Gather>(w.kind); }

// "Int" is the type of a number where an execution trace says it, and that of elements where a collective's record does.
TEST(ElementTypes, TensorsNumbersAndRecordsSpellThemDifferently) {
  EXPECT_EQ(element_bytes("long int"), 8);
  EXPECT_EQ(element_bytes("c10::BFloat16"), 2);
  EXPECT_EQ(element_bytes("Int"), 0);
  EXPECT_EQ(element_bytes("Scalar"), 0);
  EXPECT_EQ(recorded_bytes("Int"), 4);
  EXPECT_EQ(recorded_bytes("BFloat16"), 2);
  EXPECT_EQ(recorded_bytes("Float8_e4m3fn"), 1);
  EXPECT_EQ(recorded_bytes("nothing"), 0);
  EXPECT_EQ(parse_dtype("c10::Half"), Dtype::kFp16);
  EXPECT_EQ(parse_dtype("Float8_e5m2"), Dtype::kFp8);
  EXPECT_EQ(parse_dtype("bool"), Dtype::kOther);
}

TEST(DescribeIndex, TablesOfAnEmbeddingDoNotGrowWithTheBatch) {
  const Work w = described("aten::embedding", {tensor({1000, 64}), indices({8, 16})});
  EXPECT_EQ(gather(w),
            (Gather{.rows = 128, .columns = 64, .operation = Operation::kTaken, .table = 1000, .parameter = true}));
  EXPECT_EQ(w.elements, 128 * 64);
  EXPECT_DOUBLE_EQ(w.bytes_read, 128 * (64 * 4 + 8));
  const Work twice = with_batch(w, 2);
  EXPECT_EQ(gather(twice).rows, 256);
  EXPECT_EQ(gather(twice).table, 1000);
  // Of 4,096 indices into 1,000 rows memory gives each row once.
  EXPECT_DOUBLE_EQ(with_batch(w, 32).bytes_read, 1000 * 64 * 4 + 4096 * 8);
  const Work grad = described("aten::embedding_dense_backward",
                              {tensor({8, 16, 64}), indices({8, 16}), value("1000"), value("-1"), value("False")});
  EXPECT_EQ(gather(grad),
            (Gather{.rows = 128, .columns = 64, .operation = Operation::kTableGrad, .table = 1000, .parameter = true}));
  EXPECT_TRUE(grad.backward);
}

TEST(DescribeIndex, Bags) {
  const Work w = described("aten::_embedding_bag", {tensor({500, 32}), indices({80}), indices({10}), value("False"),
                                                    value("0"), value("False"), none(), value("False"), value("-1")});
  EXPECT_EQ(gather(w).bags, 10);
  EXPECT_DOUBLE_EQ(w.bytes_written, 10 * 32 * 4);
  const Work grad = described("aten::_embedding_bag_dense_backward",
                              {tensor({10, 32}), indices({80}), indices({80}), indices({10}), indices({0}),
                               value("500"), value("False"), value("0"), none(), value("-1")});
  EXPECT_EQ(
      gather(grad),
      (Gather{
          .rows = 80, .columns = 32, .operation = Operation::kBagsGrad, .table = 500, .bags = 10, .parameter = true}));
}

TEST(DescribeIndex, AlongADimension) {
  const Work select = described("aten::index_select", {tensor({4, 100, 8}), value("1"), indices({30})});
  EXPECT_EQ(gather(select),
            (Gather{.rows = 120, .columns = 8, .operation = Operation::kTaken, .table = 100, .sets = 4}));
  const Work add =
      described("aten::index_add_", {tensor({60, 512}), value("0"), indices({480}), tensor({480, 512}), value("1")});
  EXPECT_EQ(gather(add), (Gather{.rows = 480, .columns = 512, .operation = Operation::kAdded, .table = 60}));
  EXPECT_TRUE(gather(add).adds_up());
  // A gather of whole rows is one whose index repeats along them; otherwise every element has its own.
  const Work rows = described("aten::gather", {tensor({60, 512}), value("0"), indices({480, 512}, {1, 0})});
  EXPECT_EQ(gather(rows), (Gather{.rows = 480, .columns = 512, .operation = Operation::kTaken, .table = 60}));
  const Work each = described("aten::gather", {tensor({32, 1000}), value("1"), indices({32, 4}, {4, 1})});
  EXPECT_EQ(gather(each),
            (Gather{.rows = 128, .columns = 1, .operation = Operation::kTaken, .table = 1000, .sets = 32}));
  EXPECT_EQ(gather(described("aten::nonzero", {tensor({32, 4})})).operation, Operation::kOther);
}

TEST(DescribeIndex, WhereAnIndexPutHasItsIndices) {
  const auto put = [](Shape table, Shape values, const char* adds) {
    return gather(described("aten::_index_put_impl_",
                            {tensor(std::move(table)), none(), tensor(std::move(values)), value(adds), value("True")}));
  };
  EXPECT_EQ(put({60, 512}, {480, 512}, "True"),
            (Gather{.rows = 480, .columns = 512, .operation = Operation::kSorted, .table = 60}));
  // The pairs of 27 columns in each of 2,048 matrices.
  EXPECT_EQ(put({2048, 27, 27}, {2048, 351}, "True"),
            (Gather{.rows = 2048 * 351, .columns = 1, .operation = Operation::kSorted, .table = 729, .sets = 2048}));
  // As many values as the table has rows: rows, not sets.
  EXPECT_EQ(put({60, 512}, {60, 512}, "False"),
            (Gather{.rows = 60, .columns = 512, .operation = Operation::kWritten, .table = 60}));
  EXPECT_EQ(put({60}, {7}, "True"), (Gather{.rows = 7, .columns = 1, .operation = Operation::kSorted, .table = 60}));
}

TEST(DescribeIndex, LaunchesTellWhatIndexDoesNotRecord) {
  Work w = described("aten::index", {tensor({60000, 512}), none()});
  EXPECT_EQ(gather(w).rows, 0);
  describe_index_launch(w, "vectorized_gather_kernel<16, long>", {.grid = {480000, 1, 1}, .block = {128, 1, 1}});
  EXPECT_EQ(gather(w), (Gather{.rows = 480000, .columns = 512, .operation = Operation::kTaken, .table = 60000}));
  EXPECT_EQ(gather(with_batch(w, 0.5)).table, 30000);  // nodes of a graph, not parameters
  Work pairs = described("aten::index", {tensor({2048, 27, 27}), none()});
  describe_index_launch(pairs, "void index_elementwise_kernel<128, 4, f>",
                        {.grid = {1404, 1, 1}, .block = {128, 1, 1}});
  EXPECT_EQ(pairs.elements, 2048 * 351);
  // Another kernel's launch tells nothing, nor does a second one's.
  describe_index_launch(pairs, "vectorized_gather_kernel", {.grid = {7, 1, 1}, .block = {128, 1, 1}});
  EXPECT_EQ(pairs.elements, 2048 * 351);
}

TEST(DescribeAlong, SortsTheLargestPrefixSumsAndTransforms) {
  const Work sort = described("aten::sort", {tensor({8, 100}), value("False"), value("-1"), value("False")});
  EXPECT_EQ(std::get<Rows>(sort.kind), (Rows{.rows = 8, .columns = 100, .operation = Rows::Operation::kSort}));
  EXPECT_DOUBLE_EQ(sort.bytes_written, 800 * (4 + 8));
  const Work top = described("aten::topk", {tensor({12288, 8}), value("2"), value("-1"), value("True"), value("True")});
  EXPECT_EQ(std::get<Rows>(top.kind),
            (Rows{.rows = 12288, .columns = 8, .operation = Rows::Operation::kTopK, .kept = 2}));
  const Work sum = described("aten::cumsum", {tensor({8, 100}), value("0")});
  EXPECT_EQ(std::get<Rows>(sum.kind), (Rows{.rows = 100, .columns = 8, .operation = Rows::Operation::kScan}));
  EXPECT_EQ(sum.access, Access::kStrided);
  const Work fft = described("aten::_fft_r2c", {tensor({4, 16, 32}), value("[1, 2]"), value("0"), value("True")});
  EXPECT_EQ(std::get<Rows>(fft.kind), (Rows{.rows = 4, .columns = 512, .operation = Rows::Operation::kTransform}));
  EXPECT_DOUBLE_EQ(fft.bytes(), 2 * 4 * 512 * 4);
}

// A table's cells and a trace's operations must mean the same work.
TEST(DescribeIndex, AsTheTablesHaveIt) {
  const auto measured = [](std::string_view table,
                           const std::vector<std::pair<std::string_view, std::int64_t>>& sizes) {
    hardware::MeasuredSizes s;
    for (const auto& [name, size] : sizes) s.set(name, size);
    return hardware::measured_work(table, s, "fwd fp32 all");
  };
  const auto same = [](const Work& a, const Work& b) {
    Work c = b;
    if (auto* g = std::get_if<Gather>(&c.kind)) g->parameter = gather(a).parameter;
    EXPECT_EQ(a.kind, c.kind);
    EXPECT_DOUBLE_EQ(a.bytes_read, b.bytes_read);
    EXPECT_DOUBLE_EQ(a.bytes_written, b.bytes_written);
    EXPECT_EQ(a.elements, b.elements);
  };
  same(described("aten::index_add_", {tensor({60, 512}), value("0"), indices({480}), tensor({480, 512}), value("1")}),
       measured("added", {{"i", 480}, {"c", 512}, {"v", 60}, {"sets", 1}}));
  same(described("aten::_embedding_bag", {tensor({500, 32}), indices({80}), indices({10})}),
       measured("bags", {{"i", 80}, {"c", 32}, {"v", 500}, {"b", 10}}));
  same(described("aten::topk", {tensor({12288, 8}), value("2"), value("-1")}),
       measured("topk", {{"rows", 12288}, {"c", 8}, {"k", 2}}));
  same(described("aten::sort", {tensor({64, 1000}), value("-1")}), measured("sort", {{"rows", 64}, {"c", 1000}}));
}

}  // namespace
}  // namespace foretrace::work
