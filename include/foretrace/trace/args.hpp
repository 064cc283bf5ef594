#pragma once
// Arguments of events. What differs on every event (ids, addresses) lives in columns and side tables of the trace;
// everything else is a tuple that repeats (launch geometry, shapes, collective metadata), is stored once, and is decoded
// into typed rows once per distinct tuple rather than once per event.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/ids.hpp"
#include "foretrace/base/string_table.hpp"

namespace foretrace::trace {

/// Marks an integer argument that the event did not carry.
inline constexpr std::int64_t kAbsent = INT64_MIN;

/// Launch geometry and placement of a kernel, copy or fill.
struct KernelLaunch {
  std::int64_t device = kAbsent;
  std::int64_t context = kAbsent;
  std::int64_t stream = kAbsent;
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::array<std::int64_t, 3> block{1, 1, 1};
  std::int64_t registers_per_thread = kAbsent;
  std::int64_t shared_memory_bytes = kAbsent;
  double blocks_per_sm = -1;
  double warps_per_sm = -1;
  double occupancy_pct = -1;  ///< "est. achieved occupancy %"
  std::int64_t graph_id = kAbsent;
  std::int64_t graph_node_id = kAbsent;
  std::int64_t priority = kAbsent;
};

/// A CUPTI synchronisation record. The event ids are in Trace::sync_ids.
struct SyncInfo {
  StringId kind;  ///< "Stream Wait Event", "Stream Sync", "Event Sync", "Context Sync"
  std::int64_t device = kAbsent;
  std::int64_t stream = kAbsent;  ///< kAbsent or -1: none
  std::int64_t wait_on_stream = kAbsent;
};

/// Metadata of a collective, on NCCL kernels and record_param_comms operations.
struct CollectiveInfo {
  StringId name;  ///< "allreduce", "_allgather_base", …
  StringId dtype;
  StringId group;        ///< process group name
  StringId group_ranks;  ///< as printed, "[0, 1]"; may be elided with "..."
  std::int64_t in_elements = kAbsent;
  std::int64_t out_elements = kAbsent;
  std::int64_t group_size = kAbsent;
  std::int64_t sequence = kAbsent;
};

/// Inputs of an operation, as JSON text; parse with parse_shapes / parse_strings when needed.
struct OpInputs {
  StringId dims;   ///< [[64, 3, 224, 224], [], …]
  StringId types;  ///< ["float", "long int", …]
  StringId strides;
  StringId concrete;  ///< ["", "1", "[2, 2]", …]
};

class ArgsTable {
 public:
  /// Adds a tuple (JSON object text) if new. Importers only.
  ArgsId intern(std::string_view json_object) { return ArgsId{tuples_.intern(json_object).value}; }
  /// Decodes all tuples into the typed rows; strings go to `strings`. Returns how many tuples are not valid JSON (they
  /// stay readable as text). Importers only, once.
  std::size_t decode(StringTable& strings);

  [[nodiscard]] std::size_t size() const { return tuples_.size(); }
  /// The whole tuple as the text of a JSON object; "" for an event without arguments.
  [[nodiscard]] std::string_view text(ArgsId id) const { return id.valid() ? tuples_[StringId{id.value}] : ""; }
  /// The raw JSON of one argument of a tuple, e.g. find(id, "cbid") -> "211". For rare keys; typed rows are faster.
  [[nodiscard]] std::optional<std::string> find(ArgsId id, std::string_view key) const;

  [[nodiscard]] const KernelLaunch* launch(ArgsId id) const { return row(launch_row_, launches_, id); }
  [[nodiscard]] const SyncInfo* sync(ArgsId id) const { return row(sync_row_, syncs_, id); }
  [[nodiscard]] const CollectiveInfo* collective(ArgsId id) const { return row(collective_row_, collectives_, id); }
  [[nodiscard]] const OpInputs* inputs(ArgsId id) const { return row(inputs_row_, inputs_, id); }
  [[nodiscard]] std::int64_t fwd_thread(ArgsId id) const {
    return id.valid() && id.index() < fwd_thread_.size() ? fwd_thread_[id.index()] : kAbsent;
  }
  [[nodiscard]] std::size_t bytes() const;

 private:
  template <class T>
  static const T* row(const std::vector<std::uint32_t>& rows, const std::vector<T>& table, ArgsId id) {
    if (!id.valid() || id.index() >= rows.size() || rows[id.index()] == 0) return nullptr;
    return &table[rows[id.index()] - 1];
  }

  StringTable tuples_;
  std::vector<std::uint32_t> launch_row_, sync_row_, collective_row_, inputs_row_;  // row + 1, 0 when none
  std::vector<std::int64_t> fwd_thread_;
  std::vector<KernelLaunch> launches_;
  std::vector<SyncInfo> syncs_;
  std::vector<CollectiveInfo> collectives_;
  std::vector<OpInputs> inputs_;
};

/// "[[2, 3], [], [4]]" -> {{2,3},{},{4}}. Tensor lists ([[[2,3],[4]]]) are flattened in order. Empty on malformed text.
std::vector<std::vector<std::int64_t>> parse_shapes(std::string_view json);
/// "[\"float\", \"\"]" -> {"float", ""}.
std::vector<std::string> parse_strings(std::string_view json);

}  // namespace foretrace::trace
