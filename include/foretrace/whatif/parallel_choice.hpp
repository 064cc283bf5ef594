#pragma once
// How workers share the work as users write it, on the command line, in Python and as parameters of a what-if: names and
// numbers, checked.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/whatif/parallel.hpp"

namespace foretrace::whatif {

inline constexpr int kMostWorkers = 16384;
inline constexpr int kMostServers = 16384;

struct ParallelChoice {
  std::string parallel = "ddp", compress = "none";
  std::optional<double> bucket_mb = {}, slice_mb = {}, slow_worker = {}, cycle_ms = {}, send_us = {};
  std::optional<double> ratio = {};  ///< share of elements top-k and DGC send
  std::optional<std::int64_t> servers = {}, rank = {};
  bool ring_steps = false;
  bool priorities = true;
  bool flat = false;  ///< FSDP of the first kind
};
std::vector<std::string> compression_names();
Result<Parallelism> make_parallelism(const ParallelChoice& choice);

}  // namespace foretrace::whatif
