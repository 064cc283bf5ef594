#pragma once
// Sliders: the step at several values of one quantity: batch size, CPU speed, number of workers, network bandwidth. They are
// computed in advance for the HTML page, which cannot predict anything itself.
//
//   const std::vector<Slider> found = sliders(base, nullptr, {.fabric = "DGX-H100"});
//   found.front().points.front().step;       // at x times the batch; nothing is computed between two points
//
// Every point is a prediction, the same that `whatif` and `scale` give.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/scale.hpp"

namespace foretrace::analysis {

struct SliderPoint {
  double x = 1;
  Ns step = 0;
  std::optional<Ns> low, high;  ///< nothing when no band was computed
  std::optional<std::int64_t> peak_bytes;
  double samples = 1;         ///< per step, as a multiple of today's
  std::optional<Ns> exposed;  ///< communication that overlaps with nothing
};

struct Slider {
  std::string name;                 ///< "batch", "CPU", "workers", "bandwidth"
  std::string unit;                 ///< the unit of x: "times the batch"
  int workers = 0;                  ///< of a bandwidth: between so many workers; 0: those of the recorded job
  std::string about;                ///< of a bandwidth: what one times it is
  std::vector<SliderPoint> points;  ///< x ascending; today is one of them where it has a place
};

struct SliderOptions {
  std::string fabric;    ///< between workers; empty: the one the GPU is usually sold with
  bool few = false;      ///< three points instead of nine: the graph is large
  bool bands = true;     ///< of the batch and the CPU
  unsigned threads = 1;  ///< 0: all cores; the answers are the same
};

/// All sliders with at least two points. `scale`: predictions for several workers, if there are any; else null.
std::vector<Slider> sliders(const Baseline& baseline, const ScaleReport* scale, const SliderOptions& options);

/// The fabric with all its links x times as fast; latencies stay.
hardware::Fabric faster(hardware::Fabric fabric, double x);

}  // namespace foretrace::analysis
