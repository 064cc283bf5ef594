#include "ranks/operations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "ranks/collective_names.hpp"
#include "ranks/process_groups.hpp"
#include "trace/communication.hpp"

namespace foretrace::ranks {

using trace::EventKind;
using trace::kAbsent;

namespace {

std::int64_t number_in(const std::optional<std::string>& raw) {
  if (!raw) return kAbsent;
  const std::size_t first = raw->find_first_of("-0123456789");
  std::int64_t value = kAbsent;
  if (first != std::string::npos) std::from_chars(raw->data() + first, raw->data() + raw->size(), value);
  return value;
}

class Reader {
 public:
  Reader(const trace::Trace& trace, std::int64_t rank) : t_(trace), me_(rank), groups_(process_groups(trace)) {}

  std::vector<Operation> run() {
    find_kernels();
    if (kernels_.empty()) return {};
    find_launches();
    const std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> batches = find_batches();
    std::vector<Operation> out;
    for (const std::uint32_t e : kernels_) {
      const auto batch = batches.find(e);
      if (batch == batches.end()) {
        out.push_back(operation(e, e));
      } else {
        add_batch(e, batch->second, out);
      }
    }
    return out;
  }

 private:
  struct Launch {
    LaneId lane;
    Ns start = kAbsent;
  };

  void find_kernels() {
    std::vector<std::int8_t> communicates(t_.strings.size(), -1);
    for (std::uint32_t e = 0; e < t_.size(); ++e) {
      if (t_.kind(e) != EventKind::kKernel) continue;
      std::int8_t& known = communicates[t_.events.name[e].index()];
      if (known < 0) known = trace::is_communication_kernel(t_.name(e)) ? 1 : 0;
      if (known != 0) kernels_.push_back(e);
    }
  }

  void find_launches() {
    for (const std::uint32_t e : kernels_) {
      if (t_.events.correlation[e] != kAbsent) launches_.emplace(t_.events.correlation[e], Launch{});
    }
    for (std::uint32_t e = 0; e < t_.size(); ++e) {
      if (t_.kind(e) != EventKind::kRuntime || t_.events.correlation[e] == kAbsent) continue;
      const auto it = launches_.find(t_.events.correlation[e]);
      if (it != launches_.end()) it->second = {t_.events.lane[e], t_.events.start[e]};
    }
  }

  [[nodiscard]] const Launch* launch_of(std::uint32_t kernel) const {
    const auto it = launches_.find(t_.events.correlation[kernel]);
    return it == launches_.end() || it->second.start == kAbsent ? nullptr : &it->second;
  }

  // Kernels that say nothing of themselves, each with the operations recorded on its thread since the launch before it.
  [[nodiscard]] std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> find_batches() const {
    struct Happened {
      LaneId lane;
      Ns when;
      std::uint32_t event;
      bool launches;
    };
    std::vector<Happened> order;
    bool silent = false;
    for (const std::uint32_t e : kernels_) {
      const Launch* launch = launch_of(e);
      if (launch == nullptr) continue;
      order.push_back({launch->lane, launch->start, e, true});
      silent = silent || t_.args.collective(t_.events.args[e]) == nullptr;
    }
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> out;
    if (!silent) return out;
    for (std::uint32_t e = 0; e < t_.size(); ++e) {
      if (t_.kind(e) != EventKind::kOp || t_.args.collective(t_.events.args[e]) == nullptr) continue;
      if (recorded_collective(t_, e).kind == CollectiveKind::kOther) continue;  // "wait"
      order.push_back({t_.events.lane[e], t_.events.start[e], e, false});
    }
    std::stable_sort(order.begin(), order.end(), [](const Happened& a, const Happened& b) {
      return std::tuple(a.lane.value, a.when) < std::tuple(b.lane.value, b.when);
    });
    std::vector<std::uint32_t> pending;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && order[i].lane != order[i - 1].lane) pending.clear();
      if (!order[i].launches) {
        pending.push_back(order[i].event);
        continue;
      }
      const bool says = t_.args.collective(t_.events.args[order[i].event]) != nullptr;
      if (!says && !pending.empty() && fits(order[i].event, pending)) out.emplace(order[i].event, pending);
      pending.clear();
    }
    return out;
  }

  // Whether this kernel can run these operations: NCCL sends and receives, and moves all-to-alls, by one kernel.
  [[nodiscard]] bool fits(std::uint32_t kernel, const std::vector<std::uint32_t>& records) const {
    const CollectiveKind runs = kind_of(t_.name(kernel));
    return std::all_of(records.begin(), records.end(), [&](std::uint32_t e) {
      const CollectiveKind kind = recorded_collective(t_, e).kind;
      return runs == kind || runs == CollectiveKind::kOther ||
             (runs == CollectiveKind::kAllToAll && kind == CollectiveKind::kSendRecv);
    });
  }

  // Sends and receives have partners of their own; collectives of one batch have the same ranks, and count as one.
  void add_batch(std::uint32_t kernel, const std::vector<std::uint32_t>& records, std::vector<Operation>& out) const {
    const std::size_t first = out.size();
    for (const std::uint32_t record : records) {
      Operation one = operation(kernel, record);
      if (out.size() > first && one.kind != CollectiveKind::kSendRecv && one.kind == out.back().kind &&
          one.group == out.back().group) {
        const bool known = out.back().bytes >= 0 && one.bytes >= 0;
        out.back().bytes = known ? out.back().bytes + one.bytes : -1;
      } else {
        out.push_back(std::move(one));
      }
    }
  }

  [[nodiscard]] Operation operation(std::uint32_t kernel, std::uint32_t record) const {
    Operation out;
    out.event = kernel;
    out.start = t_.base_time_ns + t_.events.start[kernel];
    out.end = t_.base_time_ns + t_.end(kernel);
    const Launch* launch = launch_of(kernel);
    out.launched = launch != nullptr ? launch->start : t_.events.start[kernel];
    const RecordedCollective recorded = recorded_collective(t_, record);
    out.kind = recorded.kind;
    const trace::CollectiveInfo* info = t_.args.collective(t_.events.args[record]);
    if (info == nullptr) return out;
    out.bytes = recorded.bytes;
    out.sequence = info->sequence;
    out.group = text_of(t_, info->group);
    out.members = text_of(t_, info->group_ranks);
    if (info->group_size != kAbsent) out.size = info->group_size;
    std::vector<std::int64_t> members = listed_ranks(out.members);
    if (const auto known = groups_.find(out.group); known != groups_.end()) {
      out.description = known->second.description;
      // The list of a record may be cut, or that of one pair.
      if (!known->second.ranks.empty()) {
        members = known->second.ranks;
        out.members = fmt::format("[{}]", fmt::join(members, ", "));
        out.size = static_cast<std::int64_t>(members.size());
      }
    }
    if (out.kind == CollectiveKind::kSendRecv) find_ends(record, text_of(t_, info->name), members, out);
    return out;
  }

  void find_ends(std::uint32_t record, std::string_view name, const std::vector<std::int64_t>& members,
                 Operation& out) const {
    const bool sends = lower_letters(name).find("send") != std::string::npos;
    const std::int64_t named = number_in(t_.args.find(t_.events.args[record], sends ? "Dst Rank" : "Src Rank"));
    const std::int64_t other = named == kAbsent ? -1 : rank_of_job(named, members);
    out.from = sends ? me_ : other;
    out.to = sends ? other : me_;
  }

  // Some versions of PyTorch write the partner's rank in the job, some its place in the group. Nobody sends to itself.
  [[nodiscard]] std::int64_t rank_of_job(std::int64_t named, const std::vector<std::int64_t>& members) const {
    if (named != me_ && (members.empty() || std::find(members.begin(), members.end(), named) != members.end()))
      return named;
    if (named >= 0 && named < static_cast<std::int64_t>(members.size()))
      return members[static_cast<std::size_t>(named)];
    return named;
  }

  const trace::Trace& t_;
  std::int64_t me_;
  std::map<std::string, ProcessGroup, std::less<>> groups_;
  std::vector<std::uint32_t> kernels_;
  std::unordered_map<std::int64_t, Launch> launches_;
};

}  // namespace

std::vector<Operation> operations_of(const trace::Trace& trace, std::int64_t rank) { return Reader(trace, rank).run(); }

}  // namespace foretrace::ranks
