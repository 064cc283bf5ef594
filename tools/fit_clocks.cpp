// The search for the clocks under which laws come nearest to what was measured, for tools/fit_clocks.py.

#include <algorithm>
#include <cmath>

#include "kernel_fit.hpp"

namespace foretrace::hardware {

namespace {

double bound_of(const MeasuredRow& row, const Clocks& c) {
  static const Device device = Tables::shipped().device(DataFiles::shipped().reference_device());
  const std::optional<KernelFeatures> features = kernel_features(row.work, device, Tables::shipped(), c);
  return features ? features->law_us : 0;
}

double off_by(const MeasuredRow& row, const Clocks& c) {
  const double bound = bound_of(row, c);
  return bound > 0 ? std::abs(std::log(row.us / bound)) : 0;
}

Clocks with(Clocks c, double Clocks::* member, double value) {
  c.*member = value;
  return c;
}

// Two digits: what more would say is the noise of the rows.
double two_digits(double v) {
  const double unit = std::pow(10.0, std::floor(std::log10(v)) - 1);
  return std::round(v / unit) * unit;
}

}  // namespace

std::vector<FittedClock> fit_clocks() {
  std::vector<MeasuredRow> all = Tables::shipped().kernels().rows(std::string(DataFiles::shipped().reference_device()));
  // Those have laws without clocks.
  std::erase_if(all, [](const MeasuredRow& row) {
    return row.operation == "gemm" || row.operation == "conv" || row.operation == "rnn" || row.operation == "attention";
  });
  Clocks c;
  for (const auto& [name, member] : kClockNames) c.*member = 100;  // where the search begins
  std::vector<std::vector<const MeasuredRow*>> rows(kClockNames.size());
  for (std::size_t i = 0; i < kClockNames.size(); ++i) {
    // Rows that some value of it would bound.
    const Clocks most = with(c, kClockNames[i].second, 1e6);
    for (const MeasuredRow& row : all) {
      if (bound_of(row, most) != bound_of(row, c)) rows[i].push_back(&row);
    }
  }
  const auto sum = [&](std::size_t i, const Clocks& with_it) {
    double total = 0;
    for (const MeasuredRow* row : rows[i]) total += off_by(*row, with_it);
    return total;
  };
  // One after the other, from steps of a factor of ten to the second digit, until none moves; those of one sum depend on each other.
  for (int round = 0, moved = 1; moved > 0 && round < 40; ++round) {
    moved = 0;
    for (std::size_t i = 0; i < kClockNames.size(); ++i) {
      double Clocks::* member = kClockNames[i].second;
      double best = c.*member;
      double least = sum(i, c);
      const double steps[] = {10, 3, 1.5, 1.2, 1.1, 1.05, 1.02};  // of the search
      for (const double step : steps) {
        for (bool better = true; better;) {
          better = false;
          for (const double factor : {1 / step, step}) {
            const double tried = two_digits(best * factor);
            if (tried < 0.1 || tried > 1e6 || tried == best) continue;
            const double total = sum(i, with(c, member, tried));
            if (total < least) {
              best = tried;
              least = total;
              better = true;
              break;
            }
          }
        }
      }
      if (best != c.*member) ++moved;
      c.*member = best;
    }
  }
  std::vector<FittedClock> out;
  for (std::size_t i = 0; i < kClockNames.size(); ++i) {
    std::vector<double> off;
    const Clocks without = with(c, kClockNames[i].second, 0);
    for (const MeasuredRow* row : rows[i]) {
      if (bound_of(*row, without) < bound_of(*row, c)) off.push_back(off_by(*row, c));
    }
    if (off.empty()) off.push_back(0);
    const auto middle = off.begin() + static_cast<std::ptrdiff_t>(off.size() / 2);
    std::nth_element(off.begin(), middle, off.end());
    out.push_back({kClockNames[i].first, c.*kClockNames[i].second, off.size(), *middle});
  }
  return out;
}

}  // namespace foretrace::hardware
