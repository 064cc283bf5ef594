#pragma once
// What PyTorch writes into NVTX ranges (torch.autograd.profiler.emit_nvtx, nsys --pytorch=autograd-nvtx):
//
//   "aten::mm, seq = 45368, op_id = 990812, sizes = [[2048, 768], [768, 2304]], input_op_ids = [(990811,0)]"

#include <cstdint>
#include <string_view>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

struct NvtxText {
  std::string_view name;             ///< what stands before the first of those; the whole text of other ranges
  std::int64_t sequence = kAbsent;   ///< autograd's, which ties a backward node to its forward operation
  std::int64_t operation = kAbsent;  ///< op_id
  std::string_view sizes;            ///< "[[2048, 768], [768, 2304]]", valid JSON; empty when not recorded
  /// An operation of the framework; else a range somebody put there.
  bool op = false;
};
NvtxText parse_nvtx(std::string_view text);

}  // namespace foretrace::trace
