#pragma once
// What holds for every trace an importer gives, whatever the bytes were: for the targets of formats that are no JSON.

#include <cstdlib>
#include <string_view>

#include "foretrace/trace/load.hpp"
#include "foretrace/trace/steps.hpp"

namespace foretrace::fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

inline void check_format(std::string_view bytes, bool partial) {
  trace::LoadOptions options;
  options.threads = 1;
  options.partial = partial;
  const auto trace = trace::load_bytes(bytes, "fuzz", options);
  if (!trace) {
    require(!trace.error().message.empty());
    return;
  }
  const trace::Events& e = trace->events;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    require(e.duration[i] >= 0 && e.lane[i].index() < trace->lanes.size() && e.name[i].index() < trace->strings.size());
    require(e.category[i] < trace->categories.size());
    require(!e.args[i].valid() || e.args[i].index() < trace->args.size());
    const trace::SideTable table = trace::side_table(trace->kind(i));
    if (e.side[i] == kNone) continue;
    require(table != trace::SideTable::kNone);
    if (table == trace::SideTable::kOp) require(e.side[i] < trace->op_ids.size());
    if (table == trace::SideTable::kPython) require(e.side[i] < trace->python_ids.size());
    if (table == trace::SideTable::kMemory) require(e.side[i] < trace->memory_ids.size());
    if (table == trace::SideTable::kSync) require(e.side[i] < trace->sync_ids.size());
    if (table == trace::SideTable::kCopy) require(e.side[i] < trace->copy_ids.size());
  }
  (void)trace::find_steps(*trace);
}

}  // namespace foretrace::fuzz
