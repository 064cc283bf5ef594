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
    const std::pair<std::string_view, double*> of_tables[] = {{"own_kernel", &s.own_kernel}};
    read_values(data_file("hardware/spreads/kernels.csv"), of_tables);
    return s;
  }();
  return kSpreads;
}

}  // namespace foretrace::hardware
