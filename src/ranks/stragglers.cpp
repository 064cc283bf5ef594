// Finds stragglers by exchange: each rank's work is replaced by that of the typical rank, cause by cause, and the job is simulated again.
// The cost of a straggler is what it alone adds to a job of typical ranks.

#include "ranks/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "foretrace/ranks/job.hpp"
#include "ranks/collectives.hpp"
#include "ranks/exchange.hpp"
#include "ranks/job_graph.hpp"

namespace foretrace::ranks {

using graph::Graph;
using graph::GraphLaneKind;
using graph::TaskKind;

std::string_view to_string(StragglerCause cause) {
  constexpr std::string_view kNames[] = {"slow kernel", "late launch", "data loader", "late start", "slow link"};
  return kNames[static_cast<std::size_t>(cause)];
}

namespace {

bool inside(const LoadingRanges& ranges, Ns when) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), when, [](Ns t, const auto& r) { return t < r.first; });
  return after != ranges.begin() && when < (after - 1)->second;
}

// How much work of each kind differs between two runs of one program: the standard deviation of log time in recordings of unchanged
// programs. Kernels of a rank may err together (its GPU's clock), so that the sum differs as one kernel does.
struct RunSpread {
  double cpu = 0, kernel = 0;
  static const RunSpread& table() {
    static const RunSpread kTable = [] {
      RunSpread out;
      const std::pair<std::string_view, double*> places[] = {{"host_traced", &out.cpu}, {"kernel", &out.kernel}};
      read_values(data_file("compare/noise/recordings.csv"), places);
      return out;
    }();
    return kTable;
  }
  [[nodiscard]] double of(StragglerCause cause) const {
    if (cause == StragglerCause::kSlowLink) return 0;  // not recorded; the clocks' error bounds it
    return cause == StragglerCause::kSlowKernel ? kernel : cpu;
  }
};

/// One task of a rank and what it would cost there if the rank were the typical one.
struct Swap {
  std::uint32_t task;
  Ns cost;
};

class StragglerFinder {
 public:
  StragglerFinder(const std::vector<LoadingRanges>& loading, const Matching& m, const Clocks& clocks,
                  const JobGraph& job, const simulate::Timeline& timeline, const std::vector<RankPlace>& places)
      : m_(m), clocks_(clocks), job_(job), g_(job.graph), places_(places), own_(timeline.step) {
    cause_.assign(g_.size(), kNoCause);
    for (const RankPart& part : job.ranks) classify(part, loading[part.rank]);
    for (const Rendezvous& r : job.collectives) {
      if (r.hub.valid()) cause_[r.hub.index()] = StragglerCause::kSlowLink;
      for (const Rendezvous::Part& p : r.parts) {
        if (p.tail.valid()) cause_[p.tail.index()] = StragglerCause::kSlowLink;
      }
    }
  }

  Stragglers run() {
    Stragglers out;
    out.step = out.without_any = own_;
    if (job_.ranks.size() < 2) return out;
    std::vector<Candidate> candidates;
    std::vector<Ns> even(g_.cost.begin(), g_.cost.end());
    for (std::size_t c = 0; c < kStragglerCauses; ++c) compare(static_cast<StragglerCause>(c), candidates, even);
    // The typical rank is no ideal one: where it is slower on the path, the job as it is stands.
    out.without_any = std::min(own_, step_with(even));
    const auto notable = static_cast<Ns>(Stragglers::kNotable * static_cast<double>(own_));
    std::erase_if(candidates, [&](const Candidate& c) {
      if (c.straggler.excess < notable) return true;
      const Ns error = clock_error(c.straggler);
      if (c.straggler.excess > error) return false;
      out.clock_error = std::max(out.clock_error, error);
      return true;
    });
    // The dearest ones are worth a simulation each; a job of thousands of ranks has thousands that are a little late.
    constexpr std::size_t kMaxCandidates = 12;
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.straggler.excess > b.straggler.excess; });
    if (candidates.size() > kMaxCandidates) candidates.resize(kMaxCandidates);
    for (Candidate& c : candidates) {
      c.straggler.cost = step_with(even, c.swaps, [&](const Swap& s) { return g_.cost[s.task]; }) - out.without_any;
    }
    even.assign(g_.cost.begin(), g_.cost.end());  // of thousands of ranks, one list of costs is enough
    for (Candidate& c : candidates) {
      c.straggler.saves = own_ - step_with(even, c.swaps, [](const Swap& s) { return s.cost; });
      name_worst(c);
      const Ns costs = std::max(c.straggler.cost, c.straggler.saves);
      if (costs < notable) continue;
      if (const Ns error = clock_error(c.straggler); costs <= error) {
        out.clock_error = std::max(out.clock_error, error);
        continue;
      }
      out.found.push_back(c.straggler);
    }
    std::stable_sort(out.found.begin(), out.found.end(),
                     [](const Straggler& a, const Straggler& b) { return a.cost > b.cost; });
    return out;
  }

 private:
  struct Candidate {
    Straggler straggler;
    std::vector<Swap> swaps;
  };

  // How wrong the clocks of a rank and of the one it is compared with may be, together. When a rank started and how long it
  // moved data is read off several clocks, and how far ranks end a collective apart says how well those agree; when a rank
  // started whose clock nothing ties to the others, nobody knows. Other causes are lengths on one clock; all wait for the others in the end,
  // so that none is named below the error that is printed.
  [[nodiscard]] Ns clock_error(const Straggler& s) const {
    const Clock &mine = clocks_.clocks[s.rank], &theirs = clocks_.clocks[s.like];
    const auto together =
        static_cast<Ns>(std::hypot(static_cast<double>(mine.uncertainty), static_cast<double>(theirs.uncertainty)));
    if (s.cause != StragglerCause::kLateStart && s.cause != StragglerCause::kSlowLink) return together;
    if (s.cause == StragglerCause::kLateStart && !(mine.known && theirs.known)) return INT64_MAX;
    return std::max(together, clocks_.end_spread);
  }

  // With other costs of some tasks, which are then what they were.
  template <class Other>
  Ns step_with(std::vector<Ns>& costs, const std::vector<Swap>& swaps, Other other) {
    std::vector<Ns> before;
    for (const Swap& s : swaps) before.push_back(std::exchange(costs[s.task], other(s)));
    const Ns step = step_with(costs);
    for (std::size_t i = swaps.size(); i-- > 0;) costs[swaps[i].task] = before[i];
    return step;
  }

  Ns step_with(const std::vector<Ns>& cost) {
    simulate::simulate(g_, {cost, nullptr}, scratch_);
    return scratch_.step;
  }

  void classify(const RankPart& part, const LoadingRanges& loading) {
    for (std::uint32_t l = part.first_lane; l < part.end_lane; ++l) {
      for (std::uint32_t t = g_.lanes[l].begin; t < g_.lanes[l].end; ++t) {
        StragglerCause cause = StragglerCause::kLateLaunch;
        if (t == part.begin.value) {
          cause = StragglerCause::kLateStart;
        } else if (graph::is_gpu(g_.kind[t])) {
          // Communication no other rank shows may wait for anybody: its length says nothing about this rank.
          if (g_.kind[t] == TaskKind::kCollective) continue;
          cause = StragglerCause::kSlowKernel;
        } else if (!loading.empty() &&
                   inside(loading, g_.measured[t] - part.step_start + part.trace_start + g_.cost[t] / 2)) {
          cause = StragglerCause::kDataLoader;
        }
        cause_[t] = cause;
      }
    }
  }

  // Tasks of a rank by what they are, in order: lanes by kind and place, then kind and name.
  using Key = std::tuple<std::uint32_t, TaskKind, StringId>;
  struct KeyHash {
    std::size_t operator()(const Key& k) const {
      return (std::size_t{std::get<0>(k)} * 1'000'003u + static_cast<std::size_t>(std::get<1>(k))) * 1'000'003u +
             std::get<2>(k).value;
    }
  };
  using Index = std::unordered_map<Key, std::vector<std::uint32_t>, KeyHash>;

  // Lanes of two ranks correspond by kind and order, since stream and thread ids differ.
  [[nodiscard]] std::vector<std::uint32_t> lane_places(const RankPart& part) const {
    std::vector<std::uint32_t> order(part.end_lane - part.first_lane);
    std::iota(order.begin(), order.end(), part.first_lane);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto key = [&](std::uint32_t l) {
        const bool main = g_.lane[part.begin.index()] == l;
        return std::tuple(g_.lanes[l].kind, !main, g_.lanes[l].stream);
      };
      return key(a) < key(b);
    });
    std::vector<std::uint32_t> place(order.size());
    std::uint32_t cpu = 0, gpu = 0;
    for (const std::uint32_t l : order) {
      place[l - part.first_lane] = g_.lanes[l].kind == GraphLaneKind::kGpu ? 1000 + gpu++ : cpu++;
    }
    return place;
  }

  template <class Visit>
  void for_each_task(const RankPart& part, StragglerCause cause, Visit visit) const {
    for (std::uint32_t t = g_.lanes[part.first_lane].begin; t < g_.lanes[part.end_lane - 1].end; ++t) {
      if (cause_[t] == cause) visit(t);
    }
  }

  [[nodiscard]] Index index(const RankPart& part, StragglerCause cause) const {
    Index out;
    const std::vector<std::uint32_t> places = lane_places(part);
    for_each_task(part, cause, [&](std::uint32_t t) {
      out[{places[g_.lane[t] - part.first_lane], g_.kind[t], g_.name[t]}].push_back(t);
    });
    return out;
  }

  [[nodiscard]] std::vector<Swap> pair_up(const RankPart& slow, const RankPart& like, StragglerCause cause) const {
    std::vector<Swap> swaps;
    for (const auto& [task, cost] : exchange(index(slow, cause), g_.cost, index(like, cause), g_.cost))
      swaps.push_back({task, cost});
    return swaps;
  }

  // Transfers: the same collective of the other rank, in order of kind and size.
  [[nodiscard]] std::vector<Swap> pair_transfers(std::uint32_t slow, std::uint32_t like) const {
    using Kind = std::tuple<CollectiveKind, std::int64_t>;
    const auto list = [&](std::uint32_t rank) {
      std::map<Kind, std::vector<std::pair<std::uint32_t, std::uint32_t>>> out;  // hub, tail
      for (const Rendezvous& r : job_.collectives) {
        const Collective& c = m_.collectives[r.collective];
        for (const Rendezvous::Part& p : r.parts) {
          if (p.rank == rank && p.tail.valid() && p.counts)
            out[{c.kind, c.bytes}].emplace_back(r.hub.value, p.tail.value);
        }
      }
      return out;
    };
    std::vector<Swap> swaps;
    const auto theirs = list(like);
    for (const auto& [kind, mine] : list(slow)) {
      const auto it = theirs.find(kind);
      if (it == theirs.end()) continue;
      for (std::size_t i = 0; i < std::min(mine.size(), it->second.size()); ++i) {
        swaps.push_back({mine[i].second, g_.cost[it->second[i].second]});
        if (mine[i].first != kNone && it->second[i].first != kNone && mine[i].first != it->second[i].first) {
          swaps.push_back({mine[i].first, g_.cost[it->second[i].first]});
        }
      }
    }
    return swaps;
  }

  [[nodiscard]] Ns total(const RankPart& part, StragglerCause cause) const {
    Ns sum = 0;
    if (cause == StragglerCause::kSlowLink) {
      for (const Rendezvous& r : job_.collectives) {
        for (const Rendezvous::Part& p : r.parts) {
          if (p.rank != part.rank || !p.tail.valid() || !p.counts) continue;
          sum += g_.cost[p.tail.index()] + (r.hub.valid() ? g_.cost[r.hub.index()] : 0);
        }
      }
      return sum;
    }
    for_each_task(part, cause, [&](std::uint32_t t) { sum += g_.cost[t]; });
    return sum;
  }

  // Ranks of one number do the same work by construction; a stage of a pipeline does other work than the next.
  void compare(StragglerCause cause, std::vector<Candidate>& candidates, std::vector<Ns>& even) {
    std::map<std::uint32_t, std::vector<std::pair<Ns, std::uint32_t>>> peers;
    for (std::uint32_t i = 0; i < job_.ranks.size(); ++i) {
      peers[places_[job_.ranks[i].rank].peers].emplace_back(total(job_.ranks[i], cause), i);
    }
    for (auto& [number, totals] : peers) {
      std::stable_sort(totals.begin(), totals.end());
      compare(cause, totals, candidates, even);
    }
  }

  void compare(StragglerCause cause, const std::vector<std::pair<Ns, std::uint32_t>>& totals,
               std::vector<Candidate>& candidates, std::vector<Ns>& even) {
    // The median rank is the typical one: it exists, so its tasks can stand in for those of others.
    const auto [typical, like] = totals[(totals.size() - 1) / 2];
    // Two standard deviations: chance exceeds them once in 44 by definition. Ranks start late after a step that ended late, so
    // that starts differ as the CPU time of a step does.
    constexpr double kDeviations = 2;
    const Ns of = cause == StragglerCause::kLateStart ? own_ : typical;
    const auto by_chance = static_cast<Ns>(kDeviations * RunSpread::table().of(cause) * static_cast<double>(of));
    for (const auto& [sum, i] : totals) {
      if (sum - typical <= by_chance) continue;
      Candidate c;
      c.straggler.rank = job_.ranks[i].rank;
      c.straggler.like = job_.ranks[like].rank;
      c.straggler.cause = cause;
      c.straggler.excess = sum - typical;
      c.swaps = cause == StragglerCause::kSlowLink ? pair_transfers(job_.ranks[i].rank, job_.ranks[like].rank)
                                                   : pair_up(job_.ranks[i], job_.ranks[like], cause);
      for (const Swap& s : c.swaps) even[s.task] = s.cost;
      candidates.push_back(std::move(c));
    }
  }

  // Of all tasks of one name the largest difference.
  void name_worst(Candidate& c) const {
    std::map<StringId, Ns> by_name;
    for (const Swap& s : c.swaps) by_name[g_.name[s.task]] += g_.cost[s.task] - s.cost;
    for (const auto& [name, excess] : by_name) {
      if (excess <= c.straggler.worst_excess) continue;
      c.straggler.worst_excess = excess;
      c.straggler.worst = g_.strings[name];
    }
  }

  const Matching& m_;
  const Clocks& clocks_;
  const JobGraph& job_;
  const Graph& g_;
  const std::vector<RankPlace>& places_;
  Ns own_;
  static constexpr auto kNoCause = static_cast<StragglerCause>(kStragglerCauses);
  std::vector<StragglerCause> cause_;
  simulate::Timeline scratch_;
};

}  // namespace

Stragglers find_stragglers(const std::vector<LoadingRanges>& loading, const Matching& matching, const Clocks& clocks,
                           const JobGraph& graph, const simulate::Timeline& timeline,
                           const std::vector<RankPlace>& places) {
  return StragglerFinder(loading, matching, clocks, graph, timeline, places).run();
}

}  // namespace foretrace::ranks
