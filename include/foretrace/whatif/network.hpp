#pragma once
// The network between workers: from a fabric's name, its file, or measured collectives to what a collective costs.

#include <memory>
#include <string>

#include "foretrace/hardware/collective.hpp"
#include "foretrace/hardware/device.hpp"

namespace foretrace::whatif {

struct NetworkChoice {
  std::string fabric = {};       ///< name or file
  std::string collectives = {};  ///< file of measured collectives instead
  std::string collectives_tag = {};
  int gpus_per_node = 0;  ///< 0: the fabric's own
};

struct Network {
  std::shared_ptr<const hardware::CollectiveModel> collectives;
  int gpus_per_node = 1;
};
/// A wrong name of a fabric, or a file that cannot be read, is an error; so is a choice of nothing.
Result<Network> network_of(const NetworkChoice& choice, const hardware::Device& device);

/// Nodes are full, unless one holds all workers. `per_node` 0: the fabric's own, which may be cut.
Status check_nodes(std::int64_t workers, std::int64_t per_node);

/// The node this GPU is usually sold in, as a fabric.
std::string usual_fabric(const hardware::Device& device);

}  // namespace foretrace::whatif
