#pragma once
// The process groups a trace names: in its "distributedInfo", and in the records of collectives.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/trace/trace.hpp"

namespace foretrace::ranks {

struct ProcessGroup {
  std::string description;          ///< "mesh_tp"; empty where the trace has none
  std::vector<std::int64_t> ranks;  ///< of the job; empty: unknown
};

/// By name. Empty when the trace has no "distributedInfo", or one without groups.
std::map<std::string, ProcessGroup, std::less<>> process_groups(const trace::Trace& trace);

/// "[0, 2]" -> {0, 2}. Empty when the list is cut ("[0, 1, ..., 63]") or no list.
std::vector<std::int64_t> listed_ranks(std::string_view text);

}  // namespace foretrace::ranks
