#pragma once
// Stragglers: ranks (or links) that hold the job up, why, and what the step would cost without.
//
// Each rank is compared with the typical one, cause by cause: the rank whose total is the (lower) median. For a rank that
// is slower, the typical rank's costs are put in place of its own and the job is simulated again; the difference is what
// this cause costs. Nothing is guessed from names of ranks or from thresholds on durations.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/ranks/job_graph.hpp"

namespace foretrace::ranks {

enum class StragglerCause : std::uint8_t {
  kSlowKernel,  ///< its GPU takes longer for the same kernels
  kLateLaunch,  ///< its CPU takes longer for the same operations
  kDataLoader,  ///< its input comes late
  kLateStart,   ///< it began the step after the others
  kSlowLink,    ///< transfers take longer than the same transfers elsewhere
};
std::string_view to_string(StragglerCause cause);
inline constexpr std::size_t kStragglerCauses = 5;

struct Straggler {
  std::uint32_t rank = 0;  ///< index into Job::ranks; of a slow link, the rank whose transfers are slow
  StragglerCause cause = StragglerCause::kSlowKernel;
  Ns cost = 0;    ///< how much longer this alone makes a job of otherwise typical ranks
  Ns saves = 0;   ///< how much shorter the job would be if only this went: less than `cost` when others are late too
  Ns excess = 0;  ///< how much longer its work of this kind is than the typical rank's
  std::uint32_t like = 0;  ///< the typical rank it is compared with
  std::string worst;       ///< the task that adds most to the excess
  Ns worst_excess = 0;
};

struct Stragglers {
  std::vector<Straggler> found;  ///< those that cost at least kNotable of the step, dearest first
  Ns step = 0;                   ///< simulated, as it is
  Ns without_any = 0;            ///< simulated, every rank as fast as the typical one
  /// Below this share of the step a difference between ranks is noise, and nothing is said of it.
  static constexpr double kNotable = 0.01;
  Ns clock_error = 0;  ///< the largest by which somebody was not named: differences below it may be the clocks'
};

/// `timeline` is the graph's own simulation. A difference the clocks may have made up is named as nobody's.
Stragglers find_stragglers(const Job& job, const Matching& matching, const Clocks& clocks, const JobGraph& graph,
                           const simulate::Timeline& timeline);

}  // namespace foretrace::ranks
