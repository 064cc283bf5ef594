#include "hardware/figures.hpp"

#include <span>
#include <string_view>
#include <utility>

#include "base/data_files.hpp"
#include "base/figures.hpp"

namespace foretrace::hardware {

const Figures& measured_figures() {
  static const Figures kMeasured = [] {
    Figures f;
    const std::pair<std::string_view, double*> places[] = {{"list_share", &f.list_share},
                                                           {"capturable_kernels", &f.capturable_kernels},
                                                           {"pageable_copy", &f.pageable_copy},
                                                           {"worker_slowdown", &f.worker_slowdown},
                                                           {"gpu_repeat", &f.gpu_repeat},
                                                           {"beside_collective", &f.beside_collective},
                                                           {"collective_beside", &f.collective_beside},
                                                           {"half_sum", &f.half_sum},
                                                           {"layout_share", &f.layout_share}};
    read_figures(data_files_in("hardware/figures").front().text, places);
    return f;
  }();
  return kMeasured;
}

}  // namespace foretrace::hardware
