#pragma once
// Which tensors a step's forward pass hands from operation to operation. A trace names no tensors: it records shapes and
// strides of inputs, the sizes views are made with, and the order of operations. From these each input is traced to the
// operation that wrote it. Where several tensors of one shape are alive, the choice follows how programs are
// written (a matrix product is rarely fed by another one; a result that was reshaped is used through its new shape; of two
// equal operands one is fresh and the other a residual). An execution trace next to the trace identifies the tensors: then nothing is
// guessed.
//
//   const Dataflow flow = forward_flow(model);
//   for (const Unit& u : flow.units) for (const Input& in : u.inputs) flow.values[in.value].producer …

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "foretrace/whatif/whatif.hpp"
#include "whatif/dataflow/op_facts.hpp"
#include "work/op_view.hpp"

namespace foretrace::whatif {

/// A tensor, or a view of one.
struct Value {
  work::Shape shape;                     ///< empty while unknown
  std::uint32_t producer = kNone;        ///< unit; kNone: there before the step (parameters, buffers, constants)
  std::uint32_t storage = 0;             ///< the value whose memory it shares; itself when it has its own
  std::vector<std::uint32_t> consumers;  ///< units, ascending
};

struct Input {
  std::size_t argument = 0;
  std::uint32_t value = 0;
  std::int64_t elements = 0;
};

/// An outermost operation of the forward pass.
struct Unit {
  std::uint32_t event = 0;
  std::string_view name;      ///< "aten::linear"
  std::vector<Input> inputs;  ///< floating-point tensors
  std::vector<std::uint32_t> outputs;
  bool computes = false;  ///< launches GPU work; else it only makes views
};

struct Dataflow {
  std::vector<Unit> units;  ///< in program order
  std::vector<Value> values;

  /// The unit an operation of the forward pass belongs to; kNone when none.
  [[nodiscard]] std::uint32_t unit_of(std::uint32_t event) const;
  /// The unit whose gradient an operation of the backward pass computes, by sequence number.
  struct Backward {
    std::uint32_t unit = kNone;
    bool sums = false;      ///< adds gradients up or hands them on; not the node's own arithmetic
    std::string_view node;  ///< "AddmmBackward0"
  };
  [[nodiscard]] Backward backward_of(std::uint32_t event) const;
  /// The value whose content a view shows, through views of views.
  [[nodiscard]] std::uint32_t content(std::uint32_t value) const;

  const trace::Trace* trace = nullptr;
  LaneId lane;
  std::vector<Ns> begins;  ///< of units
  struct Node {
    Ns begin, end;
    LaneId lane;
    std::int64_t sequence;
    std::string_view name;
    Ns work_begin, work_end;  ///< the node's own function within it
  };
  std::vector<Node> nodes;                                        ///< autograd nodes, by lane and begin
  std::vector<std::pair<std::int64_t, std::uint32_t>> sequences;  ///< sequence number -> unit, sorted
};

Dataflow forward_flow(const Model& model);
/// The same, once for all models that have this graph.
std::shared_ptr<const Dataflow> shared_flow(const Model& model);

}  // namespace foretrace::whatif
