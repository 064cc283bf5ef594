#pragma once
// gpus: the same step on other GPUs, with what it would cost there.
//
//   FORETRACE_TRY(GpusReport r, compare_gpus(base, {.targets = {"A100-SXM4-80GB", "H100-SXM5"}, .whatifs = {"amp"}}));
//   report::to_text(r, style);

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/hardware/device.hpp"

namespace foretrace::analysis {

using hardware::ListedPrice;
/// "device,usd_per_hour,provider,date", a line for each GPU.
Result<std::vector<ListedPrice>> read_prices(std::string_view csv, const std::string& origin);

enum class GpuOrder : unsigned char { kTime, kCost, kValue };

struct GpusOptions {
  std::vector<std::string> targets;   ///< names or device files; empty: every device there is
  std::vector<hardware::Device> own;  ///< the user's device files: targets too, and the trace's GPU may be one of them
  std::map<std::string, double> prices;  ///< USD per hour by device name; wins over all others
  std::vector<ListedPrice> price_list;   ///< of a file; wins over the device files'
  std::vector<std::string> whatifs;      ///< changes stacked with the move, "amp"
  std::optional<double> cpu;             ///< the target's host is x times as fast
  std::string to_host;                   ///< the file of a calibrated host: the target's
  bool watts = false;                    ///< a table with energy, by the boards' power
  std::optional<std::string> from;       ///< the GPU the trace was recorded on, where it does not say
  GpuOrder order = GpuOrder::kTime;
  unsigned threads = 1;  ///< 0: as many as the machine has; the answer is the same
};

struct GpuPrediction {
  hardware::Device device;
  bool is_origin = false;
  whatif::Prediction prediction;       ///< `declined` where nothing could be said
  std::optional<double> usd_per_hour;  ///< nothing without a price
  std::optional<double> usd_per_1k_steps;
  std::optional<double> steps_per_usd;
  std::string price_source;                ///< empty for a price given by hand
  std::string price_age;                   ///< where the price is a year or more older than the newest: how much
  std::optional<double> kwh_per_1k_steps;  ///< at the board's power; nothing without that figure
  double gpu_share = 0;                    ///< of the step in which the GPU has work, at most 1
  bool cpu_bound = false;                  ///< the CPU, not the GPU, makes the step as long as it is there
  std::optional<bool> fits;  ///< what the allocator reserves, with what the driver keeps; unknown without memory events
};

struct GpusReport {
  std::string file, step_name;
  std::string from;         ///< as the trace names it, "NVIDIA H200"
  std::string from_device;  ///< the device file, "H200-SXM"
  std::string how;          ///< by what it was found
  Ns baseline = 0;          ///< the step without the profiler on `from`
  std::vector<std::string> whatifs;
  GpuOrder order = GpuOrder::kTime;
  bool watts = false;
  std::vector<GpuPrediction>
      predictions;  ///< in the order asked for; what does not fit, has no price or was declined last
};

/// Names no GPU and no what-if has, said before a trace is read.
Status check(const GpusOptions& options);
Result<GpusReport> compare_gpus(analysis::Baseline baseline, const GpusOptions& options);

}  // namespace foretrace::analysis
