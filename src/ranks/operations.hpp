#pragma once
// The operations behind the communication kernels of one rank. Most kernels name theirs. A kernel of a coalesced batch does not:
// its operations were recorded on the CPU, one after another, before it was launched.

#include <cstdint>
#include <string>
#include <vector>

#include "foretrace/base/types.hpp"
#include "foretrace/trace/trace.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::ranks {

/// One operation of a kernel; a kernel of batch_isend_irecv has several.
struct Operation {
  std::uint32_t event = 0;  ///< the kernel
  Ns start = 0, end = 0;    ///< absolute
  Ns launched = 0;          ///< since the trace's base; the kernel's start where no launch is recorded
  CollectiveKind kind = CollectiveKind::kOther;
  std::int64_t bytes = -1;  ///< as RecordedCollective
  std::int64_t sequence = trace::kAbsent;
  std::string group;    ///< its process group's name; empty: unknown
  std::string members;  ///< its ranks as printed; empty: unknown
  std::string description;
  std::int64_t size = -1;
  std::int64_t from = -1, to = -1;  ///< of send and receive: ranks of the job; -1 unknown
};

/// In the order of the trace's kernels. `rank`: which one this is.
std::vector<Operation> operations_of(const trace::Trace& trace, std::int64_t rank);

}  // namespace foretrace::ranks
