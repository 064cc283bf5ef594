// From kernels of many traces to collectives. Each rank's communication kernels become a list per process group and step;
// lists of one group and step are laid side by side and paired in order, kind and size being the same. Where a rank lacks
// one (a lost record, a file cut short), the longest common subsequence says which.

#include "ranks/collectives.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <unordered_map>

#include "ranks/collective_names.hpp"
#include "trace/communication.hpp"

namespace foretrace::ranks {

using trace::EventKind;
using trace::kAbsent;

namespace {

/// One kernel on one rank.
struct Seen {
  std::uint32_t event;
  Ns start, end;  // absolute
  CollectiveKind kind;
  std::int64_t bytes;
  std::int64_t step;
  std::int64_t sequence;
};

std::int64_t number_in(const std::optional<std::string>& raw) {
  if (!raw) return kAbsent;
  const std::size_t first = raw->find_first_of("-0123456789");
  std::int64_t value = kAbsent;
  if (first != std::string::npos) std::from_chars(raw->data() + first, raw->data() + raw->size(), value);
  return value;
}

/// Everything a group is known by; ranks of one group agree on it.
struct GroupKey {
  std::string name, ranks;
  std::int64_t from = -1, to = -1;  // of send and receive
  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

class Matcher {
 public:
  explicit Matcher(const Job& job) : job_(job), numbered_(steps_are_numbered(job)) {}

  Matching run() {
    out_.unmatched.assign(job_.ranks.size(), 0);
    out_.total.assign(job_.ranks.size(), 0);
    out_.reordered.assign(job_.ranks.size(), 0);
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) collect(r);
    for (auto& [key, lists] : groups_) match_group(key, lists);
    find_reordered();
    find_roots();
    name_families();
    return std::move(out_);
  }

 private:
  using Lists = std::vector<std::vector<Seen>>;  // per rank

  // Steps a kernel belongs to: by when it was launched, since a queue may delay it into the next.
  [[nodiscard]] std::int64_t step_at(const trace::Steps& steps, Ns when) const {
    if (!numbered_) return -1;  // the whole trace in one: order alone counts
    const auto after = std::upper_bound(steps.steps.begin(), steps.steps.end(), when,
                                        [](Ns t, const trace::Step& s) { return t < s.start; });
    if (after == steps.steps.begin()) return -1;
    return (after - 1)->number;
  }

  void collect(std::uint32_t r) {
    const trace::Trace& t = job_.ranks[r].trace;
    std::vector<std::int8_t> communicates(t.strings.size(), -1);
    std::vector<std::uint32_t> kernels;
    std::unordered_map<std::int64_t, Ns> launched;
    for (std::uint32_t e = 0; e < t.size(); ++e) {
      if (t.kind(e) != EventKind::kKernel) continue;
      std::int8_t& known = communicates[t.events.name[e].index()];
      if (known < 0) known = trace::is_communication_kernel(t.name(e)) ? 1 : 0;
      if (known == 0) continue;
      kernels.push_back(e);
      if (t.events.correlation[e] != kAbsent) launched.emplace(t.events.correlation[e], kAbsent);
    }
    if (kernels.empty()) return;
    for (std::uint32_t e = 0; e < t.size(); ++e) {
      if (t.kind(e) != EventKind::kRuntime || t.events.correlation[e] == kAbsent) continue;
      if (const auto it = launched.find(t.events.correlation[e]); it != launched.end()) it->second = t.events.start[e];
    }
    out_.total[r] = kernels.size();
    for (const std::uint32_t e : kernels) {
      const auto launch = launched.find(t.events.correlation[e]);
      const Ns when = launch != launched.end() && launch->second != kAbsent ? launch->second : t.events.start[e];
      Seen seen{e,
                t.base_time_ns + t.events.start[e],
                t.base_time_ns + t.end(e),
                kind_of(t.name(e)),
                -1,
                step_at(job_.ranks[r].steps, when),
                kAbsent};
      auto& list = groups_[key_of(r, e, seen)];
      if (list.empty()) list.resize(job_.ranks.size());
      list[r].push_back(seen);
    }
    for (auto& [key, lists] : groups_) {
      if (lists.size() <= r) continue;
      std::stable_sort(lists[r].begin(), lists[r].end(),
                       [](const Seen& a, const Seen& b) { return a.start < b.start; });
    }
  }

  // A send and its receive are a group of their own, known by both ends.
  GroupKey key_of(std::uint32_t r, std::uint32_t e, Seen& seen) {
    const trace::Trace& t = job_.ranks[r].trace;
    const trace::CollectiveInfo* info = t.args.collective(t.events.args[e]);
    GroupKey key;
    if (info == nullptr) return key;
    const RecordedCollective recorded = recorded_collective(t, e);
    seen.kind = recorded.kind;
    seen.bytes = recorded.bytes;
    seen.sequence = info->sequence;
    key.name = text_of(t, info->group);
    key.ranks = text_of(t, info->group_ranks);
    if (info->group_size != kAbsent) sizes_[key] = info->group_size;
    if (seen.kind == CollectiveKind::kSendRecv) {
      const std::int64_t me = job_.ranks[r].rank;
      const std::int64_t to = number_in(t.args.find(t.events.args[e], "Dst Rank"));
      const std::int64_t from = number_in(t.args.find(t.events.args[e], "Src Rank"));
      const bool sends = lower_letters(text_of(t, info->name)).find("send") != std::string::npos;
      key.from = sends ? me : from;
      key.to = sends ? to : me;
    }
    return key;
  }

  // Sizes differ between ranks where each brings what it has.
  static bool sized(CollectiveKind kind) {
    return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast;
  }
  static bool same(const Seen& a, const Seen& b) {
    return a.kind == b.kind && (!sized(a.kind) || a.bytes == b.bytes || a.bytes < 0 || b.bytes < 0);
  }

  // By sequence number where every record has one: the order of kernels then does not matter. Otherwise by step.
  void match_group(const GroupKey& key, Lists& lists) {
    Group group;
    group.name = key.name.empty() ? "all ranks" : key.name;
    if (const auto it = sizes_.find({key.name, key.ranks, -1, -1}); it != sizes_.end()) group.size = it->second;
    for (std::uint32_t r = 0; r < lists.size(); ++r) {
      if (!lists[r].empty()) group.ranks.push_back(r);
    }
    const auto index = static_cast<std::uint32_t>(out_.groups.size());
    bool sequenced = true;
    for (const auto& list : lists) {
      for (const Seen& s : list) sequenced = sequenced && s.sequence != kAbsent;
    }
    if (group.ranks.size() < 2) {
      out_.foreign_groups |= meets_others(key.ranks, group.ranks);
      for (const std::uint32_t r : group.ranks) out_.unmatched[r] += lists[r].size();
      return;
    }
    out_.groups.push_back(std::move(group));
    const auto bucket = [&](const Seen& s) { return sequenced ? s.sequence : s.step; };
    std::map<std::int64_t, Lists> buckets;
    for (std::uint32_t r = 0; r < lists.size(); ++r) {
      for (const Seen& s : lists[r]) {
        Lists& b = buckets[bucket(s)];
        if (b.empty()) b.resize(lists.size());
        b[r].push_back(s);
      }
    }
    for (auto& [id, b] : buckets) match_lists(index, b);
  }

  // "[0, 2]" of a group only rank 0 of the ranks given was seen in: whether it says so itself.
  [[nodiscard]] bool meets_others(std::string_view members, const std::vector<std::uint32_t>& seen) const {
    std::vector<std::int64_t> named;
    for (std::size_t at = members.find_first_of("0123456789"); at < members.size();
         at = members.find_first_of("0123456789", at)) {
      std::int64_t rank = 0;
      at = static_cast<std::size_t>(std::from_chars(members.data() + at, members.data() + members.size(), rank).ptr -
                                    members.data());
      named.push_back(rank);
    }
    if (named.empty() || members.find("...") != std::string_view::npos) return false;  // it does not say
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) {
      const bool mine = std::find(seen.begin(), seen.end(), r) != seen.end();
      if (!mine && std::find(named.begin(), named.end(), job_.ranks[r].rank) != named.end()) return false;
    }
    return true;
  }

  // A group's collectives run one after another on every rank: by number, an order that goes back; in one step, kernels two
  // ranks both have and whose order no pairing keeps (match_lists counts those).
  void find_reordered() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Ns> last;  // group, rank
    for (const Collective& c : out_.collectives) {
      for (const Member& m : out_.of(c)) {
        Ns& before = last.emplace(std::pair(c.group, m.rank), m.start).first->second;
        if (m.start < before) ++out_.reordered[m.rank];
        before = std::max(before, m.start);
      }
    }
  }

  // One group, one step: pairs every list with the longest one.
  void match_lists(std::uint32_t group, const Lists& lists) {
    std::uint32_t longest = 0;
    for (std::uint32_t r = 1; r < lists.size(); ++r) {
      if (lists[r].size() > lists[longest].size()) longest = r;
    }
    const std::vector<Seen>& reference = lists[longest];
    std::vector<std::vector<std::uint32_t>> place(lists.size());  // per rank, per entry of the reference
    for (std::uint32_t r = 0; r < lists.size(); ++r) {
      place[r].assign(reference.size(), kNone);
      std::uint64_t paired = 0;
      for (const auto& [a, b] : pairs(reference, lists[r])) {
        place[r][a] = b;
        ++paired;
      }
      out_.unmatched[r] += lists[r].size() - paired;
      if (numbered_ && paired < lists[r].size()) out_.reordered[r] += crossed(reference, lists[r], place[r]);
    }
    for (std::uint32_t i = 0; i < reference.size(); ++i) {
      Collective c;
      c.kind = reference[i].kind;
      c.group = group;
      c.bytes = reference[i].bytes;
      c.step = reference[i].step;
      c.first = static_cast<std::uint32_t>(out_.members.size());
      for (std::uint32_t r = 0; r < lists.size(); ++r) {
        if (place[r][i] == kNone) continue;
        const Seen& s = lists[r][place[r][i]];
        out_.members.push_back({r, s.event, s.start, s.end});
      }
      c.count = static_cast<std::uint32_t>(out_.members.size()) - c.first;
      if (c.count < 2) {
        for (std::uint32_t m = c.first; m < c.first + c.count; ++m) ++out_.unmatched[out_.members[m].rank];
        out_.members.resize(c.first);
        continue;
      }
      out_.incomplete += c.count < out_.groups[group].ranks.size() ? 1u : 0u;
      out_.collectives.push_back(c);
    }
  }

  // Kernels without a partner on both sides that are the same: they are there, in another order. (Without numbered steps,
  // lists that begin or end elsewhere look the same.)
  static std::uint64_t crossed(const std::vector<Seen>& reference, const std::vector<Seen>& list,
                               const std::vector<std::uint32_t>& place) {
    std::vector<char> paired(list.size(), 0);
    for (const std::uint32_t p : place) {
      if (p < list.size()) paired[p] = 1;
    }
    std::uint64_t count = 0;
    for (std::uint32_t i = 0; i < reference.size(); ++i) {
      if (place[i] < list.size() || reference[i].bytes < 0) continue;
      for (std::uint32_t j = 0; j < list.size(); ++j) {
        if (paired[j] != 0 || list[j].kind != reference[i].kind || list[j].bytes != reference[i].bytes) continue;
        paired[j] = 1;
        ++count;
        break;
      }
    }
    return count;
  }

  using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  static Pairs pairs(const std::vector<Seen>& a, const std::vector<Seen>& b) {
    Pairs out;
    std::uint32_t i = 0;
    while (i < a.size() && i < b.size() && same(a[i], b[i])) {
      out.emplace_back(i, i);
      ++i;
    }
    if (i == a.size() || i == b.size()) return out;
    std::uint32_t tail = 0;
    while (tail < a.size() - i && tail < b.size() - i && same(a[a.size() - 1 - tail], b[b.size() - 1 - tail])) ++tail;
    const std::size_t n = a.size() - i - tail;
    const std::size_t m = b.size() - i - tail;
    // A table for what differs in the middle; where even that is huge, the lists are of different programs.
    constexpr std::size_t kMostCells = 16'000'000;
    if (n * m <= kMostCells) {
      std::vector<std::uint32_t> best((n + 1) * (m + 1), 0);
      const auto at = [&](std::size_t x, std::size_t y) -> std::uint32_t& { return best[x * (m + 1) + y]; };
      for (std::size_t x = n; x-- > 0;) {
        for (std::size_t y = m; y-- > 0;) {
          at(x, y) = same(a[i + x], b[i + y]) ? at(x + 1, y + 1) + 1 : std::max(at(x + 1, y), at(x, y + 1));
        }
      }
      for (std::size_t x = 0, y = 0; x < n && y < m;) {
        if (same(a[i + x], b[i + y])) {
          out.emplace_back(i + x++, i + y++);
        } else {
          at(x + 1, y) >= at(x, y + 1) ? ++x : ++y;
        }
      }
    }
    for (std::uint32_t k = tail; k > 0; --k) {
      out.emplace_back(static_cast<std::uint32_t>(a.size() - k), static_cast<std::uint32_t>(b.size() - k));
    }
    return out;
  }

  // Traces do not say who the root is. It is the one that does not wait for others, so its kernels are the shortest of
  // the group's; the root of a reduction waits longest.
  void find_roots() {
    std::map<std::tuple<std::uint32_t, CollectiveKind>, std::map<std::uint32_t, Ns>> spent;
    for (const Collective& c : out_.collectives) {
      if (waits_of(c.kind) == Waits::kAll || c.kind == CollectiveKind::kSendRecv) continue;
      for (const Member& m : out_.of(c)) spent[{c.group, c.kind}][m.rank] += m.end - m.start;
    }
    for (Collective& c : out_.collectives) {
      if (waits_of(c.kind) == Waits::kAll) continue;
      std::uint32_t best = 0;
      const auto members = out_.of(c);
      for (std::uint32_t i = 0; i < members.size(); ++i) {
        if (c.kind == CollectiveKind::kSendRecv) {
          if (is_sender(members[i])) best = i;
          continue;
        }
        const auto& times = spent[{c.group, c.kind}];
        const Ns mine = times.at(members[i].rank);
        const Ns theirs = times.at(members[best].rank);
        if (waits_of(c.kind) == Waits::kOnRoot ? mine < theirs : mine > theirs) best = i;
      }
      c.root = best;
    }
  }

  [[nodiscard]] bool is_sender(const Member& m) const {
    const trace::Trace& t = job_.ranks[m.rank].trace;
    const trace::CollectiveInfo* info = t.args.collective(t.events.args[m.event]);
    return info != nullptr && lower_letters(text_of(t, info->name)).find("send") != std::string::npos;
  }

  void name_families() {
    std::map<std::tuple<std::uint32_t, CollectiveKind, std::int64_t>, std::uint32_t> known;
    for (Collective& c : out_.collectives) {
      c.family =
          known.emplace(std::tuple(c.group, c.kind, c.bytes), static_cast<std::uint32_t>(known.size())).first->second;
    }
    out_.families = static_cast<std::uint32_t>(known.size());
  }

  const Job& job_;
  bool numbered_;
  Matching out_;
  std::map<GroupKey, Lists> groups_;
  std::map<GroupKey, std::int64_t> sizes_;
};

}  // namespace

Matching match(const Job& job) { return Matcher(job).run(); }

}  // namespace foretrace::ranks
