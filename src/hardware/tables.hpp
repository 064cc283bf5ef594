#pragma once
// What the cost model reads from data files: parameters of laws, and tables measured on devices. A device uses its own table, else
// the reference device's (DataFiles::measured).
//
//   Tables more(DataFiles::shipped().with({"hardware/kernels/X1.softmax.csv", text}));

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/data_files.hpp"
#include "hardware/choice/conv_algorithm.hpp"
#include "hardware/clocks.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/figures.hpp"
#include "hardware/law_conv.hpp"
#include "hardware/laws.hpp"
#include "hardware/measured.hpp"
#include "hardware/residual.hpp"
#include "trace/latencies.hpp"

namespace foretrace::hardware {

/// The tables of one device, its own or those that stand in for it.
struct DeviceTables {
  Clocks clocks;
  Figures figures;
  trace::Latencies latencies;
  ConvolutionSets convolutions;
  Device convolutions_on;  ///< the device whose convolutions those parameters were fitted to
  ConvChoices algorithms;
  double own_kernel = 0;                                       ///< parse_own_kernel
  std::map<std::string, std::string, std::less<>> kernels_on;  ///< by operation, the device whose kernels were measured
};

class Tables {
 public:
  explicit Tables(DataFiles files);
  static const Tables& shipped();

  [[nodiscard]] const TransferWeights& products() const { return products_; }
  [[nodiscard]] const Laws& laws() const { return laws_; }
  [[nodiscard]] const DeviceTables& of(const Device& device) const;
  /// A device of the data files.
  [[nodiscard]] Device device(std::string_view name) const;
  /// Measured kernels for work on a device; null where nothing of the kind was measured.
  [[nodiscard]] const MeasuredCategory* category(const std::string& name, const Device& device) const;
  [[nodiscard]] KernelTables& kernels() const { return kernels_; }
  [[nodiscard]] const Residual& residual() const { return residual_; }

 private:
  DataFiles files_;
  TransferWeights products_;
  Laws laws_;
  mutable KernelTables kernels_;
  Residual residual_{*this};
  mutable std::mutex mutex_;
  mutable std::map<std::string, DeviceTables, std::less<>> devices_;  // by name
};

}  // namespace foretrace::hardware
