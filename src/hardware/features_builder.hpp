#pragma once
// Helpers that build the features of all kinds of work.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "hardware/clocks.hpp"
#include "hardware/kernel_features.hpp"

namespace foretrace::hardware {

inline double log_of(double v) { return std::log(std::max(v, 1.0)); }
inline double as_double(std::int64_t v) { return static_cast<double>(v); }
inline double log_of(std::int64_t v) { return log_of(as_double(v)); }

/// Elements that one access of 16 bytes in half precision can take along a row: 0 for all eight, 3 for one.
inline double misalignment(std::int64_t row) { return row % 8 == 0 ? 0 : row % 4 == 0 ? 1 : row % 2 == 0 ? 2 : 3; }

inline std::string_view type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kTf32:
      return "tf32";
    case Dtype::kFp16:
      return "fp16";
    case Dtype::kBf16:
      return "bf16";
    default:
      return "fp32";
  }
}

inline std::string_view pass_name(const Work& w) { return w.backward ? " bwd " : " fwd "; }
/// Kernels that both half types share.
inline std::string_view width_of(const Work& w) { return is_half(w.dtype) ? "half" : "fp32"; }

class Builder {
 public:
  explicit Builder(std::string category) { features_.category = std::move(category); }
  Builder& feature(double v) {
    features_.at[features_.features++] = v;
    return *this;
  }
  Builder& autotuned(bool yes) {
    features_.autotuned = yes;
    return *this;
  }
  Builder& product(ProductKind kind) {
    features_.product = kind;
    return *this;
  }
  KernelFeatures law(double us, double serial_us = 0) {
    features_.law_us = us;
    features_.serial_us = serial_us;
    return std::move(features_);
  }
  /// Memory traffic and dependent steps overlap: the longer one counts, after a start.
  KernelFeatures law_of(double start_us, double memory_us, double serial_us) {
    return law(start_us + std::max(memory_us, serial_us), serial_us > memory_us ? serial_us : 0);
  }

 private:
  KernelFeatures features_;
};

/// Start and end of a kernel; what is bound by nothing else takes some multiple of it.
inline constexpr double kKernelUs = 2.0;

/// So many clocks, in microseconds.
inline double clocks_us(double clocks, const Device& d) { return clocks / clock_of(d); }

// Kinds with a file of their own.
std::optional<KernelFeatures> features(const Work& work, const BatchNorm& norm, const Device& device,
                                       const Tables& tables);
std::optional<KernelFeatures> features(const Work& work, const Pooling& pooling, const Device& device,
                                       const Clocks& clocks);
std::optional<KernelFeatures> features(const Work& work, const Rows& rows, const Device& device, const Clocks& clocks);
std::optional<KernelFeatures> features(const Work& work, const Gather& gather, const Device& device,
                                       const Clocks& clocks);

}  // namespace foretrace::hardware
