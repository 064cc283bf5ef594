#include "hardware/spreads.hpp"

#include <span>
#include <string_view>
#include <utility>

#include "base/data_files.hpp"
#include "base/figures.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::hardware {

const Spreads& spreads() {
  static const Spreads kSpreads = [] {
    Spreads s;
    const std::pair<std::string_view, double*> carried[] = {{"same_kernel", &s.same_kernel},
                                                            {"same_silicon", &s.same_silicon},
                                                            {"attention", &s.attention},
                                                            {"unmeasured", &s.unmeasured}};
    const std::pair<std::string_view, double*> of_tables[] = {{"own_kernel", &s.own_kernel},
                                                              {"own_algorithm", &s.own_algorithm}};
    for (const DataFile& file : data_files_in("hardware/spreads")) {
      const std::string_view stem = file.stem(), text = file.text;
      if (stem == "transfer") read_figures(text, carried);
      if (stem == "kernels") read_figures(text, of_tables);
    }
    FORETRACE_CHECK(s.unmeasured > 0 && s.own_kernel > 0);
    return s;
  }();
  return kSpreads;
}

}  // namespace foretrace::hardware
