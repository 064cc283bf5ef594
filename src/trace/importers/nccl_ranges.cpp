#include "trace/importers/nccl_ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/text.hpp"
#include "trace/communication.hpp"

namespace foretrace::trace {

namespace {

constexpr const char* kBytes = "Message size [bytes]";
constexpr const char* kCommunicator = "NCCL communicator ID";
constexpr const char* kPeer = "Peer rank";
constexpr const char* kRanks = "No. of ranks";
constexpr const char* kRank = "Rank";

std::int64_t value_of(const NvtxPayloads::Values& payload, const char* name) {
  const auto it = payload.find(name);
  return it == payload.end() ? kAbsent : it->second;
}

// "ncclDevKernel_AllReduce_Sum_bf16_RING_LL": kernels that compute say of what; others move bytes.
struct Element {
  std::string_view mark, name;
  std::int64_t bytes;
};
constexpr Element kElements[] = {{"_bf16", "BFloat16", 2}, {"_f16", "Half", 2}, {"_f32", "Float", 4},
                                 {"_f64", "Double", 8},    {"_i32", "Int", 4},  {"_u32", "Int", 4},
                                 {"_i64", "Long", 8},      {"_u64", "Long", 8}, {"", "Byte", 1}};

const Element& element_of(std::string_view kernel, std::int64_t bytes) {
  for (const Element& e : kElements) {
    if (contains(kernel, e.mark) && bytes % e.bytes == 0) return e;
  }
  return kElements[std::size(kElements) - 1];
}

constexpr std::string_view kGroupStart = "(";
constexpr std::string_view kGroupEnd = ")";
constexpr std::string_view kAllGather = "_allgather_base";
constexpr std::string_view kReduceScatter = "_reduce_scatter_base";
constexpr std::string_view kAllToAll = "all_to_all";
constexpr std::string_view kSend = "send";
constexpr std::string_view kRecv = "recv";

// What PyTorch calls what NCCL calls so; empty for calls that move nothing.
std::string_view torch_name(std::string_view range) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"ncclGroupStart", kGroupStart},
                                                                      {"ncclGroupEnd", kGroupEnd},
                                                                      {"ncclAllReduce", "allreduce"},
                                                                      {"ncclAllGather", kAllGather},
                                                                      {"ncclBroadcast", "broadcast"},
                                                                      {"ncclReduceScatter", kReduceScatter},
                                                                      {"ncclBcast", "broadcast"},
                                                                      {"ncclReduce", "reduce"},
                                                                      {"ncclAlltoAll", kAllToAll},
                                                                      {"ncclSend", kSend},
                                                                      {"ncclRecv", kRecv}};
  for (const auto& [name, torch] : kNames) {
    if (range == name) return torch;
  }
  return {};
}

std::int64_t times(std::int64_t bytes, std::int64_t n) {
  std::int64_t out = 0;
  return bytes == kAbsent || n < 1 || __builtin_mul_overflow(bytes, n, &out) ? kAbsent : out;
}

}  // namespace

void NcclRanges::add(const Span& span, std::string_view name, const NvtxPayloads::Values& payload) {
  Call call;
  call.span = span;
  call.bytes = value_of(payload, kBytes);
  if (call.bytes < 0) call.bytes = kAbsent;
  call.communicator = value_of(payload, kCommunicator);
  call.peer = value_of(payload, kPeer);
  if (const std::int64_t ranks = value_of(payload, kRanks); ranks > 0 && call.communicator != kAbsent) {
    communicators_[call.communicator] = {ranks, value_of(payload, kRank)};
  }
  call.what = torch_name(name);
  if (!call.what.empty()) calls_.push_back(call);
}

std::vector<NcclRanges::Window> NcclRanges::windows() const {
  std::vector<Call> sorted = calls_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Call& a, const Call& b) {
    return std::pair(a.span.thread.value, a.span.start) < std::pair(b.span.thread.value, b.span.start);
  });
  std::vector<Window> out;
  std::vector<Call> grouped;
  int depth = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const Call& call = sorted[i];
    if (i == 0 || sorted[i - 1].span.thread != call.span.thread) {
      depth = 0;
      grouped.clear();
    }
    if (call.what == kGroupStart) {
      ++depth;
    } else if (call.what == kGroupEnd) {
      depth = std::max(0, depth - 1);  // a group may have begun before the recording
      if (depth > 0) continue;
      if (!grouped.empty()) out.push_back({call.span, std::move(grouped)});
      grouped.clear();
    } else if (depth > 0) {
      grouped.push_back(call);
    } else {
      out.push_back({call.span, {call}});
    }
  }
  return out;
}

std::vector<std::vector<NcclRanges::Call>> NcclRanges::together(const std::vector<Call>& calls) {
  const auto kind = [](const Call& c) { return c.what == kRecv ? kSend : c.what; };
  std::vector<std::vector<Call>> out;
  for (const Call& call : calls) {
    const auto like = std::find_if(out.begin(), out.end(), [&](const std::vector<Call>& share) {
      return kind(share.front()) == kind(call) && share.front().communicator == call.communicator;
    });
    if (like == out.end()) {
      out.push_back({call});
    } else {
      like->push_back(call);
    }
  }
  return out;
}

std::int64_t NcclRanges::ranks_of(const Call& call, const Trace& trace) const {
  const auto it = communicators_.find(call.communicator);
  if (it != communicators_.end()) return it->second.ranks;
  return trace.distributed.present ? trace.distributed.world_size : kAbsent;
}

// What the kernel of these calls carries; empty where not every one says its size.
std::string NcclRanges::arguments(const std::vector<Call>& calls, std::string_view kernel, const Trace& trace) const {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool sends = false;
  bool receives = false;
  std::vector<std::int64_t> peers;
  for (const Call& call : calls) {
    if (call.bytes == kAbsent) return {};
    const std::int64_t all = times(call.bytes, ranks_of(call, trace));
    std::int64_t more_in = call.bytes;
    std::int64_t more_out = call.bytes;
    if (call.what == kAllGather) more_out = all;
    if (call.what == kReduceScatter) more_in = all;
    if (call.what == kAllToAll) more_in = more_out = all;
    if (call.what == kSend) more_out = 0;
    if (call.what == kRecv) more_in = 0;
    sends = sends || call.what == kSend;
    receives = receives || call.what == kRecv;
    if (call.peer != kAbsent && std::find(peers.begin(), peers.end(), call.peer) == peers.end()) {
      peers.push_back(call.peer);
    }
    if (in == kAbsent || more_in == kAbsent || __builtin_add_overflow(in, more_in, &in)) in = kAbsent;
    if (out == kAbsent || more_out == kAbsent || __builtin_add_overflow(out, more_out, &out)) out = kAbsent;
  }
  const Call& first = calls.front();
  const std::string_view name = sends && receives ? kAllToAll : first.what;
  const Element& element = element_of(kernel, (in == kAbsent ? 0 : in) | (out == kAbsent ? 0 : out));
  std::string json = fmt::format(R"("Collective name":"{}","dtype":"{}")", name, element.name);
  const auto put = [&](std::string_view key, std::int64_t value) {
    if (value != kAbsent) fmt::format_to(std::back_inserter(json), R"(,"{}":{})", key, value);
  };
  put("In msg nelems", in == kAbsent ? kAbsent : in / element.bytes);
  put("Out msg nelems", out == kAbsent ? kAbsent : out / element.bytes);
  put("Group size", ranks_of(first, trace));
  if (peers.size() == 1 && sends) put("Dst Rank", peers.front());
  if (peers.size() == 1 && receives) put("Src Rank", peers.front());
  if (first.communicator != kAbsent) {
    fmt::format_to(std::back_inserter(json), R"(,"Process Group Name":"{:#x}")",
                   static_cast<std::uint64_t>(first.communicator));
  }
  return json;
}

void NcclRanges::name_collectives(Trace& trace) const {
  if (!trace.distributed.present) {
    Communicator largest;
    for (const auto& [id, c] : communicators_) {
      if (c.ranks >= 2 && c.rank >= 0 && c.rank < c.ranks && c.ranks > largest.ranks) largest = c;
    }
    if (largest.ranks >= 2) {
      trace.distributed.present = true;
      trace.distributed.rank = largest.rank;
      trace.distributed.world_size = largest.ranks;
    }
  }
  const std::vector<Window> all = windows();
  if (all.empty()) return;
  // Communication kernels by their call, then the calls by the window they are in.
  std::unordered_map<std::int64_t, std::uint32_t> kernel_of;  // correlation -> event
  const auto n = static_cast<std::uint32_t>(trace.size());
  for (std::uint32_t e = 0; e < n; ++e) {
    if (trace.kind(e) == EventKind::kKernel && trace.events.correlation[e] != kAbsent &&
        is_communication_kernel(trace.name(e))) {
      kernel_of.emplace(trace.events.correlation[e], e);
    }
  }
  struct Launched {
    Ns when;
    std::uint32_t kernel;
  };
  std::vector<std::vector<Launched>> of_window(all.size());
  for (std::uint32_t e = 0; e < n && !kernel_of.empty(); ++e) {
    if (trace.kind(e) != EventKind::kRuntime) continue;
    const auto kernel = kernel_of.find(trace.events.correlation[e]);
    if (kernel == kernel_of.end()) continue;
    const auto place = std::pair(trace.events.lane[e].value, trace.events.start[e]);
    auto after = std::upper_bound(all.begin(), all.end(), place, [](const auto& at, const Window& w) {
      return at < std::pair(w.span.thread.value, w.span.start);
    });
    if (after == all.begin()) continue;
    const Window& window = *--after;
    if (window.span.thread.value != place.first || place.second > window.span.end) continue;
    of_window[static_cast<std::size_t>(after - all.begin())].push_back({place.second, kernel->second});
  }
  for (std::size_t w = 0; w < all.size(); ++w) {
    std::vector<Launched>& kernels = of_window[w];
    if (kernels.empty()) continue;
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const Launched& a, const Launched& b) { return a.when < b.when; });
    // Calls of one kind in one communicator become one kernel, sends and receives too; else there is one for each.
    std::vector<std::vector<Call>> shares = together(all[w].calls);
    if (shares.size() != kernels.size()) {
      shares.clear();
      for (const Call& call : all[w].calls) shares.push_back({call});
    }
    if (shares.size() != kernels.size()) continue;  // nothing says which is which: their sizes stay unknown
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const std::uint32_t e = kernels[k].kernel;
      const std::string more = arguments(shares[k], trace.name(e), trace);
      if (more.empty()) continue;
      std::string tuple(trace.args.text(trace.events.args[e]));
      if (tuple.size() < 2) tuple = "{}";
      tuple.pop_back();
      if (tuple.size() > 1) tuple += ',';
      trace.events.args[e] = trace.args.intern(tuple + more + '}');
    }
  }
}

}  // namespace foretrace::trace
