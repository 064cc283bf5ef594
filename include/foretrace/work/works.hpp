#pragma once
// What the GPU tasks of a graph compute: a table of descriptions, and the row of each task.
//
//   work::Works works = work::describe(trace, graph);
//   double flops = 0;
//   if (const work::Work* w = works.of(task)) flops += w->flops;
//
// One row describes one framework operation, whatever number of kernels it launched: an `aten::mm` with a memset, a GEMM and
// a split-K reduction is one row, and its measured time is the sum of the three. The exception is a convolution's backward
// operation, whose kernels are divided into a data-gradient row and a weight-gradient row.

#include <cstdint>
#include <vector>

#include "foretrace/base/column.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::work {

struct Works {
  std::vector<Work> rows;
  Column<std::uint32_t> of_task;  ///< by task of the graph: a row, kNone where nobody describes it

  [[nodiscard]] std::size_t size() const { return rows.size(); }
  const Work& operator[](std::size_t row) const { return rows[row]; }
  /// The row of a task, kNone for those nobody describes.
  [[nodiscard]] std::uint32_t row_of(std::size_t task) const { return task < of_task.size() ? of_task[task] : kNone; }
  /// What a task computes; null where nobody describes it.
  [[nodiscard]] const Work* of(std::size_t task) const {
    const std::uint32_t row = row_of(task);
    return row == kNone ? nullptr : &rows[row];
  }
  /// A new row, for tasks to come.
  std::uint32_t add(const Work& work) {
    rows.push_back(work);
    return static_cast<std::uint32_t>(rows.size() - 1);
  }
};

/// Describes all GPU tasks of a graph from their operations, shapes, element types and kernel names.
Works describe(const trace::Trace& trace, const graph::Graph& graph);

}  // namespace foretrace::work
