#pragma once
// Which operations of a trace are inside which: the chain a glob over operations is matched against. A kernel launched by
// aten::addmm inside aten::linear works for both.

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "foretrace/trace/trace.hpp"

namespace foretrace::whatif {

/// Sorts the trace's operations at the first question and remembers; may be shared by threads.
class OpChains {
 public:
  explicit OpChains(const trace::Trace& trace) : trace_(trace) {}

  /// Of every event of the trace, whether it is an operation whose name, or that of one around it, matches the glob.
  [[nodiscard]] std::vector<bool> matching(const std::string& glob) const;
  /// The operation directly around this one; kNone for the outermost.
  [[nodiscard]] std::uint32_t around(std::uint32_t op) const;
  /// The outermost operation around this one, itself when nothing is.
  [[nodiscard]] std::uint32_t outermost(std::uint32_t op) const;

 private:
  void find_parents() const;

  const trace::Trace& trace_;
  mutable std::once_flag found_;
  mutable std::vector<std::uint32_t> order_;   // operations, each behind the one around it
  mutable std::vector<std::uint32_t> parent_;  // by event
};

}  // namespace foretrace::whatif
