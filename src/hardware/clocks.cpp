#include "hardware/clocks.hpp"

#include <span>
#include <vector>

#include "base/data_files.hpp"
#include "base/figures.hpp"

namespace foretrace::hardware {

const Clocks& clocks() {
  static const Clocks kClocks = [] {
    Clocks c;
    std::vector<std::pair<std::string_view, double*>> places;
    for (const auto& [name, member] : kClockNames) places.emplace_back(name, &(c.*member));
    read_figures(data_files_in("hardware/clocks").front().text, places);
    return c;
  }();
  return kClocks;
}

}  // namespace foretrace::hardware
