#pragma once
// Clocks of a job: how far each rank's clock is ahead of the first rank's, and how much faster it runs.
//
// Every matched collective says two things. Nobody can end before everybody it waits for has started: a difference
// constraint between two clocks. And the transfer, from the last arrival to the end, takes as long on all ranks, and as
// long in every step: the offsets sought are those with the least variance of the transfers (families weighed by how
// well they agree) that break no constraint, and those of one host should agree. That is the problem dPRO's paper states,
// as a quadratic programme with the constraints added as they are violated.

#include <cstdint>
#include <string>
#include <vector>

#include "foretrace/ranks/collectives.hpp"

namespace foretrace::ranks {

struct Clock {
  Ns offset = 0;           ///< this clock is ahead of the first rank's by so much, at `reference`
  double drift_ppm = 0;    ///< and gains so much
  Ns reference = 0;        ///< on this clock
  Ns uncertainty = 0;      ///< standard error of the offset
  bool known = true;       ///< false: no collective ties this rank to the first; the clock is taken as it is
  std::uint32_t host = 0;  ///< ranks of one number share a clock

  /// The first rank's clock when this one shows t.
  [[nodiscard]] Ns aligned(Ns t) const;
};

/// An order no setting of the clocks explains.
struct Impossible {
  std::uint32_t collective;
  std::uint32_t late, early;  ///< ranks (indices): `early` ended before `late`, which it waits for, had started
  Ns by;
};

struct Clocks {
  std::vector<Clock> clocks;  ///< per rank of the job
  Ns end_spread = 0;      ///< how far apart ranks end the same collective on aligned clocks: median over collectives
  Ns raw_end_spread = 0;  ///< the same on the clocks as written
  std::uint64_t violations_before = 0;  ///< collectives in an impossible order on the clocks as written
  std::vector<Impossible> impossible;   ///< those left: contradictory measurements, worst first
  bool drift_fitted = false;
  std::uint32_t hosts = 0;
};

struct ClockOptions {
  bool align = true;  ///< false: clocks as written
  bool drift = true;  ///< fit drift where the trace is long enough to show one
};

Clocks align_clocks(const Job& job, const Matching& matching, const ClockOptions& options = {});

}  // namespace foretrace::ranks
