#pragma once
// Rows of an XLA profile, whichever file they come from: the GPU's with the instruction of the program each kernel is of,
// the host's with its calls, steps and allocations.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
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

class XlaRows {
 public:
  explicit XlaRows(Trace& trace) : t_(trace), rows(trace) {}

  /// Programs by id and by name; the bytes must outlive the rows.
  void add_program(std::int64_t id, std::string_view name, std::string_view proto);
  /// All work of a GPU, in the order of the file.
  void add_works(const std::vector<XlaWork>& works);
  /// A step range of `jax.profiler.StepTraceAnnotation`: "StepTraceAnnotation#4".
  StringId step_name(std::int64_t number);
  /// The program waits for its results in the middle of nothing (`block_until_ready` is not recorded): where a step range
  /// ends right behind the GPU's work, its last stretch without a row was that wait.
  void add_waits();
  /// How many kernels of programs are known to be of an instruction, and how many not.
  std::uint64_t known = 0, unknown = 0;

 private:
  Trace& t_;
  const HloModule* program(const XlaWork& work);
  static std::string arguments(const XlaWork& work, const std::string& details, const HloModule* module,
                               const KernelOrigin& origin);

  struct Program {
    std::string name;
    std::string_view proto;
    std::unique_ptr<HloModule> module;
    bool read = false;
  };
  std::map<std::int64_t, Program> programs_;

 public:
  EventRows rows;
};

}  // namespace foretrace::trace
