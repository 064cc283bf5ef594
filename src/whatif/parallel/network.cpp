#include "whatif/parallel/network.hpp"

#include <fmt/format.h>

#include "whatif/parallel/cluster_parameters.hpp"

namespace foretrace::whatif {

Result<Network> make_network(const NetworkChoice& choice, const hardware::Device& device) {
  Network network;
  const auto per_node = choice.gpus_per_node;
  if (per_node && (*per_node < 1 || *per_node > kMostWorkers)) {
    return fail(ErrorCode::kUsage, "--gpus-per-node must be from 1 to 16384");
  }
  if (choice.collectives) {
    FORETRACE_TRY(std::vector<hardware::CollectiveRow> rows,
                  hardware::load_collectives(*choice.collectives, choice.collectives_tag));
    FORETRACE_TRY(hardware::MeasuredCollectives measured,
                  hardware::MeasuredCollectives::make(std::move(rows), "measured collectives"));
    network.model = std::make_unique<hardware::MeasuredCollectives>(std::move(measured));
    network.gpus_per_node = static_cast<int>(per_node.value_or(1));
    return network;
  }
  if (choice.collectives_tag) {
    return fail(ErrorCode::kUsage, "--collectives-tag without --collectives", "name the file of measured collectives");
  }
  if (!choice.fabric) {
    return fail(ErrorCode::kUsage, "which network? neither --fabric nor --collectives is given",
                "'foretrace list fabrics' shows the names; --fabric DGX-H100, for example");
  }
  FORETRACE_TRY(hardware::Fabric fabric, hardware::fabric_from(*choice.fabric));
  if (per_node) {
    FORETRACE_TRY(fabric, hardware::with_gpus_per_node(fabric, static_cast<int>(*per_node), inside_node(device)));
  }
  network.gpus_per_node = fabric.gpus_per_node;
  network.model = std::make_unique<hardware::FabricCollectives>(std::move(fabric));
  return network;
}

Result<Strategy> make_strategy(const StrategyChoice& choice) {
  Strategy s;
  FORETRACE_TRY(s.scheme, parse_scheme(choice.parallel));
  FORETRACE_TRY(s.compression, parse_compression(choice.compress));
  const auto above_zero = [](const std::optional<double>& value, const char* name) -> Status {
    if (!value || *value > 0) return {};
    return fail(ErrorCode::kUsage, fmt::format("--{} must be above 0", name));
  };
  FORETRACE_TRY_VOID(above_zero(choice.bucket_mb, "bucket-mb"));
  FORETRACE_TRY_VOID(above_zero(choice.slice_mb, "slice-mb"));
  FORETRACE_TRY_VOID(above_zero(choice.slow_worker, "slow-worker"));
  if (choice.bucket_mb) {
    s.bucket_mb = *choice.bucket_mb;
    s.first_bucket_mb.reset();  // PyTorch keeps its small first bucket only when bucket_cap_mb is not given
  }
  if (choice.servers) {
    if (*choice.servers < 0 || *choice.servers > kMostWorkers) {
      return fail(ErrorCode::kUsage, "--servers must be from 0 to 16384");
    }
    if (s.scheme != Scheme::kPs && s.scheme != Scheme::kP3) {
      return fail(ErrorCode::kUsage, fmt::format("--servers: {} has no parameter servers", to_string(s.scheme)),
                  "--parallel ps or --parallel p3");
    }
    s.servers = static_cast<int>(*choice.servers);
  }
  s.slice_mb = choice.slice_mb;
  s.ring_steps = choice.ring_steps;
  s.slow_worker = choice.slow_worker.value_or(1);
  return s;
}

}  // namespace foretrace::whatif
