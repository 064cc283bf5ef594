#pragma once
// What the engines share: how a dependency delays a task, and the length of the step once all tasks have times.

#include "foretrace/simulate/simulate.hpp"

namespace foretrace::simulate {

/// Until a task has started, its start is the earliest one its reasons so far allow.
inline void hold(Timeline& timeline, std::uint32_t task, Ns until, std::uint32_t by, graph::DependencyKind why) {
  // >=: of equally late reasons the last one counts, so that a path runs through real work rather than through 0.
  if (until < timeline.start[task] || until <= 0) return;
  timeline.start[task] = until;
  timeline.cause[task] = by;
  timeline.cause_kind[task] = why;
}

/// Columns of so many entries each, whatever they hold.
void make_room(Timeline& timeline, std::size_t tasks);
/// Fills timeline.step and timeline.copy_ends.
void find_step(const graph::Graph& graph, Timeline& timeline);

/// The engine for lanes that choose what to run next and for tasks that slow each other: events in the order of time.
void simulate_events(const graph::Graph& graph, const Options& options, Timeline& timeline);

}  // namespace foretrace::simulate
