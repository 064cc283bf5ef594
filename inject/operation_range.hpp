#pragma once
// PyTorch's emit_nvtx writes what it knows of an operation into the name of its range:
//   aten::addmm, seq = 12, op_id = 7, sizes = [[10], [64, 512], [512, 10]], input_op_ids = [(5,0)]

#include <cstdint>
#include <optional>
#include <string_view>

namespace foretrace::inject {

struct OperationRange {
  std::string_view name;
  std::optional<std::int64_t> sequence;
  std::string_view sizes;  ///< a JSON array, or empty
};

/// nullopt for a range of anyone else's.
std::optional<OperationRange> operation_range(std::string_view text);

}  // namespace foretrace::inject
