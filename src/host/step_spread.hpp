#pragma once
// How much the steps of one recording differ, as logarithms of time around the step that was analysed.

#include <optional>

#include "foretrace/graph/graph.hpp"

namespace foretrace::host {

/// Distances of the 90th and the 10th percentile.
struct LogSpread {
  double up = 0, down = 0;
};

/// What the recorded steps say of any step made from this one; nothing where there is only one. It is a ratio: what varies between
/// steps is mostly CPU time, and a change that removes CPU time removes its variation too.
std::optional<LogSpread> recorded_spread(const graph::Graph& graph);

/// Of a step alone in its recording: the standard deviation of log time that recordings of several steps have (step_spread.csv, which
/// tools/fit_step_spread.py writes).
double one_step_sigma();

}  // namespace foretrace::host
