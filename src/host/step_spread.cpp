#include "host/step_spread.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/csv.hpp"
#include "base/data_files.hpp"

namespace foretrace::host {

std::optional<LogSpread> recorded_spread(const graph::Graph& graph) {
  const graph::StepSpread& all = graph.recorded_steps;
  if (all.steps < 2 || graph.traced <= 0 || all.low <= 0) return std::nullopt;
  const auto log_of = [](Ns longer, Ns shorter) {
    return std::max(0.0, std::log(static_cast<double>(longer) / static_cast<double>(shorter)));
  };
  return LogSpread{log_of(all.high, graph.traced), log_of(graph.traced, all.low)};
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
