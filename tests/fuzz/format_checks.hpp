#pragma once
// What holds for every trace an importer gives, whatever the bytes were: for the targets of formats that are no JSON.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

/// Loads the bytes and checks what came of them; an error must say something.
inline Result<trace::Trace> checked_load(std::string_view bytes, const std::string& name, bool partial) {
  trace::LoadOptions options;
  options.threads = 1;
  options.partial = partial;
  auto trace = trace::load_bytes(bytes, name, options);
  if (!trace) {
    require(!trace.error().message.empty());
    return trace;
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
  return trace;
}

inline void check_format(std::string_view bytes, bool partial) { (void)checked_load(bytes, "fuzz", partial); }

/// For formats with a head: bit 0 of the first byte puts `head` in front of the rest, so that most inputs are about what follows
/// it, and bit 1 reads partially.
inline Result<trace::Trace> load_behind_head(const std::uint8_t* data, std::size_t size, std::string_view head,
                                             const std::string& name) {
  if (size < 1) return fail(ErrorCode::kUnreadable, "empty");
  std::string bytes((data[0] & 1) != 0 ? head : std::string_view());
  bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  return checked_load(bytes, name, (data[0] & 2) != 0);
}

}  // namespace foretrace::fuzz
