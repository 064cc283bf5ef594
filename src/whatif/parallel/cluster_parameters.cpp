#include "whatif/parallel/cluster_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "whatif/whole_number.hpp"

namespace foretrace::whatif {

namespace {

constexpr const char* kUsual = "usual";

// The node this GPU is usually sold in.
std::string usual_fabric(const hardware::Device& device) {
  if (device.nvlink_gbs >= 1800) return "DGX-B200";
  if (device.nvlink_gbs >= 900) return "DGX-H100";
  if (device.nvlink_gbs >= 600) return "DGX-A100";
  if (device.nvlink_gbs >= 300) return "NVLink2";
  return device.pcie_gbs > 30 ? "PCIe5" : device.pcie_gbs > 15 ? "PCIe4" : "PCIe3";
}

// A wrong name is said before the trace is read.
Status check_fabric(const std::string& name) {
  if (name == kUsual) return {};
  FORETRACE_TRY_VOID(hardware::fabric_from(name));
  return {};
}

}  // namespace

std::vector<Parameter> cluster_parameters(bool buckets) {
  std::vector<Parameter> all = {
      {"workers", "number of workers", "8", {}, ParameterType::kNumber, false, 1, whole_number<>},
      {"fabric",
       "the network: a name of `list fabrics`, or a file; default: this GPU's usual node",
       kUsual,
       {},
       ParameterType::kText,
       false,
       0,
       check_fabric},
      {"gpus_per_node", "GPUs that share a node; default: the fabric's", "0", {}, ParameterType::kNumber, false, -1,
       whole_number<>}};
  if (buckets) {
    all.push_back({"bucket_mb",
                   "gradients reduced at once, MiB; default: 25, the first 1",
                   "25",
                   {},
                   ParameterType::kNumber,
                   false,
                   0});
  }
  return all;
}

Parameter servers_parameter() {
  return {"servers",
          "parameter servers on machines of their own; 0: one beside each worker",
          "0",
          {},
          ParameterType::kNumber,
          false,
          -1};
}

Result<int> servers_of(const Parameters& p) {
  const double servers = p.number("servers");
  if (servers < 0 || servers > kMostServers || servers != std::floor(servers)) {
    return fail(ErrorCode::kDeclined, fmt::format("servers must be a whole number from 0 to {}", kMostServers));
  }
  return static_cast<int>(servers);
}

Status check_nodes(std::int64_t workers, std::int64_t per_node) {
  if (per_node <= 0 || workers <= per_node || workers % per_node == 0) return {};
  return fail(ErrorCode::kUsage,
              fmt::format("{} workers do not fill nodes of {}: {} would be left over", workers, per_node,
                          workers % per_node),
              "GPUs per node divide the number of workers, or are at least as many");
}

hardware::FabricLevel inside_node(const hardware::Device& device) {
  if (device.nvlink_gbs > 0) {
    constexpr double kReached = 0.8;  // as in the NVLink files
    return {"NVLink", hardware::LinkKind::kNvlink, device.nvlink_gbs / 2, false, kReached, 1, 0, false};
  }
  constexpr double kPcie3 = 12;
  return {"PCIe", hardware::LinkKind::kPcie, device.pcie_gbs > 0 ? device.pcie_gbs : kPcie3, false, 1, 1, 0, false};
}

Status apply_on_cluster(Model& model, Draft& draft, const Parameters& p, Strategy strategy) {
  constexpr double kMostWorkers = 16384;
  const double workers = p.number("workers");
  if (workers > kMostWorkers || workers < 2) {
    return fail(ErrorCode::kDeclined, "workers must be from 2 to 16384");
  }
  FORETRACE_TRY_VOID(check_nodes(static_cast<int>(workers), static_cast<int>(p.number("gpus_per_node"))));
  const bool given = p.given("fabric") && p.text("fabric") != kUsual;
  const std::string name = given ? p.text("fabric") : usual_fabric(model.device);
  FORETRACE_TRY(hardware::Fabric fabric, hardware::fabric_from(name));
  if (p.given("gpus_per_node") && p.number("gpus_per_node") >= 1) {
    FORETRACE_TRY(fabric, hardware::with_gpus_per_node(fabric, static_cast<int>(p.number("gpus_per_node")),
                                                       inside_node(model.device)));
  }
  if (!given) model.not_modelled.push_back(fmt::format("the network was not named: {} assumed", name));
  if (strategy.first_bucket_mb && p.given("bucket_mb")) {
    strategy.bucket_mb = p.number("bucket_mb");
    strategy.first_bucket_mb.reset();
  }
  FORETRACE_TRY(const Gradients gradients, find_gradients(model));
  const int per_node = fabric.gpus_per_node;
  const hardware::FabricCollectives collectives(std::move(fabric));
  return apply_strategy(model, draft, gradients, strategy, {&collectives, static_cast<int>(workers), per_node});
}

}  // namespace foretrace::whatif
