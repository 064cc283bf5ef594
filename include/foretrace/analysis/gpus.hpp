#pragma once
// gpus: the same step on other GPUs, with its time and cost there.
//
//   FORETRACE_TRY(GpusReport r, compare_gpus(base, {.targets = {"A100-SXM4-80GB", "H100-SXM5"}, .whatifs = {"amp"}}));
//   r.baseline;  r.predictions.size();

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::analysis {

/// A line of a price list: what a GPU costs for an hour, on demand, from whom and when.
struct ListedPrice {
  std::string device;
  double usd_per_hour = 0;
  std::string source;  ///< "2026-11-09, provider": the date first
};
/// A higher price, in USD per hour, is taken for a damaged list.
inline constexpr double kHighestPrice = 1e6;
/// "device,usd_per_hour,provider,date", a line for each GPU.
Result<std::vector<ListedPrice>> read_prices(std::string_view csv, const std::string& origin);

enum class GpuOrder : unsigned char { kTime, kCost, kValue };

struct GpusOptions {
  std::vector<std::string> targets;   ///< names or device files; empty: every known device
  std::vector<hardware::Device> own;  ///< the user's device files: targets too, and the trace's GPU may be one of them
  std::map<std::string, double> prices;  ///< USD per hour by device name; wins over all others
  std::vector<ListedPrice> price_list;   ///< of a file; wins over the device files'
  std::vector<std::string> whatifs;      ///< changes stacked with the move, "amp"
  std::optional<double> cpu;             ///< the target's host is x times as fast
  std::string to_host;                   ///< the file of a calibrated host: the target's
  bool watts = false;                    ///< include energy in the table, from the boards' power
  std::optional<std::string> from;       ///< the GPU the trace was recorded on, where it does not say
  GpuOrder order = GpuOrder::kTime;
  unsigned threads = 1;  ///< 0: as many as the machine has; the answer is the same
};

struct GpuPrediction {
  hardware::Device device;
  bool is_origin = false;
  whatif::Prediction prediction;       ///< `declined` where nothing could be predicted
  std::optional<double> usd_per_hour;  ///< nothing without a price
  std::optional<double> usd_per_1k_steps;
  std::optional<double> steps_per_usd;
  std::string price_source;                ///< empty for a price given by hand
  std::string price_age;                   ///< where the price is a year or more older than the newest: how much
  std::optional<double> kwh_per_1k_steps;  ///< at the board's power; nothing without that figure
  double gpu_share = 0;                    ///< of the step in which the GPU has work, at most 1
  bool cpu_bound = false;                  ///< the CPU, not the GPU, limits the step there
  std::optional<bool> fits;                ///< the memory that allocator and driver take; unknown without memory events
};

struct GpusReport {
  std::string file, step_name;
  std::string from;         ///< as the trace names it, "NVIDIA H200"
  std::string from_device;  ///< the device file, "H200-SXM"
  std::string how;          ///< how the device was identified
  Ns baseline = 0;          ///< the step without the profiler on `from`
  std::optional<OneRank> one_rank;
  std::optional<JobFigures> job;
  std::string steadiness;  ///< as in StepFigures
  std::vector<std::string> whatifs;
  GpuOrder order = GpuOrder::kTime;
  bool watts = false;
  std::vector<GpuPrediction>
      predictions;  ///< in the order asked for; what does not fit, has no price or was declined last
};

/// Fails when a GPU, what-if or file is unknown. Needs no trace, so that mistakes show before a long import.
Status check(const GpusOptions& options);
Result<GpusReport> compare_gpus(analysis::Baseline baseline, const GpusOptions& options);

// scale: the same step on N workers.

struct ScaleReport {
  std::string file, step_name, device;
  std::string scheme, network, compression;
  std::string steadiness;  ///< as in StepFigures
  Ns traced = 0, unprofiled = 0;
  std::optional<Ns> measured;
  std::int64_t gradient_bytes = 0;
  int gpus_per_node = 1;
  int servers = 0;
  std::optional<OneRank> one_rank;
  std::vector<std::string> whatifs;       ///< changes every worker makes
  double change_speedup = 1;              ///< speedup of one worker with them, without the trace's own collectives
  std::optional<Ns> without_collectives;  ///< one worker's step, where the trace is of several
  std::vector<whatif::Prediction> predictions;
  std::vector<std::pair<int, std::string>> declined;  ///< workers, reason
  /// One worker's step, with the same changes, over this one; at most 1.
  [[nodiscard]] double efficiency(const whatif::Prediction& p) const {
    return std::min(1.0, p.speedup / change_speedup);
  }
  /// What this step takes longer than one worker's, without exposed communication: kernels that share the GPU with collectives, and calls.
  [[nodiscard]] Ns other_than_exposed(const whatif::Prediction& p) const {
    return std::max<Ns>(0,
                        static_cast<Ns>(static_cast<double>(p.step) * (1 - efficiency(p))) - p.exposed_communication);
  }
};

/// One prediction per worker count. `network`: what collectives cost there; `changes`: made by every worker.
ScaleReport scale_report(const analysis::Baseline& baseline, const whatif::Parallelism& how,
                         const std::shared_ptr<const hardware::CollectiveModel>& network, int gpus_per_node,
                         const std::vector<int>& workers, const std::vector<whatif::Use>& changes = {});

// Sliders: the step at several values of one quantity: batch size, CPU speed, number of workers, network bandwidth. They are
// computed in advance for the HTML page, which cannot predict anything itself.
//
//   const std::vector<Slider> found = sliders(base, nullptr, {.fabric = "DGX-H100"});
//   found.front().points.front().step;       // at x times the batch; nothing is computed between two points
//
// Every point is a prediction, the same that `whatif` and `scale` give.

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
  std::string about;                ///< of a bandwidth: what x = 1 stands for
  std::vector<SliderPoint> points;  ///< x ascending; today's value is among them where it is in the range
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
