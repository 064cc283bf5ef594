#pragma once
// What a user says about the network, and the model it becomes.

#include <memory>
#include <optional>
#include <string>

#include "foretrace/hardware/collective.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::whatif {

struct NetworkChoice {
  std::optional<std::string> fabric;           ///< a name of `list fabrics`, or a file
  std::optional<std::string> collectives;      ///< a file of measured collectives; overrides a fabric
  std::optional<std::string> collectives_tag;  ///< which rows of that file
  std::optional<std::int64_t> gpus_per_node;
};

struct Network {
  std::unique_ptr<hardware::CollectiveModel> model;
  int gpus_per_node = 1;
};

/// `device`: what joins the GPUs of a node where the fabric does not say.
Result<Network> make_network(const NetworkChoice& choice, const hardware::Device& device);

/// A strategy as users write it: names and numbers, checked.
struct StrategyChoice {
  std::string parallel = "ddp", compress = "none";
  std::optional<double> bucket_mb, slice_mb, slow_worker;
  std::optional<std::int64_t> servers;
  bool ring_steps = false;
};
Result<Strategy> make_strategy(const StrategyChoice& choice);

inline constexpr int kMostWorkers = 16384;

}  // namespace foretrace::whatif
