#pragma once
// The parameters the what-ifs of several workers share, and what they make of them.

#include "foretrace/whatif/parallel.hpp"

namespace foretrace::whatif {

/// workers, fabric, gpus_per_node, and bucket_mb where the scheme has buckets.
std::vector<Parameter> cluster_parameters(bool buckets);

inline constexpr int kMostServers = 16384;
/// servers: how many parameter servers have machines of their own.
Parameter servers_parameter();
/// Nodes are full, unless one holds all workers. `per_node` 0: the fabric's own, which may be cut.
Status check_nodes(std::int64_t workers, std::int64_t per_node);

Result<int> servers_of(const Parameters& parameters);

/// Applies a strategy on the cluster the parameters name.
Status apply_on_cluster(Model& model, Draft& draft, const Parameters& parameters, Strategy strategy);

/// What joins the GPUs of a node on a fabric that only says what joins the nodes.
hardware::FabricLevel inside_node(const hardware::Device& device);

}  // namespace foretrace::whatif
