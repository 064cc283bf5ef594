#pragma once
// Which value of a dataflow a tensor's number stands for, where an execution trace names tensors. Numbers are those of objects in memory
// and come again when an object is gone, so they hold only until another operation, of whatever thread, gives a tensor of that number.

#include <cstdint>
#include <map>
#include <vector>

#include "foretrace/base/types.hpp"
#include "trace/execution_trace.hpp"

namespace foretrace::whatif {

class NamedTensors {
 public:
  explicit NamedTensors(const trace::Trace& trace) : trace_(trace), tensors_(trace) {}

  using Operation = trace::TensorIdentities::Operation;
  [[nodiscard]] const Operation* of(std::uint32_t event) const { return tensors_.of(event); }

  /// The operations the dataflow looks at, ascending by time; what all others give is forgotten as time goes by.
  void follow(const std::vector<std::uint32_t>& operations);
  /// Forgets what operations that are not followed gave before `at`. Times must not go back.
  void advance(Ns at);
  /// Forgets what stood for the tensors an operation makes.
  void forget(std::uint32_t event);

  /// The value a number stands for now; kNone for one not seen yet, to be set by the caller.
  std::uint32_t& value(std::int64_t tensor);

  /// The tensors of an argument of an operation, when as many are named as it holds; else as many nulls.
  [[nodiscard]] std::vector<const trace::TensorUse*> uses(const Operation* operation, std::size_t argument,
                                                          std::size_t count) const;

 private:
  const trace::Trace& trace_;
  trace::TensorIdentities tensors_;
  std::vector<std::uint32_t> others_;  // by end
  std::size_t next_ = 0;
  std::map<std::int64_t, std::uint32_t> values_;
};

}  // namespace foretrace::whatif
