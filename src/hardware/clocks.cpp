#include "hardware/clocks.hpp"

#include <vector>

#include "base/csv.hpp"
#include "base/data_files.hpp"

namespace foretrace::hardware {

Clocks parse_clocks(std::string_view csv) {
  Clocks c;
  std::vector<std::pair<std::string_view, double*>> places;
  for (const auto& [name, member] : kClockNames) places.emplace_back(name, &(c.*member));
  read_values(csv, places);
  return c;
}

}  // namespace foretrace::hardware
