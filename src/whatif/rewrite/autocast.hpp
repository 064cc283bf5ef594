#pragma once
// What torch.autocast does to each operation of a step: which run in half precision, which are cast back to FP32, where casts
// appear, and which tensors are half afterwards.
//
// Autocast looks at operations as the program calls them (linear, not the addmm inside), so the answer is per unit of the
// data flow. Its lists are PyTorch's; what is on neither list follows its inputs, and operands of two types give FP32. Casts
// of parameters are made once a step, casts of activations once per use.
//
// Where autocast is on for some layers only, the others compute in FP32 as before; what they read of a half tensor is cast
// back once, where it leaves the layers that are half.

#include <cstdint>
#include <string_view>
#include <vector>

#include "whatif/dataflow/dataflow.hpp"

namespace foretrace::whatif {

enum class Precision : std::uint8_t {
  kFloat,  ///< runs in FP32 as before
  kHalf,   ///< all tensors half
  kMixed,  ///< half and FP32 operands together; the result is FP32
};

struct Cast {
  std::int64_t elements = 0;
  std::uint32_t value = 0;  ///< what is cast
  bool weight = false;      ///< a parameter
  bool to_float = false;
  bool gradient = true;        ///< cast back in the backward pass
  bool replaces_copy = false;  ///< in backward, the cast takes the place of a copy the trace has
};

struct AutocastUnit {
  Precision precision = Precision::kFloat;
  bool sums_half = false;   ///< gradients added up at its inputs are half
  bool reads_half = false;  ///< an FP32 result from half inputs in one kernel (softmax)
  std::vector<Cast> casts;  ///< in front of it
  std::vector<std::int64_t>
      narrowed;  ///< elements of gradients its backward pass hands on as half though it computes FP32
};

/// What parameters are where operations compute in half precision.
enum class HalfParameters : std::uint8_t {
  kCast,      ///< FP32, cast for their uses; their gradients are cast back (autocast)
  kGathered,  ///< half while a pass uses them; whoever gathers them keeps the account of them and of their gradients (FSDP)
  kKept,      ///< half themselves, with their gradients and what the optimizer keeps
};

struct Autocast {
  std::vector<AutocastUnit> units;  ///< parallel to the flow's
  std::vector<char> half;           ///< by value: is it half afterwards?
  HalfParameters parameters = HalfParameters::kCast;
};

/// Operations autocast runs in the lower precision: products of all kinds.
bool in_lower_precision(std::string_view op);

/// `inside`: by unit, whether autocast is on there; empty: everywhere.
Autocast autocast(const Dataflow& flow, const std::vector<char>& inside = {});

}  // namespace foretrace::whatif
