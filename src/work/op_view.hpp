#pragma once
// The inputs of an operation as recorded: one entry per argument, with shapes, strides, element type and the printed value
// of scalars. Tensor lists keep their members together.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foretrace/trace/trace.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::work {

using Shape = std::vector<std::int64_t>;

std::int64_t elements_of(const Shape& shape);

/// Bytes of one element by the trace's spelling: 8 for "long int", 2 for "c10::Half", 1 for "bool"; 0 when it is no tensor.
std::int64_t element_bytes(std::string_view type);
/// The same by any spelling, those of execution traces and of records of collectives among them ("BFloat16"); 0 when unknown.
std::int64_t recorded_bytes(std::string_view type);

struct Argument {
  std::vector<Shape> shapes;   ///< one for a tensor, several for a tensor list, none recorded for long lists
  std::vector<Shape> strides;  ///< parallel to shapes where recorded
  std::string type;            ///< "float", "Scalar", "TensorList", …
  std::string value;           ///< scalars: "0.1", "[1, 1]", "True"

  [[nodiscard]] bool tensor() const { return element_bytes(type) > 0 && !shapes.empty(); }
  [[nodiscard]] bool list() const { return type == "TensorList"; }
  [[nodiscard]] const Shape& shape() const { return shapes.front(); }
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::int64_t bytes() const { return elements() * element_bytes(type); }
  /// Elements in row-major order without holes; true when strides were not recorded.
  [[nodiscard]] bool contiguous() const;
  /// Channels innermost (NHWC), with more than one channel and pixel.
  [[nodiscard]] bool channels_last() const;
};

/// A tensor's order in memory: its dimensions from outermost to innermost by stride, those of one element left out.
struct Order {
  std::vector<std::size_t> dims;
  bool dense = true;  ///< no holes and no repetition (broadcast by stride 0)
  friend bool operator==(const Order&, const Order&) = default;
};
Order order_of(const Shape& shape, const Shape& strides);

class OpView {
 public:
  /// `untyped`: the element type of tensors where the trace has shapes and no types (NVTX ranges), "float".
  OpView(const trace::Trace& trace, ArgsId args, std::string_view untyped = {});
  /// The same operation on other tensors.
  explicit OpView(std::vector<Argument> arguments) : arguments_(std::move(arguments)) {}

  [[nodiscard]] std::size_t size() const { return arguments_.size(); }
  [[nodiscard]] const Argument& operator[](std::size_t i) const { return arguments_[i]; }
  [[nodiscard]] const std::vector<Argument>& arguments() const { return arguments_; }
  /// True when argument i is a tensor with a recorded shape of at least `rank` dimensions.
  [[nodiscard]] bool tensor(std::size_t i, std::size_t rank = 0) const;
  /// A scalar or the elements of a scalar list; `otherwise` when absent.
  [[nodiscard]] std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  [[nodiscard]] Shape integers(std::size_t i) const;
  /// A scalar's value, 0 when absent.
  [[nodiscard]] double number(std::size_t i) const;
  [[nodiscard]] bool flag(std::size_t i) const { return i < size() && arguments_[i].value == "True"; }
  [[nodiscard]] std::vector<bool> flags(std::size_t i) const;
  /// The first tensor with at least one dimension, size() when none.
  [[nodiscard]] std::size_t first_tensor() const;

 private:
  std::vector<Argument> arguments_;
};

}  // namespace foretrace::work
