#pragma once
// What a step would take if one thing about it were a little more or less: the batch, the CPU, the number of workers, the network
// between them. Answers computed beforehand, for whoever moves a slider over them where nothing can be computed (a page).
//
//   const std::vector<Slider> found = sliders(base, nullptr, {.fabric = "DGX-H100"});
//   found.front().points.front().step;       // at x times the batch; what lies between two points nobody computed
//
// Every point is an answer of the one driver (whatif::predict), the same that `whatif` and `scale` give.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/scale.hpp"
#include "foretrace/analysis/baseline.hpp"

namespace foretrace::analysis {

struct SliderPoint {
  double x = 1;
  Ns step = 0;
  std::optional<Ns> low, high;  ///< nothing: no band was computed here
  std::optional<std::int64_t> peak_bytes;
  double samples = 1;         ///< that a step takes in, against today's
  std::optional<Ns> exposed;  ///< communication nothing hides
};

struct Slider {
  std::string name;                 ///< "batch", "CPU", "workers", "bandwidth"
  std::string unit;                 ///< "times the batch": what stands behind x
  int workers = 0;                  ///< of a bandwidth: between so many workers; 0: those of the recorded job
  std::string about;                ///< of a bandwidth: what one times it is
  std::vector<SliderPoint> points;  ///< x ascending; today is one of them where it has a place
};

struct SliderOptions {
  std::string fabric;    ///< between workers; empty: what the GPU is usually sold with
  bool few = false;      ///< three points instead of nine: the graph is large
  bool bands = true;     ///< of the batch and the CPU
  unsigned threads = 1;  ///< 0: as many as the machine has; the answers are the same
};

/// Those that have at least two points. `scale`: what was predicted for several workers already; null: nothing was.
std::vector<Slider> sliders(const Baseline& baseline, const ScaleReport* scale, const SliderOptions& options);

/// The fabric with all its links x times as fast; what a step of a collective costs beside bytes stays.
hardware::Fabric faster(hardware::Fabric fabric, double x);

}  // namespace foretrace::analysis
