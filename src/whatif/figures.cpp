#include "whatif/figures.hpp"

#include <span>
#include <string_view>
#include <utility>

#include "base/figures.hpp"

namespace foretrace::whatif {

std::span<const std::pair<std::string_view, std::string_view>> figure_files();  // generated from figures/*.csv

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
    read_figures(figure_files().front().second, places);
    return f;
  }();
  return kMeasured;
}

}  // namespace foretrace::whatif
