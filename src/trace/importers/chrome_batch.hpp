#pragma once
// The events of one piece of a trace: the same columns as trace::Events with ids local to the thread that parsed it.
// Committing batches in the order of the file turns local ids into global ones, so that any number of threads gives the
// same trace.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/trace/trace.hpp"
#include "trace/importers/chrome_pieces.hpp"

namespace foretrace::trace {

/// Interned texts of one parsing thread. Names are keyed by their raw JSON text (escapes not undone).
struct LocalTables {
  StringTable names;
  StringTable tuples;
  StringTable categories;  ///< "cat\x1fkind"
  StringTable lanes;       ///< "side\x1fpid\x1ftid", side c (CPU), g (GPU) or e (either)
};

/// One record could not be used, or only in part.
struct Incident {
  enum class What : std::uint8_t {
    kMalformed,
    kInvalidUtf8,
    kRepairedQuotes,
    kControlCharacter,
    kEmptyRecord,
    kNotAnObject,
    kMissingTime,
    kUnreadableTime,
    kUnreadableDuration,
    kNegativeDuration,
    kImpossibleMemory,
    kArgsNotObject,
  } what;
  std::uint64_t offset;
  std::string example;
};
inline constexpr std::size_t kIncidentKinds = 12;

struct Batch {
  Events events;  ///< name, args, lane, category are local ids; side is relative to this batch's side tables
  Column<OpIds> op_ids;
  Column<PythonIds> python_ids;
  Column<MemoryIds> memory_ids;
  Column<SyncIds> sync_ids;
  Column<CopyIds> copy_ids;
  std::uint64_t incident_counts[kIncidentKinds] = {};
  std::vector<Incident> incidents;  ///< the first of each kind

  bool array_ended = false;  ///< the closing ']' was met …
  std::size_t tail_at = 0;   ///< … and this is the position just behind it in the piece
  bool truncated = false;    ///< the input ends inside a record, which began at `truncated_at`
  std::size_t truncated_at = 0;
  bool miscut = false;  ///< a piece that is not the last ends inside a record: cut at a false boundary, or damage

  void clear();
  void report(Incident::What what, std::uint64_t offset, std::string_view example);
};

}  // namespace foretrace::trace
