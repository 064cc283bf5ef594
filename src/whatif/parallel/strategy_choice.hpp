#pragma once
// A strategy as users write it on the command line and in Python: names and numbers, checked.

#include <cstdint>
#include <optional>
#include <string>

#include "foretrace/whatif/parallel.hpp"

namespace foretrace::whatif {

struct StrategyChoice {
  std::string parallel = "ddp", compress = "none";
  std::optional<double> bucket_mb, slice_mb, slow_worker, cycle_ms, send_us;
  std::optional<std::int64_t> servers;
  bool ring_steps = false;
};
Result<Strategy> make_strategy(const StrategyChoice& choice);

}  // namespace foretrace::whatif
