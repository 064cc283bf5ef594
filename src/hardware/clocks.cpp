#include "hardware/clocks.hpp"

#include <span>
#include <vector>

#include "base/figures.hpp"

namespace foretrace::hardware {

std::span<const std::pair<std::string_view, std::string_view>> clock_files();  // generated from clocks/*.csv

const Clocks& clocks() {
  static const Clocks kClocks = [] {
    Clocks c;
    std::vector<std::pair<std::string_view, double*>> places;
    for (const auto& [name, member] : kClockNames) places.emplace_back(name, &(c.*member));
    read_figures(clock_files().front().second, places);
    return c;
  }();
  return kClocks;
}

}  // namespace foretrace::hardware
