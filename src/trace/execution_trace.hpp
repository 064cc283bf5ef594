#pragma once
// PyTorch's execution trace, recorded with the profiler's: "out.et.json.gz" next to "out.json.gz". It identifies the tensors that every
// operation reads and writes, which the profiler's does not; both number operations alike (the record function id).
//
// The tensors are stored in the trace's metadata, under kTensorsKey, so that they stay with the trace.
//
//   attach_execution_trace(trace);                       // as load does
//   const TensorIdentities tensors(trace);
//   if (const auto* op = tensors.of(event)) for (const TensorUse& in : op->inputs) … in.tensor, in.storage

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

inline constexpr std::string_view kTensorsKey = "foretraceTensors";

/// A tensor an operation takes or gives. Numbers are those of objects in memory: a later tensor may have the number of one that is
/// gone, so they are followed in the order of the program.
struct TensorUse {
  std::size_t argument = 0;  ///< of inputs; several of one argument where that is a list
  std::int64_t tensor = 0, storage = 0;
  std::vector<std::int64_t> shape;  ///< of outputs
};

class TensorIdentities {
 public:
  struct Operation {
    std::vector<TensorUse> inputs;
    std::vector<TensorUse> outputs;  ///< those with floating-point elements
  };

  /// Empty where the trace came without an execution trace.
  explicit TensorIdentities(const Trace& trace);
  [[nodiscard]] const Operation* of(std::uint32_t event) const {
    const auto at = operations_.find(event);
    return at == operations_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] bool empty() const { return operations_.empty(); }

 private:
  std::unordered_map<std::uint32_t, Operation> operations_;
};

/// Reads the execution trace next to the trace's file, if there is one. One that cannot be used is counted among the trace's
/// problems, as is one of another run: without it everything works as it does without one.
void attach_execution_trace(Trace& trace);

/// Adds what the text of an execution trace says of the operations of a trace; how many of them it knows, or -1 when it is none.
std::int64_t add_tensors(Trace& trace, std::string_view execution_trace);

}  // namespace foretrace::trace
