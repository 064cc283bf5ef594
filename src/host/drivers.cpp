#include "host/drivers.hpp"

#include <algorithm>
#include <array>

#include "base/csv.hpp"
#include "base/data_files.hpp"

namespace foretrace::host {

DriverChange launches_under(std::string_view from, std::string_view to) {
  static const DriverChange kAmd = [] {
    DriverChange change;
    const std::array<std::pair<std::string_view, double*>, 2> places = {
        {{"ratio", &change.ratio}, {"spread", &change.sigma}}};
    read_values(data_file("host/drivers.csv"), places);
    return change;
  }();
  if (from == "nvidia" && to == "amd") return kAmd;
  if (from == "amd" && to == "nvidia") return {1 / kAmd.ratio, kAmd.sigma};
  return {};
}

void change_driver(HostCosts& host, double ratio) {
  const double call = std::max(0.0, host.reference.launch_call_us - host.profiler.call_us);
  const double more = (ratio - 1) * call;
  for (double* us : {&host.reference.launch_call_us, &host.eager.op_us, &host.eager.cast_us, &host.compiled.launch_us,
                     &host.python.launch_us, &host.launches.us[0], &host.launches.us[1], &host.launches.us[2]}) {
    *us += more;
  }
}

}  // namespace foretrace::host
