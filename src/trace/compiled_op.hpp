#pragma once
// What a compiler records about a kernel it generated or called: the operation of its program, the layer and phase that operation came
// from, and its sizes. Importers write it into the kernel's arguments (`compiled_op_json`); where it is present,
// nothing has to be inferred from the CPU, which in a compiled program makes one call for hundreds of kernels.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

struct CompiledOp {
  std::string operation;  ///< "custom-call.81", as the program calls it
  std::string layer;      ///< "block0"; empty when no scope names one
  std::string phase;      ///< "forward", "backward", "optimizer"
  std::string
      family;  ///< "gemm", "convolution", "attention", "reduction", "gather", "copy", "elementwise", "collective"
  std::string dtype;  ///< "f32", of what is computed on; "tf32" for products of FP32 operands that may run so
  std::string out_dtype;
  bool of_parameters = false;  ///< works on parameters only: does not grow with the batch
  bool sums_samples = false;   ///< what it sums over grows with the batch, not what it writes: a weight's gradient
  std::int64_t part = 0;       ///< of the kernels of one operation, which
  double flops = 0;            ///< multiply-adds count two
  double bytes_read = 0, bytes_written = 0;
  /// Of those, bytes whose type stays when the program's becomes another: indices and masks; what half programs keep in FP32.
  double fixed_read = 0, fixed_written = 0;
  std::int64_t weight = 0;             ///< elements of a product's operand in which no sample is
  std::int64_t elements = 0;           ///< of what it writes; of what it reads for a reduction
  std::int64_t rows = 0;               ///< of a reduction: results; of a gather: rows fetched
  std::array<std::int64_t, 4> gemm{};  ///< batch, m, n, k; all 0 when it is no product
  /// Of a convolution: N C H W of its input, channels, height and width of its output, of its kernel height and width,
  /// stride, groups, 1 when channels are innermost.
  std::array<std::int64_t, 12> conv{};
};

/// The members of a JSON object, with a comma in front, for an argument tuple.
std::string compiled_op_json(const CompiledOp& op);
/// Read from an event's arguments; nothing where no compiler wrote any.
std::optional<CompiledOp> compiled_op(const Trace& trace, ArgsId args);

}  // namespace foretrace::trace
