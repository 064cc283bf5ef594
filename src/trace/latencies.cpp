#include "trace/latencies.hpp"

#include <cmath>

#include "base/csv.hpp"
#include "base/data_files.hpp"

namespace foretrace::trace {

Latencies parse_latencies(std::string_view csv) {
  Latencies out;
  const std::pair<std::string_view, Ns*> names[] = {{"kernel_gap", &out.kernel_gap},
                                                    {"launch_latency", &out.launch_latency},
                                                    {"graph_gap", &out.graph_gap},
                                                    {"short_kernel", &out.short_kernel},
                                                    {"empty_kernel", &out.empty_kernel},
                                                    {"sync_return", &out.sync_return},
                                                    {"sync_call", &out.sync_call},
                                                    {"collective_start", &out.collective_start},
                                                    {"stream_hand_over", &out.stream_hand_over},
                                                    {"result_ready", &out.result_ready}};
  for (CsvReader row(csv, {"name", "ns"}); row.next();) {
    for (const auto& [name, place] : names) {
      if (row["name"] == name) *place = std::llround(row.number("ns").value_or(0));
    }
  }
  for (const auto& [name, place] : names) FORETRACE_CHECK(*place > 0);
  return out;
}

const Latencies& default_latencies() {
  static const Latencies kDefault = [] {
    const DataFiles& files = DataFiles::shipped();
    return parse_latencies(files.measured("trace/latencies", files.reference_device()).text);
  }();
  return kDefault;
}

}  // namespace foretrace::trace
