// Signs that traces do not belong together. Ranks of one job call the same collectives in the same order, or the job would hang.

#include "ranks/one_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ranks/collectives.hpp"

namespace foretrace::ranks {

namespace {

template <class List>
std::uint64_t sum(const List& list) {
  return std::accumulate(list.begin(), list.end(), std::uint64_t{0});
}

// Clocks of hosts that keep time by the network differ by milliseconds, badly kept ones by seconds; beyond this it is another
// run, not another clock. Nobody measured how bad a clock can be: a minute is the one default.
constexpr Ns kNoClockIsOffBy = 60 * kNsPerSecond;

}  // namespace

std::string unrelated(const Job& job, const Matching& m) {
  if (job.ranks.size() < 2 || !m.collectives.empty()) return {};
  const std::uint64_t total = sum(m.total);
  if (total == 0) {
    // Ranks that name themselves may talk over what the GPU does not show.
    return job.ranks_named ? "" : "none says which rank it is, and none communicates with another";
  }
  if (m.foreign_groups) return {};
  return fmt::format("none of their {} communication kernels matches one of another file", total);
}

std::vector<std::string> doubts(const Job& job, const Matching& m, const Clocks& clocks, bool aligned) {
  std::vector<std::string> out;
  if (job.ranks.size() < 2) return out;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const trace::Steps& steps = job.ranks[r].steps;
    const Ns recorded = steps.steps.back().end - steps.steps.front().start;
    const Ns apart = std::abs(clocks.clocks[r].offset);
    if (apart > recorded) {
      out.push_back(fmt::format(
          "the clock of rank {} is {:+.3f} s from rank {}'s, longer than its trace; the difference is removed, {}",
          job.ranks[r].rank, to_ms(clocks.clocks[r].offset) / 1e3, job.ranks[0].rank,
          apart > kNoClockIsOffBy ? "but no clock is that far off: the files are of unrelated runs"
                                  : "but are they of one run?"));
    }
    if (m.reordered[r] > 0) {
      out.push_back(fmt::format(
          "impossible order: rank {} runs {} of its collectives in another order than the others, and a job that does "
          "so hangs: the files are of unrelated jobs, or their times are damaged",
          job.ranks[r].rank, m.reordered[r]));
    }
    if (!m.collectives.empty() && m.total[r] > 0 && m.unmatched[r] == m.total[r]) {
      out.push_back(
          fmt::format("none of the {} communication kernels of rank {} matches one of another rank: is its "
                      "file of another job?",
                      m.total[r], job.ranks[r].rank));
    }
  }
  const std::uint64_t unmatched = sum(m.unmatched);
  const std::uint64_t total = sum(m.total);
  if (!m.collectives.empty() && 2 * unmatched > total) {
    out.push_back(
        fmt::format("only {} of {} communication kernels match one of another rank: are these traces of one job?",
                    total - unmatched, total));
  }
  if (aligned && 2 * clocks.impossible.size() > m.collectives.size()) {
    out.emplace_back("most collectives are in an impossible order: the files are of unrelated jobs or runs");
  }
  return out;
}

}  // namespace foretrace::ranks
