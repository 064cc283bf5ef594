#include "cli/network.hpp"

#include <fmt/format.h>

#include "foretrace/whatif/parallel.hpp"

namespace foretrace::cli {

bool names_network(const Values& values) { return values.text("fabric") || values.text("collectives"); }

Result<search::Communication> network_asked(const Values& values, std::int64_t workers) {
  if (workers > kMostWorkers) {
    return fail(ErrorCode::kUsage, fmt::format("{} workers are more than {}", workers, kMostWorkers),
                "jobs of more workers behave like the largest one: ask for that");
  }
  if (!names_network(values)) {
    return fail(ErrorCode::kUsage, "which network? neither --fabric nor --collectives is given",
                "`foretrace list fabrics` shows the names; --fabric DGX-H100, for example");
  }
  if (values.text("collectives-tag") && !values.text("collectives")) {
    return fail(ErrorCode::kUsage, "--collectives-tag without --collectives", "name the file of measured collectives");
  }
  const std::int64_t per_node = values.integer("gpus-per-node").value_or(0);
  if (per_node > kMostWorkers) {
    return fail(ErrorCode::kUsage, fmt::format("--gpus-per-node {} is more than {}", per_node, kMostWorkers),
                "it counts the GPUs of one machine");
  }
  FORETRACE_TRY_VOID(whatif::check_nodes(workers, per_node));
  search::Communication c;
  c.workers = static_cast<int>(workers);
  c.fabric = values.text("fabric").value_or("");
  c.collectives = values.text("collectives").value_or("");
  c.collectives_tag = values.text("collectives-tag").value_or("");
  c.gpus_per_node = static_cast<int>(per_node);
  return c;
}

}  // namespace foretrace::cli
