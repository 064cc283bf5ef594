#pragma once
// How much recordings of one unchanged program differ, and how precisely a change is known given that.

#include <cstddef>
#include <vector>

#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

/// Standard deviation of log time between recordings of one program, and how many programs it was measured on.
struct Sigma {
  double value = 0;
  double programs = 1;
};

/// The table of unchanged programs (noise/recordings.csv, written by tools/compare_accuracy.py --write-noise).
struct Noise {
  Sigma host_clean;         ///< a CPU-bound step without the profiler
  Sigma host_traced;        ///< CPU time as traced, recordings made one after the other
  Sigma host_sessions;      ///< the same of any two recordings, many of different days
  Sigma gpu;                ///< GPU time of the same work, and a step that is bound by it
  double common = 0;        ///< of all kernels together: the GPU's clock
  double long_kernel = 0;   ///< of one kernel of 50 us or more
  double kernel = 0;        ///< of 5 us or more
  double short_kernel = 0;  ///< of a shorter one
  double host_copy = 0;     ///< of one copy between host and GPU
  double cpu_op = 0;        ///< an operation's CPU time relative to the other operations of the step
  static const Noise& table();
};

/// A change of a time as log(after / before), and its standard error.
struct Estimate {
  double change = 0;
  double error = 0;
  double freedom = 1;  ///< degrees of freedom behind the error
  bool own = false;    ///< the error is from the recordings themselves
  /// Half of the interval of the change: of 95 %, or of 99 % where the error is other programs'. Smaller changes may be chance.
  [[nodiscard]] double noise() const;
  [[nodiscard]] double low() const { return change - noise(); }
  [[nodiscard]] double high() const { return change + noise(); }
  [[nodiscard]] double p_value() const;
};

Change to_change(const Estimate& estimate);

/// The change between the figures of two sides, one figure per recording. `alone`: the noise of one recording by the table, used where
/// neither side has a second one; `prior`: the same for recordings made together, which their own spread is averaged with.
Estimate estimate(const std::vector<double>& before, const std::vector<double>& after, Sigma alone, Sigma prior);

/// The estimate that `recordings` per side would give if the change stayed the same: an error that nine of ten such sets stay below.
Estimate with_recordings(const Estimate& now, std::size_t before, std::size_t after, std::size_t recordings);

}  // namespace foretrace::compare
