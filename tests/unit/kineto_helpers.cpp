#include "kineto_helpers.hpp"

#include <cstring>

namespace foretrace::test {

namespace {

template <class T>
void expect_same_column(const Column<T>& a, const Column<T>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Bytes, because a NaN that was read must be read again.
    if (std::memcmp(static_cast<const void*>(&a[i]), static_cast<const void*>(&b[i]), sizeof(T)) != 0) {
      ADD_FAILURE() << what << " differs first in row " << i << " of " << a.size();
      return;
    }
  }
}

}  // namespace

void expect_same(const trace::Trace& a, const trace::Trace& b) {
  const trace::Events& x = a.events;
  const trace::Events& y = b.events;
  expect_same_column(x.start, y.start, "start");
  expect_same_column(x.duration, y.duration, "duration");
  expect_same_column(x.name, y.name, "name");
  expect_same_column(x.lane, y.lane, "lane");
  expect_same_column(x.args, y.args, "args");
  expect_same_column(x.correlation, y.correlation, "correlation");
  expect_same_column(x.external_id, y.external_id, "external_id");
  expect_same_column(x.side, y.side, "side");
  expect_same_column(x.category, y.category, "category");
  expect_same_column(x.ph, y.ph, "ph");
  expect_same_column(a.op_ids, b.op_ids, "op_ids");
  expect_same_column(a.python_ids, b.python_ids, "python_ids");
  expect_same_column(a.memory_ids, b.memory_ids, "memory_ids");
  expect_same_column(a.sync_ids, b.sync_ids, "sync_ids");
  expect_same_column(a.copy_ids, b.copy_ids, "copy_ids");

  ASSERT_EQ(a.strings.size(), b.strings.size());
  for (std::size_t i = 0; i < a.strings.size(); ++i) ASSERT_EQ(a.strings[StringId{i}], b.strings[StringId{i}]) << i;
  ASSERT_EQ(a.args.size(), b.args.size());
  for (std::size_t i = 0; i < a.args.size(); ++i) ASSERT_EQ(a.args.text(ArgsId{i}), b.args.text(ArgsId{i})) << i;
  ASSERT_EQ(a.categories.size(), b.categories.size());
  for (std::size_t i = 0; i < a.categories.size(); ++i) {
    EXPECT_EQ(a.categories[i].name, b.categories[i].name);
    EXPECT_EQ(a.categories[i].kind, b.categories[i].kind);
  }
  ASSERT_EQ(a.lanes.size(), b.lanes.size());
  for (std::size_t i = 0; i < a.lanes.size(); ++i) {
    EXPECT_EQ(a.lane_label(LaneId{i}), b.lane_label(LaneId{i}));
    EXPECT_EQ(a.lanes[i].sort_index, b.lanes[i].sort_index);
    EXPECT_EQ(a.lanes[i].process_name, b.lanes[i].process_name);
  }
  EXPECT_EQ(a.metadata, b.metadata);
  EXPECT_EQ(a.base_time_ns, b.base_time_ns);
  EXPECT_EQ(a.input_bytes, b.input_bytes);
  EXPECT_EQ(a.partial, b.partial);
  const auto& p = a.diagnostics.problems();
  const auto& q = b.diagnostics.problems();
  ASSERT_EQ(p.size(), q.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_EQ(p[i].name, q[i].name);
    EXPECT_EQ(p[i].count, q[i].count) << p[i].name;
    EXPECT_EQ(p[i].offset, q[i].offset) << p[i].name;
    EXPECT_EQ(p[i].example, q[i].example) << p[i].name;
  }
}

}  // namespace foretrace::test
