#pragma once
// Joins batches, in the order of the file, into one trace with global ids.

#include <vector>

#include "foretrace/trace/trace.hpp"
#include "trace/importers/chrome_batch.hpp"

namespace foretrace::trace {

/// Local id -> global id of one parsing thread; entries appear as strings are first committed.
struct IdMaps {
  std::vector<std::uint32_t> names, tuples, categories, lanes;
};

class Committer {
 public:
  explicit Committer(Trace& trace) : trace_(trace) {}
  /// Appends a batch parsed with `tables`; `maps` belongs to the same thread and persists between its batches.
  void commit(const Batch& batch, const LocalTables& tables, IdMaps& maps);
  /// The global table of lane keys ("g\x1f0\x1f7"), indexed by lane id, for finish().
  [[nodiscard]] const StringTable& lane_keys() const { return lane_keys_; }

 private:
  std::uint32_t global_name(std::string_view raw);

  Trace& trace_;
  StringTable category_keys_;
  StringTable lane_keys_;
};

/// What is left to do once all batches are in: lanes and their names, B/E pairs, typed arguments and metadata.
void finish_trace(Trace& trace, const StringTable& lane_keys);

}  // namespace foretrace::trace
