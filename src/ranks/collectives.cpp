// From kernels of many traces to collectives. Each rank's communication kernels become a list per process group and step (of
// sends and receives, per pair and direction); lists of one group and step are paired in order, with equal kind and
// size. Where a rank lacks one (a lost record, a truncated file), the longest common subsequence shows which.

#include "ranks/collectives.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "ranks/operations.hpp"
#include "ranks/process_groups.hpp"

namespace foretrace::ranks {

using trace::kAbsent;

namespace {

/// One operation of one kernel on one rank.
struct Seen {
  std::uint32_t event;
  Ns start, end;  // absolute
  CollectiveKind kind;
  std::int64_t bytes;
  std::int64_t step;
  std::int64_t sequence;
  bool sends;
};

/// Everything a group is known by; ranks of one group agree on it. A pair of its ranks has its own order of messages.
struct GroupKey {
  std::string name, members;
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
    out_.operations.resize(job_.ranks.size());
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) collect(r);
    for (auto& [key, lists] : lists_) match_group(key, lists);
    count_unmatched();
    find_reordered();
    name_families();
    find_roots();
    find_common_ends();
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
    std::uint32_t kernel = kNone;
    std::vector<GroupOperation>& own = out_.operations[r];
    for (const Operation& op : operations_of(job_.ranks[r].trace, job_.ranks[r].rank)) {
      out_.total[r] += op.event != kernel ? 1u : 0u;
      kernel = op.event;
      const std::uint32_t group = group_of(r, op);
      own.push_back({op.event, group, op.kind, op.bytes, op.from, op.to});
      Lists& lists = lists_[{op.group, op.members, op.from, op.to}];
      if (lists.empty()) lists.resize(job_.ranks.size());
      lists[r].push_back({op.event, op.start, op.end, op.kind, op.bytes, step_at(job_.ranks[r].steps, op.launched),
                          op.sequence, op.from == job_.ranks[r].rank});
    }
    for (auto& [key, lists] : lists_) {
      std::stable_sort(lists[r].begin(), lists[r].end(),
                       [](const Seen& a, const Seen& b) { return a.start < b.start; });
    }
  }

  std::uint32_t group_of(std::uint32_t r, const Operation& op) {
    const auto [at, added] = numbers_.emplace(std::pair(op.group, op.members), out_.groups.size());
    if (added) {
      Group group;
      group.name = op.group.empty() ? "all ranks" : op.group;
      group.declared = listed_ranks(op.members);
      out_.groups.push_back(std::move(group));
    }
    Group& group = out_.groups[at->second];
    if (op.size >= 0) group.size = op.size;
    if (!op.description.empty()) group.description = op.description;
    if (group.ranks.empty() || group.ranks.back() != r) group.ranks.push_back(r);
    return static_cast<std::uint32_t>(at->second);
  }

  // Sizes differ between ranks where each brings what it has.
  static bool sized(CollectiveKind kind) {
    return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
           kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kSendRecv;
  }
  static bool same(const Seen& a, const Seen& b) {
    return a.kind == b.kind && (!sized(a.kind) || a.bytes == b.bytes || a.bytes < 0 || b.bytes < 0);
  }

  // By sequence number where every record has one: the order of kernels then does not matter. Otherwise by step. (Numbers of
  // sends and receives count on each rank alone.)
  void match_group(const GroupKey& key, Lists& lists) {
    std::vector<std::uint32_t> present;
    bool sequenced = key.from < 0 && key.to < 0;
    for (std::uint32_t r = 0; r < lists.size(); ++r) {
      if (!lists[r].empty()) present.push_back(r);
      for (const Seen& s : lists[r]) sequenced = sequenced && s.sequence != kAbsent;
    }
    if (present.size() < 2) {
      out_.foreign_groups |= meets_others(key.members, present);
      return;
    }
    const auto index = static_cast<std::uint32_t>(numbers_.at({key.name, key.members}));
    const auto bucket = [&](const Seen& s) { return sequenced ? s.sequence : s.step; };
    std::map<std::int64_t, Lists> buckets;
    for (std::uint32_t r = 0; r < lists.size(); ++r) {
      for (const Seen& s : lists[r]) {
        Lists& b = buckets[bucket(s)];
        if (b.empty()) b.resize(lists.size());
        b[r].push_back(s);
      }
    }
    for (auto& [id, b] : buckets) match_lists(index, present.size(), b);
  }

  // "[0, 2]" of a group only rank 0 of the ranks given was seen in: whether it says so itself.
  [[nodiscard]] bool meets_others(std::string_view members, const std::vector<std::uint32_t>& seen) const {
    const std::vector<std::int64_t> named = listed_ranks(members);
    if (named.empty()) return false;  // it does not say
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) {
      const bool mine = std::find(seen.begin(), seen.end(), r) != seen.end();
      if (!mine && std::find(named.begin(), named.end(), job_.ranks[r].rank) != named.end()) return false;
    }
    return true;
  }

  // A group's collectives run one after another on every rank: by number, an order that goes back; in one step, kernels two
  // ranks both have and whose order no pairing keeps (match_lists counts those).
  void find_reordered() {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, Ns> last;  // group, rank, its partner
    for (const Collective& c : out_.collectives) {
      for (const Member& m : out_.of(c)) {
        const std::uint32_t partner = c.kind == CollectiveKind::kSendRecv ? other_end(c, m) : kNone;
        Ns& before = last.emplace(std::tuple(c.group, m.rank, partner), m.start).first->second;
        if (m.start < before) ++out_.reordered[m.rank];
        before = std::max(before, m.start);
      }
    }
  }

  [[nodiscard]] std::uint32_t other_end(const Collective& c, const Member& m) const {
    const auto both = out_.of(c);
    return both[0].rank == m.rank ? both[1].rank : both[0].rank;
  }

  // One group, one step: pairs every list with the longest one.
  void match_lists(std::uint32_t group, std::size_t present, const Lists& lists) {
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
        if (s.sends) c.root = static_cast<std::uint32_t>(out_.members.size()) - c.first;
        out_.members.push_back({r, s.event, s.start, s.end});
      }
      c.count = static_cast<std::uint32_t>(out_.members.size()) - c.first;
      if (c.count < 2) {
        out_.members.resize(c.first);
        continue;
      }
      out_.incomplete += c.count < present ? 1u : 0u;
      out_.collectives.push_back(c);
    }
  }

  // Kernels, not operations: one of a batch with a partner for any of its messages is matched.
  void count_unmatched() {
    std::vector<std::vector<std::uint32_t>> matched(job_.ranks.size());
    for (const Member& m : out_.members) matched[m.rank].push_back(m.event);
    for (std::size_t r = 0; r < matched.size(); ++r) {
      std::sort(matched[r].begin(), matched[r].end());
      const auto end = std::unique(matched[r].begin(), matched[r].end());
      out_.unmatched[r] = out_.total[r] - static_cast<std::uint64_t>(end - matched[r].begin());
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
      if (waits_of(c.kind) == Waits::kAll || c.kind == CollectiveKind::kSendRecv) continue;
      std::uint32_t best = 0;
      const auto members = out_.of(c);
      for (std::uint32_t i = 0; i < members.size(); ++i) {
        const auto& times = spent[{c.group, c.kind}];
        const Ns mine = times.at(members[i].rank);
        const Ns theirs = times.at(members[best].rank);
        if (waits_of(c.kind) == Waits::kOnRoot ? mine < theirs : mine > theirs) best = i;
      }
      c.root = best;
    }
  }

  void name_families() {
    std::map<std::tuple<std::uint32_t, CollectiveKind, std::int64_t, std::uint32_t, std::uint32_t>, std::uint32_t>
        known;
    for (Collective& c : out_.collectives) {
      const bool pair = c.kind == CollectiveKind::kSendRecv;
      const std::uint32_t sender = pair ? out_.members[c.first + c.root].rank : kNone;
      const std::uint32_t receiver = pair ? out_.members[c.first + 1 - c.root].rank : kNone;
      const std::tuple key(c.group, c.kind, c.bytes, sender, receiver);
      c.family = known.emplace(key, static_cast<std::uint32_t>(known.size())).first->second;
    }
    out_.families = static_cast<std::uint32_t>(known.size());
  }

  // Both ends of a message leave together, unless one of the kernels has more to do with a third rank.
  void find_common_ends() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> partner;  // rank, kernel; kNone: several
    for (const Collective& c : out_.collectives) {
      if (c.kind != CollectiveKind::kSendRecv) continue;
      for (const Member& m : out_.of(c)) {
        const auto [at, added] = partner.emplace(std::pair(m.rank, m.event), other_end(c, m));
        if (!added && at->second != other_end(c, m)) at->second = kNone;
      }
    }
    for (Collective& c : out_.collectives) {
      const auto members = out_.of(c);
      c.ends_together = c.kind == CollectiveKind::kSendRecv
                            ? std::all_of(members.begin(), members.end(),
                                          [&](const Member& m) { return partner.at({m.rank, m.event}) != kNone; })
                            : waits_of(c.kind) == Waits::kAll;
    }
  }

  const Job& job_;
  bool numbered_;
  Matching out_;
  std::map<GroupKey, Lists> lists_;
  std::map<std::pair<std::string, std::string>, std::size_t> numbers_;  // in Matching::groups
};

}  // namespace

Matching match(const Job& job) { return Matcher(job).run(); }

}  // namespace foretrace::ranks
