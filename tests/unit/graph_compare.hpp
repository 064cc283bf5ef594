#pragma once
// Equality of graphs, for tests of what reads them back.

#include <gtest/gtest.h>

#include "foretrace/graph/graph.hpp"

namespace foretrace::test {

/// Fails where two graphs differ in anything but the numbering of strings and of soft dependencies.
inline void expect_same_graph(const graph::Graph& a, const graph::Graph& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.dependencies(), b.dependencies());
  ASSERT_EQ(a.lanes.size(), b.lanes.size());
  ASSERT_EQ(a.layers.size(), b.layers.size());
  EXPECT_EQ(a.step_name, b.step_name);
  EXPECT_EQ(a.traced, b.traced);
  EXPECT_EQ(a.main_lane, b.main_lane);
  EXPECT_EQ(a.last, b.last);
  EXPECT_EQ(a.periodic, b.periodic);
  EXPECT_EQ(a.copies, b.copies);
  EXPECT_EQ(a.period, b.period);
  EXPECT_EQ(a.ramp_up, b.ramp_up);
  ASSERT_EQ(a.carried.size(), b.carried.size());
  for (std::size_t c = 0; c < a.carried.size(); ++c) {
    const graph::Dependency& x = a.carried[c].dependency;
    const graph::Dependency& y = b.carried[c].dependency;
    EXPECT_TRUE(x.from == y.from && x.to == y.to && x.lag == y.lag && x.point == y.point && x.kind == y.kind &&
                a.carried[c].back == b.carried[c].back)
        << "carried " << c;
  }
  EXPECT_EQ(a.notes.refuted_waits, b.notes.refuted_waits);
  EXPECT_EQ(a.notes.unexplained_lags, b.notes.unexplained_lags);
  EXPECT_EQ(a.notes.unexplained_time, b.notes.unexplained_time);
  EXPECT_EQ(a.notes.orphans, b.notes.orphans);
  EXPECT_EQ(a.notes.early_kernels, b.notes.early_kernels);
  EXPECT_EQ(a.notes.dropped_soft, b.notes.dropped_soft);
  EXPECT_EQ(a.notes.dropped_dependencies, b.notes.dropped_dependencies);
  EXPECT_EQ(a.notes.border_tasks, b.notes.border_tasks);
  EXPECT_EQ(a.notes.foreign_events, b.notes.foreign_events);
  EXPECT_EQ(a.notes.queue_depth_measured, b.notes.queue_depth_measured);
  EXPECT_EQ(a.notes.startup.time(), b.notes.startup.time());
  EXPECT_EQ(a.notes.startup.unsure, b.notes.startup.unsure);
  EXPECT_EQ(a.notes.allocator, b.notes.allocator);
  for (std::size_t l = 0; l < a.lanes.size(); ++l) {
    const graph::GraphLane& x = a.lanes[l];
    const graph::GraphLane& y = b.lanes[l];
    EXPECT_TRUE(x.kind == y.kind && a.strings[x.name] == b.strings[y.name] && x.begin == y.begin && x.end == y.end &&
                x.trace_lane == y.trace_lane && x.device == y.device && x.stream == y.stream && x.role == y.role &&
                x.queue_depth == y.queue_depth && x.queue_lag == y.queue_lag)
        << "lane " << l;
  }
  for (std::size_t l = 0; l < a.layers.size(); ++l) {
    EXPECT_EQ(a.strings[a.layers[l].name], b.strings[b.layers[l].name]);
    EXPECT_EQ(a.strings[a.layers[l].type], b.strings[b.layers[l].type]);
    EXPECT_EQ(a.layers[l].synthetic, b.layers[l].synthetic);
  }
  for (std::size_t t = 0; t < a.size(); ++t) {
    const bool same = a.kind[t] == b.kind[t] && a.cost[t] == b.cost[t] && a.lane_lag[t] == b.lane_lag[t] &&
                      a.lane[t] == b.lane[t] && a.task_name(t) == b.task_name(t) && a.phase[t] == b.phase[t] &&
                      a.layer[t] == b.layer[t] && a.launch[t] == b.launch[t] && a.event[t] == b.event[t] &&
                      a.op[t] == b.op[t] && a.measured[t] == b.measured[t] && a.origin[t] == b.origin[t] &&
                      a.in_degree[t] == b.in_degree[t] && a.dep_begin[t + 1] == b.dep_begin[t + 1];
    ASSERT_TRUE(same) << "task " << t;
    ASSERT_EQ(a.soft[t] == kNone, b.soft[t] == kNone) << "task " << t;
    if (a.soft[t] == kNone) continue;
    const graph::SoftDependency& x = a.soft_dependencies[a.soft[t]];
    const graph::SoftDependency& y = b.soft_dependencies[b.soft[t]];
    ASSERT_TRUE(x.from == y.from && x.point == y.point && x.lag == y.lag && x.slack == y.slack) << "task " << t;
  }
  for (std::size_t d = 0; d < a.dependencies(); ++d) {
    ASSERT_TRUE(a.dep_to[d] == b.dep_to[d] && a.dep_lag[d] == b.dep_lag[d] && a.dep_point[d] == b.dep_point[d] &&
                a.dep_kind[d] == b.dep_kind[d])
        << "dependency " << d;
  }
}

}  // namespace foretrace::test
