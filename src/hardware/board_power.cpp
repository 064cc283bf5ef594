#include "hardware/board_power.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "hardware/architecture.hpp"

namespace foretrace::hardware {

namespace {

using work::Dtype;

struct PowerLaw {
  double voltage_floor = 0.5;                           ///< V(x) = floor + (1 - floor) x, of that at the rated clock
  std::map<std::string, double, std::less<>> energies;  ///< "tensor 8.9": W for each TFLOP/s
};

const PowerLaw& power_law() {
  static const PowerLaw kLaw = [] {
    PowerLaw law;
    for (CsvReader row(data_file("hardware/boards/power.csv")); row.next();) {
      const double value = row.number("value").value_or(0);
      if (row["unit"] == "voltage") {
        law.voltage_floor = value;
      } else {
        law.energies[std::string(row["unit"]) + " " + std::string(row["architecture"])] = value;
      }
    }
    return law;
  }();
  return kLaw;
}

bool on_lanes(Dtype dtype, const Device& d) {
  const bool tensor = dtype == Dtype::kFp16 || dtype == Dtype::kBf16 || dtype == Dtype::kTf32 || dtype == Dtype::kFp8;
  return !tensor && d.tflops_fp32_matrix <= 0;
}

double measured_share(Dtype dtype, const Device& d) {
  switch (dtype) {
    case Dtype::kTf32:
      return d.sustained_tf32;
    case Dtype::kFp16:
    case Dtype::kBf16:
    case Dtype::kFp8:
      return d.sustained_half;
    default:
      return d.sustained_fp32;
  }
}

// Of x V(x)^2 = power: the dynamic power of a chip at a share x of its clock, and of what it takes at that clock.
double share_of(double power) {
  if (!(power < 1)) return 1;
  const double floor = power_law().voltage_floor;
  double x =
      std::sqrt(power);  // above the answer for any floor, where the function is convex: Newton's steps only fall
  for (int i = 0; i < 8; ++i) {
    const double v = floor + (1 - floor) * x;
    x -= (x * v * v - power) / (v * v + 2 * x * v * (1 - floor));
  }
  return std::clamp(x, 0.0, 1.0);
}

}  // namespace

double watts_per_tflops(Dtype dtype, const Device& d) {
  const auto& energies = power_law().energies;
  const Architecture& architecture = architecture_of(d);
  const std::string unit = on_lanes(dtype, d) ? "lanes " : "tensor ";
  auto found = energies.find(unit + architecture.name);
  if (found == energies.end()) found = energies.find(unit + architecture.nearest);
  if (found == energies.end()) return 0;
  // TF32 moves twice the bits of half precision for each multiplication, FP8 half as many, FP32 on matrix cores four times.
  switch (dtype) {
    case Dtype::kTf32:
      return 2 * found->second;
    case Dtype::kFp8:
      return found->second / 2;
    case Dtype::kFp16:
    case Dtype::kBf16:
      return found->second;
    default:
      return (on_lanes(dtype, d) ? 1 : 4) * found->second;
  }
}

double highest_clock(Dtype dtype, const Device& d) { return std::max(1.0, measured_share(dtype, d)); }

double clock_at_limit(Dtype dtype, double tflops, const Device& d) {
  const double watts = watts_per_tflops(dtype, d) * tflops;
  return watts > 0 && d.power_w > 0 ? share_of(d.power_w / watts) : 1;
}

double clock_share(Dtype dtype, double tflops, const Device& d) {
  const double measured = measured_share(dtype, d);
  return measured > 0 ? measured : clock_at_limit(dtype, tflops, d);
}

}  // namespace foretrace::hardware
