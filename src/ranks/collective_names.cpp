// Kinds of collectives from their names, for all of foretrace: kernels, PyTorch's records and ranges spell them differently.

#include "ranks/collective_names.hpp"

#include <algorithm>

namespace foretrace::ranks {

using trace::kAbsent;

std::string_view to_string(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                         "barrier",    "broadcast",  "scatter",        "reduce",
                                         "gather",     "send-recv",  "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

Waits waits_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kScatter:
    case CollectiveKind::kSendRecv:
      return Waits::kOnRoot;
    case CollectiveKind::kReduce:
    case CollectiveKind::kGather:
      return Waits::kRootOnAll;
    default:
      return Waits::kAll;
  }
}

std::string lower_letters(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= 'a' && c <= 'z') out += c;
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// "_allgather_base", "ncclDevKernel_AllGather_RING_LL", "all_to_allv": the same words once only letters count. Longer
// words first: "allreduce" holds "reduce", "reducescatter" holds both.
CollectiveKind kind_of(std::string_view name) {
  const std::string letters = lower_letters(name);
  const auto has = [&](std::string_view word) { return letters.find(word) != std::string::npos; };
  if (has("reducescatter")) return CollectiveKind::kReduceScatter;
  if (has("allreduce")) return CollectiveKind::kAllReduce;
  if (has("allgather")) return CollectiveKind::kAllGather;
  if (has("alltoall") || has("sendrecv")) return CollectiveKind::kAllToAll;
  if (has("barrier")) return CollectiveKind::kBarrier;
  if (has("broadcast")) return CollectiveKind::kBroadcast;
  if (has("scatter")) return CollectiveKind::kScatter;
  if (has("gather")) return CollectiveKind::kGather;
  if (has("reduce")) return CollectiveKind::kReduce;
  if (has("send") || has("recv")) return CollectiveKind::kSendRecv;
  return CollectiveKind::kOther;
}

namespace {

std::int64_t element_bytes(std::string_view dtype) {
  const std::string d = lower_letters(dtype);
  if (d == "double" || d == "long") return 8;
  if (d == "float" || d == "int") return 4;
  if (d == "half" || d == "bfloat" || d == "short") return 2;
  return d.empty() ? 0 : 1;
}

}  // namespace

RecordedCollective recorded_collective(const trace::Trace& t, std::uint32_t e) {
  RecordedCollective found{kind_of(t.name(e))};
  const trace::CollectiveInfo* info = t.args.collective(t.events.args[e]);
  if (info == nullptr) return found;
  if (const std::string_view name = text_of(t, info->name); !name.empty()) {
    const CollectiveKind named = kind_of(name);
    if (named != CollectiveKind::kOther) found.kind = named;
  }
  const std::int64_t elements = found.kind == CollectiveKind::kAllGather ? info->out_elements : info->in_elements;
  if (elements != kAbsent) found.bytes = elements * std::max<std::int64_t>(1, element_bytes(text_of(t, info->dtype)));
  if (info->group_size != kAbsent) found.ranks = info->group_size;
  return found;
}

}  // namespace foretrace::ranks
