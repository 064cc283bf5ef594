#pragma once
// NCCL marks each of its calls with an NVTX range and says in the range's payload how many bytes it moves and in which
// communicator. A kernel is launched inside the range of its call, or, where calls are grouped, inside the ncclGroupEnd that
// closes the group. Which kernel is of which call follows from that, and the kernel gets the arguments that PyTorch's profiler
// writes on it ("Collective name", "In msg nelems", …).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/trace/trace.hpp"
#include "trace/importers/nvtx_payload.hpp"

namespace foretrace::trace {

class NcclRanges {
 public:
  struct Span {
    LaneId thread;
    Ns start = 0, end = 0;
  };
  /// A range called `name` ("ncclAllReduce"); others are left alone.
  void add(const Span& span, std::string_view name, const NvtxPayloads::Values& payload);
  /// When all rows are there and arguments are not decoded yet: kernels get their collective, and a trace that does not know
  /// its rank gets that of its largest communicator.
  void name_collectives(Trace& trace) const;

 private:
  struct Call {
    Span span;
    std::string_view what;  ///< as PyTorch calls it: "allreduce"; or the begin or end of a group
    std::int64_t bytes = kAbsent;
    std::int64_t communicator = kAbsent;
    std::int64_t peer = kAbsent;
  };
  struct Communicator {
    std::int64_t ranks = kAbsent, rank = kAbsent;
  };
  /// What the kernels launched in one stretch of a thread are of.
  struct Window {
    Span span;
    std::vector<Call> calls;
  };

  [[nodiscard]] std::vector<Window> windows() const;
  static std::vector<std::vector<Call>> together(const std::vector<Call>& calls);
  [[nodiscard]] std::int64_t ranks_of(const Call& call, const Trace& trace) const;
  [[nodiscard]] std::string arguments(const std::vector<Call>& calls, std::string_view kernel,
                                      const Trace& trace) const;

  std::vector<Call> calls_;
  std::map<std::int64_t, Communicator> communicators_;
};

}  // namespace foretrace::trace
