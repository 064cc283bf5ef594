#include "ranks/group_role.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

namespace foretrace::ranks {
namespace {

// Norms, losses and flags are a few numbers; gradients are as many as parameters. Below this share of what the job moves, it is the former.
constexpr double kSmallShare = 1e-3;

// What a description says in words of its own: "mesh_tp", "TENSOR_MODEL_PARALLEL_GROUP", "dp_shard_cp".
std::optional<Parallelism> described(std::string_view description) {
  std::string words;
  for (const char c : description)
    words += static_cast<char>(std::isalnum(static_cast<unsigned char>(c)) ? std::tolower(c) : '_');
  words = "_" + words + "_";
  constexpr std::array<std::pair<std::string_view, Parallelism>, 13> kWords{{{"_dp_shard", Parallelism::kSharded},
                                                                             {"_fsdp_", Parallelism::kSharded},
                                                                             {"_dp_replicate_", Parallelism::kData},
                                                                             {"_tp_", Parallelism::kTensor},
                                                                             {"_tensor_", Parallelism::kTensor},
                                                                             {"_cp_", Parallelism::kContext},
                                                                             {"_context_", Parallelism::kContext},
                                                                             {"_ep_", Parallelism::kExpert},
                                                                             {"_expert_", Parallelism::kExpert},
                                                                             {"_pp_", Parallelism::kPipeline},
                                                                             {"_pipeline_", Parallelism::kPipeline},
                                                                             {"_dp_", Parallelism::kData},
                                                                             {"_data_", Parallelism::kData}}};
  for (const auto& [word, kind] : kWords) {
    if (words.find(word) != std::string::npos) return kind;
  }
  return std::nullopt;
}

}  // namespace

bool Role::has(CollectiveKind operation) const {
  switch (operation) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kGather:
      return gathers;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kScatter:
      return scatters;
    case CollectiveKind::kAllToAll:
      return exchanges;
    case CollectiveKind::kSendRecv:
      return sends;
    default:
      return reduces;
  }
}

Roles roles_of(const GroupUse& use, double job_total, bool in_pipeline, std::string_view description) {
  Roles out;
  const std::optional<Parallelism> named = described(description);
  const auto matters = [&](const Volume& v) { return v.total() > kSmallShare * job_total; };
  Role shared;  // what divides activations or parameters takes all but messages and exchanges
  bool open = false;
  const auto add = [&](Parallelism kind) -> Role& {
    out.roles.push_back({.kind = kind});
    return out.roles.back();
  };
  if (use.sent.total() > 0) add(in_pipeline ? Parallelism::kPipeline : Parallelism::kContext).sends = true;
  if (matters(use.exchanged)) {
    Parallelism kind = use.cores > 0     ? Parallelism::kContext
                       : use.lookups > 0 ? Parallelism::kTables
                                         : Parallelism::kExpert;
    if (named == Parallelism::kContext || named == Parallelism::kExpert) kind = *named;
    if (kind == Parallelism::kContext) {
      shared = {.kind = kind, .exchanges = true};
      open = true;
    } else {
      add(kind).exchanges = true;
    }
  }
  const bool scatters = matters(use.scattered), reduces = matters(use.reduced);
  // Buffers and statistics are small compared to gradients; parameters are as large.
  const double gradients = use.reduced.total() + use.scattered.total();
  const bool gathers = matters(use.gathered) && use.gathered.total() > kActivationShare * gradients;
  const bool placed = use.reduced.forward + use.reduced.backward + use.scattered.forward + use.scattered.backward > 0;
  if (!placed && (reduces || scatters) && named && !open) {
    shared.kind = *named;  // no phase says more
    open = true;
  } else if (scatters && use.scattered.carries_activations()) {
    shared.kind = Parallelism::kTensor;
    out.sequence_parallel = open = true;
  } else if (reduces && use.reduced.carries_activations()) {
    shared.kind = Parallelism::kTensor;
    open = true;
  } else if (gathers && 2 * use.to_attention > use.gathered.forward && use.gathered.forward > 0) {
    shared.kind = Parallelism::kContext;
    open = true;
  } else if (gathers && (scatters || reduces)) {
    // Parameters, and the gradients of those. Gathered again in backward: they are not kept.
    const bool kept = use.gathered.backward <= 0;
    out.zero = !kept ? 3 : 1;
    shared.kind = kept ? Parallelism::kData : Parallelism::kSharded;
    open = true;
  } else if (gathers && use.gathered.backward <= 0 && use.gathered.forward > 0) {
    shared.kind = named.value_or(Parallelism::kTensor);  // parts of activations, in a step without gradients
    open = true;
  } else if (gathers) {
    shared.kind = Parallelism::kSharded;  // parameters that have no gradients
    out.zero = 3;
    open = true;
  } else if (!open && (reduces || scatters)) {
    shared.kind = Parallelism::kData;
    open = true;
  }
  if (open) {
    // Ranks that divide one sample's work reduce the gradients of what they share, too: that makes them no data-parallel ones.
    shared.reduces = shared.gathers = shared.scatters = true;
    out.roles.push_back(shared);
  } else if (out.roles.empty() || use.reduced.total() + use.gathered.total() + use.scattered.total() > 0) {
    Role& rest = add(Parallelism::kOther);
    rest.reduces = rest.gathers = rest.scatters = true;
    rest.exchanges = !matters(use.exchanged);
  }
  return out;
}

}  // namespace foretrace::ranks
