// The network of a job. A fabric without links inside a node gets those of the node this GPU is usually sold in.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"

namespace foretrace::whatif {

namespace {

// What joins the GPUs of a node on a fabric that only says what joins the nodes: the links of the node such GPUs are usually sold in, as
// fabrics/*.toml have them, at this GPU's own rate. Nothing says that they share a switch that reduces.
hardware::FabricLevel inside_node(const hardware::Device& device) {
  const Result<hardware::Fabric> typical = hardware::find_fabric(usual_fabric(device));
  FORETRACE_CHECK(typical.has_value());
  hardware::FabricLevel level = typical->levels.front();
  level.nvls = false;
  if (device.nvlink_gbs > 0) {
    level.gbs = device.nvlink_gbs / 2;
  } else if (device.pcie_gbs > 0) {
    level.gbs = device.pcie_gbs;
    level.efficiency = 1;  // the device's figure is what copies reach
  }
  return level;
}

}  // namespace

std::string usual_fabric(const hardware::Device& device) {
  if (device.nvlink_gbs >= 1800) return "DGX-B200";
  if (device.nvlink_gbs >= 900) return "DGX-H100";
  if (device.nvlink_gbs >= 600) return "DGX-A100";
  if (device.nvlink_gbs >= 300) return "NVLink2";
  return device.pcie_gbs > 30 ? "PCIe5" : device.pcie_gbs > 15 ? "PCIe4" : "PCIe3";
}

Status check_nodes(std::int64_t workers, std::int64_t per_node) {
  if (per_node <= 0 || workers <= per_node || workers % per_node == 0) return {};
  return fail(
      ErrorCode::kUsage,
      fmt::format("{} workers do not fill nodes of {}: {} would be left over", workers, per_node, workers % per_node),
      "GPUs per node divide the number of workers, or are at least as many");
}

Result<Network> network_of(const NetworkChoice& choice, const hardware::Device& device) {
  if (!choice.collectives.empty()) {
    const auto tag = choice.collectives_tag.empty() ? std::nullopt : std::optional(choice.collectives_tag);
    FORETRACE_TRY(std::vector<hardware::CollectiveRow> rows, hardware::load_collectives(choice.collectives, tag));
    FORETRACE_TRY(hardware::MeasuredCollectives measured,
                  hardware::MeasuredCollectives::make(std::move(rows), "measured collectives"));
    return Network{std::make_shared<hardware::MeasuredCollectives>(std::move(measured)),
                   std::max(1, choice.gpus_per_node), "measured collectives"};
  }
  if (choice.fabric.empty()) {
    return fail(ErrorCode::kUsage, "which network? neither a fabric nor measured collectives are given",
                "`foretrace list fabrics` shows the names");
  }
  FORETRACE_TRY(hardware::Fabric fabric, hardware::fabric_from(choice.fabric));
  if (choice.gpus_per_node > 0) {
    FORETRACE_TRY(fabric, hardware::with_gpus_per_node(fabric, choice.gpus_per_node, inside_node(device)));
  }
  Network out{nullptr, fabric.gpus_per_node, fabric.name};
  out.collectives = std::make_shared<hardware::FabricCollectives>(std::move(fabric));
  return out;
}

}  // namespace foretrace::whatif
