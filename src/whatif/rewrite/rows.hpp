#pragma once
// Operations of a step: the GPU tasks behind each row of works, and changing all of them together.

#include <functional>
#include <vector>

#include "foretrace/whatif/whatif.hpp"
#include "hardware/cost.hpp"

namespace foretrace::whatif {

struct Row {
  std::uint32_t work = 0;
  std::vector<std::uint32_t> tasks;  ///< in lane order
  Ns time = 0;                       ///< sum of their costs in the draft
  Ns begin = 0;                      ///< when its operation begins, for program order
  Phase phase = Phase::kOther;
};

/// Rows with GPU tasks that are still there, in program order.
std::vector<Row> rows_of(const Model& model, const Draft& draft);

/// The stream most GPU tasks run on.
std::uint32_t main_stream(const Graph& graph);

/// How often a row runs in the step: more than once where earlier what-ifs made it (recomputed, accumulated). Its time is that
/// of all runs, its work that of one.
double times_run(const Model& model, const Row& row);

/// What a row takes when its work becomes another on the same GPU, as often as it runs.
hardware::Cost rescale_row(const Model& model, const Row& row, const work::Work& becomes);

/// Gives all tasks of a row together `time`, each its share; the work they do becomes `becomes`.
void set_row(Model& model, Draft& draft, const Row& row, double time, const work::Work& becomes, graph::Origin origin);

/// The same with an estimate and its uncertainty.
void set_row(Model& model, Draft& draft, const Row& row, const hardware::Cost& cost, work::Work becomes);

/// The tasks of several rows go, with what launched them; at the place of the first, `kernels` kernels do `becomes` instead.
/// Nothing happens where no launch is known.
void replace_rows(Model& model, Draft& draft, const std::vector<const Row*>& rows, const work::Work& becomes,
                  const std::string& name, int kernels);

/// Inserts a kernel that does `work` behind `at`, at the cost the models say, and moves `at` behind it. `kernel` has its phase, its
/// layer and what its launch costs. Nothing happens at an unknown place.
void insert_work(Model& model, Draft& draft, Place& at, std::string name, const work::Work& work, NewKernel kernel);

/// The first row does `becomes`, the work of all of them: its time is theirs, scaled as the models say of joined and
/// separate work, `most` times theirs at the most. The tasks of the others are added to `gone`. Nothing happens where the models know neither.
void join_rows(Model& model, Draft& draft, const std::vector<const Row*>& rows, work::Work becomes, Selection& gone,
               double most = 1);

}  // namespace foretrace::whatif
