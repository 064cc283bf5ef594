#include "hardware/learnt.hpp"

#include <algorithm>
#include <array>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/spreads.hpp"

namespace foretrace::hardware {

namespace {

constexpr std::array<std::string_view, 4> kNames = {"device", "architecture", "geforce", "vendor"};

struct StepSpreads {
  std::array<std::array<double, 2>, kNames.size()> of{};  ///< by what was learnt; FP32 and TF32, half
};

const StepSpreads& step_spreads() {
  static const StepSpreads kSpreads = [] {
    StepSpreads s;
    for (CsvReader row(data_file("hardware/spreads/steps.csv")); row.next();) {
      const auto* const name = std::find(kNames.begin(), kNames.end(), row["learnt"]);
      if (name == kNames.end()) continue;
      s.of[static_cast<std::size_t>(name - kNames.begin())][row["precision"] == "half" ? 1 : 0] =
          row.number("spread").value_or(0);
    }
    return s;
  }();
  return kSpreads;
}

}  // namespace

Learnt learnt_of(const Device& d, bool half) {
  if (d.vendor != "nvidia") return Learnt::kVendor;
  if (half && d.full_name.find("GeForce") != std::string::npos) return Learnt::kGeForce;
  const ProductKind kind = half ? ProductKind::kHalf : ProductKind::kFp32;
  return TransferWeights::shipped().knows(kind, d) ? Learnt::kDevice : Learnt::kArchitecture;
}

std::string_view to_string(Learnt what) { return kNames[static_cast<std::size_t>(what)]; }

double learnt_spread(const Device& d, bool half) {
  const Learnt what = learnt_of(d, half);
  const double known = step_spreads().of[static_cast<std::size_t>(what)][half ? 1 : 0];
  // The published steps of other makers' GPUs are of one network on one GPU, which says little of the rest.
  return what == Learnt::kVendor ? std::max(known, spreads().unmeasured) : known;
}

}  // namespace foretrace::hardware
