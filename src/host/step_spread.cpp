#include "host/step_spread.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/csv.hpp"
#include "base/data_files.hpp"

namespace foretrace::host {

namespace {

// All but a thousandth of a step: no spread lets it end before it began.
constexpr double kMost = 0.999;

}  // namespace

std::optional<LogSpread> recorded_spread(const graph::Graph& graph, Ns step) {
  const graph::StepSpread& all = graph.recorded_steps;
  const auto this_one = static_cast<double>(graph.traced);
  if (all.steps < 2 || this_one <= 0 || step <= 0) return std::nullopt;
  const double longer = std::max(0.0, static_cast<double>(all.high) - this_one);
  const double shorter = std::max(0.0, this_one - static_cast<double>(all.low));
  const double shortest = std::min(this_one, static_cast<double>(step));
  return LogSpread{std::log1p(longer / shortest), -std::log1p(-std::min(shorter / shortest, kMost))};
}

double one_step_sigma() {
  static const double kSigma = [] {
    double sigma = 0;
    const std::array<std::pair<std::string_view, double*>, 1> places = {{{"one_step", &sigma}}};
    read_values(data_file("host/step_spread.csv"), places);
    return sigma;
  }();
  return kSigma;
}

}  // namespace foretrace::host
