#include "hardware/spreads.hpp"

#include <utility>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::hardware {

const Spreads& spreads() {
  static const Spreads kSpreads = [] {
    Spreads s;
    const std::pair<std::string_view, double*> transferred[] = {{"same_kernel", &s.same_kernel},
                                                                {"same_silicon", &s.same_silicon},
                                                                {"attention", &s.attention},
                                                                {"unmeasured", &s.unmeasured}};
    read_values(data_file("hardware/spreads/transfer.csv"), transferred);
    return s;
  }();
  return kSpreads;
}

double parse_own_kernel(std::string_view csv) {
  double spread = 0;
  const std::pair<std::string_view, double*> places[] = {{"own_kernel", &spread}};
  read_values(csv, places);
  return spread;
}

}  // namespace foretrace::hardware
