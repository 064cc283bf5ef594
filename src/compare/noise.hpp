#pragma once
// What recordings of one unchanged program differ by: the yardstick where a side has one recording and cannot say itself.

#include <cstddef>
#include <vector>

namespace foretrace::compare {

/// Standard deviations of log time between recordings (noise/*.csv, written by tools/compare_accuracy.py --write-noise).
struct Noise {
  double host_clean = 0;    ///< a step the CPU bounds, without the profiler
  double host_traced = 0;   ///< the same, traced
  double gpu = 0;           ///< a step the GPU bounds
  double common = 0;        ///< of all kernels together: the GPU's clock
  double long_kernel = 0;   ///< of one kernel of 50 us or more
  double kernel = 0;        ///< of 5 us or more
  double short_kernel = 0;  ///< of a shorter one
  double host_copy = 0;     ///< of one copy between host and GPU
  double cpu_op = 0;        ///< an operation's CPU time against the other operations of the step
  static const Noise& usual();
};

/// From the figures of each side's recordings: how far the mean of the logs is known. `usual`: of one recording.
struct Spread {
  double error = 0;     ///< standard error of log(after / before)
  double quantile = 0;  ///< of Student's t: changes beyond quantile * error are real in 95 of 100
  bool own = false;     ///< from the recordings themselves
};
Spread spread_of(const std::vector<double>& before, const std::vector<double>& after, double usual_before,
                 double usual_after);

}  // namespace foretrace::compare
