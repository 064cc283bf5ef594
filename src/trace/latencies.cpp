#include "trace/latencies.hpp"

#include <cmath>

#include "base/csv.hpp"
#include "base/data_files.hpp"

namespace foretrace::trace {

const Latencies& default_latencies() {
  static const Latencies kDefault = [] {
    Latencies out;
    const DataFiles& files = DataFiles::shipped();
    const std::pair<std::string_view, Ns*> names[] = {{"kernel_gap", &out.kernel_gap},
                                                      {"launch_latency", &out.launch_latency},
                                                      {"graph_gap", &out.graph_gap},
                                                      {"short_kernel", &out.short_kernel},
                                                      {"empty_kernel", &out.empty_kernel},
                                                      {"sync_return", &out.sync_return},
                                                      {"sync_call", &out.sync_call},
                                                      {"collective_start", &out.collective_start},
                                                      {"stream_hand_over", &out.stream_hand_over},
                                                      {"result_told", &out.result_ready}};
    for (CsvReader row(files.measured("trace/latencies", files.reference_device()).text, {"name", "ns"}); row.next();) {
      for (const auto& [name, place] : names) {
        if (row["name"] == name) *place = std::llround(row.number("ns").value_or(0));
      }
    }
    for (const auto& [name, place] : names) FORETRACE_CHECK(*place > 0);
    return out;
  }();
  return kDefault;
}

}  // namespace foretrace::trace
