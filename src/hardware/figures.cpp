#include "hardware/figures.hpp"

#include <utility>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

Figures parse_figures(std::string_view csv) {
  Figures f;
  const std::pair<std::string_view, double*> places[] = {{"list_share", &f.list_share},
                                                         {"capturable_kernels", &f.capturable_kernels},
                                                         {"pageable_copy", &f.pageable_copy},
                                                         {"worker_slowdown", &f.worker_slowdown},
                                                         {"gpu_repeat", &f.gpu_repeat},
                                                         {"kernel_contention", &f.kernel_contention},
                                                         {"collective_contention", &f.collective_contention},
                                                         {"collective_inside", &f.collective_inside},
                                                         {"half_sum", &f.half_sum},
                                                         {"layout_share", &f.layout_share}};
  read_values(csv, places);
  return f;
}

const Figures& measured_figures(const Device& device) { return Tables::shipped().of(device).figures; }

const trace::Latencies& latencies_of(const Device& device) { return Tables::shipped().of(device).latencies; }

const trace::Latencies& latencies_of(const trace::Trace& trace) {
  const Result<DeviceMatch> match = device_of(trace);
  return match ? latencies_of(match->device) : trace::default_latencies();
}

}  // namespace foretrace::hardware
