#pragma once
// Rows of an XLA profile, from either kind of file: the GPU's with the program instruction that each kernel belongs to, the
// host's with its calls, steps and allocations.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trace/importers/event_rows.hpp"
#include "trace/importers/hlo_match.hpp"
#include "trace/importers/xla_names.hpp"

namespace foretrace::trace {

/// A row of a stream, before it is known what program it is of.
struct XlaWork {
  Ns start = 0, duration = 0;
  StringId name;         ///< of Trace::strings, as the file has it
  StringId details;      ///< kernel_details, memcpy_details or memset_details
  StringId instruction;  ///< hlo_op
  StringId module;       ///< hlo_module
  std::int64_t program = kAbsent;
  std::int64_t device = 0, stream = 0, context = 0;
  std::int64_t correlation = kAbsent, graph = kAbsent, node = kAbsent;
};

/// A row of a thread.
struct XlaHost {
  Ns start = 0, duration = 0;
  StringId name;  ///< as the file has it
  LaneId lane;
  std::int64_t step = kAbsent;  ///< of a range that marks one
  std::int64_t correlation = kAbsent;
  std::int64_t device = kAbsent;  ///< the GPU a call is for, an allocation on
  MemoryIds memory;
};

class XlaRows {
 public:
  explicit XlaRows(Trace& trace) : t_(trace), rows(trace) {}

  /// Programs by id and by name; the bytes must outlive the rows.
  void add_program(std::int64_t id, std::string_view name, std::string_view proto);
  /// All work of a GPU, in the order of the file.
  void add_works(const std::vector<XlaWork>& works);
  /// A call, a step (`jax.profiler.StepTraceAnnotation` becomes "StepTraceAnnotation#4"), an allocation, Python, or whatever
  /// else a thread did.
  void add_host(const XlaHost& host);
  /// The program waits for its results in the middle of nothing (`block_until_ready` is not recorded): where a step range
  /// ends right behind the GPU's work, its last stretch without a row was that wait.
  void add_waits();
  /// How many kernels of programs are known to be of an instruction, and how many not.
  std::uint64_t known = 0, unknown = 0;

 private:
  Trace& t_;
  std::unordered_set<std::int64_t> launched_;  // correlation ids of what ran on the GPU
  const HloModule* program(const XlaWork& work);
  /// What a row of a thread is by its name alone: calls have few names and many rows.
  struct HostName {
    EventKind kind = EventKind::kOther;
    StringId call;  ///< of a runtime or driver call, without what stands behind it
    std::uint16_t category = 0;
    bool known = false;
  };
  const HostName& host_name(StringId name);
  [[nodiscard]] std::string arguments(const XlaWork& work, const std::string& details, const HloModule* module,
                                      const KernelOrigin& origin) const;

  struct Program {
    std::string name;
    std::string_view proto;
    std::unique_ptr<HloModule> module;
    bool read = false;
  };
  std::map<std::int64_t, Program> programs_;
  std::vector<HostName> host_names_;  // by StringId

 public:
  EventRows rows;
};

}  // namespace foretrace::trace
