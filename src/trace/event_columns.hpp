#pragma once
// The columns of a trace's events as a list, for code that treats all of them alike.

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// Calls use(column) for each column of `events`, which may be const.
template <class E, class Use>
void each_column(E& events, Use use) {
  const auto all = [&](auto&... columns) { (use(columns), ...); };
  all(events.start, events.duration, events.name, events.lane, events.args, events.correlation, events.external_id,
      events.side, events.category, events.ph);
}

}  // namespace foretrace::trace
