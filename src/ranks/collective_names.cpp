// Kinds of collectives from their names, for all of foretrace: kernels, PyTorch's records and ranges spell them differently.

#include "ranks/collective_names.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "hardware/collective.hpp"
#include "work/op_view.hpp"

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

CollectiveKind kind_of(std::string_view name) {
  constexpr CollectiveKind kKinds[] = {
      CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
      CollectiveKind::kBroadcast, CollectiveKind::kReduce,    CollectiveKind::kAllToAll,
      CollectiveKind::kSendRecv,  CollectiveKind::kGather,    CollectiveKind::kScatter};
  static_assert(std::size(kKinds) == hardware::kCollectives);
  const std::string letters = lower_letters(name);
  const auto has = [&](std::string_view word) { return letters.find(word) != std::string::npos; };
  if (has("sendrecv")) return CollectiveKind::kAllToAll;  // NCCL's kernel of all-to-alls
  if (has("barrier")) return CollectiveKind::kBarrier;
  if (const std::optional<hardware::Collective> kind = hardware::collective_in(letters)) {
    return kKinds[static_cast<std::size_t>(*kind)];
  }
  if (has("send") || has("recv")) return CollectiveKind::kSendRecv;
  return CollectiveKind::kOther;
}

RecordedCollective recorded_collective(const trace::Trace& t, std::uint32_t e) {
  RecordedCollective found{kind_of(t.name(e))};
  const trace::CollectiveInfo* info = t.args.collective(t.events.args[e]);
  if (info == nullptr) return found;
  if (const std::string_view name = text_of(t, info->name); !name.empty()) {
    const CollectiveKind named = kind_of(name);
    if (named != CollectiveKind::kOther) found.kind = named;
  }
  const std::int64_t elements = found.kind == CollectiveKind::kAllGather ? info->out_elements : info->in_elements;
  if (elements != kAbsent)
    found.bytes = elements * std::max<std::int64_t>(1, work::recorded_bytes(text_of(t, info->dtype)));
  if (info->group_size != kAbsent) found.ranks = info->group_size;
  return found;
}

}  // namespace foretrace::ranks
