#include "graph/latencies.hpp"

#include <cmath>
#include <string_view>
#include <utility>

#include "base/figures.hpp"

namespace foretrace::graph {

const Latencies& usual_latencies() {
  static const Latencies kUsual = [] {
    Latencies out;
    const std::pair<std::string_view, Ns*> figures[] = {{"kernel_gap", &out.kernel_gap},
                                                        {"launch_latency", &out.launch_latency},
                                                        {"graph_gap", &out.graph_gap},
                                                        {"short_kernel", &out.short_kernel},
                                                        {"empty_kernel", &out.empty_kernel},
                                                        {"sync_return", &out.sync_return},
                                                        {"sync_call", &out.sync_call},
                                                        {"collective_start", &out.collective_start},
                                                        {"stream_hand_over", &out.stream_hand_over}};
    for (const auto& [name, figure] : figures) *figure = std::llround(measured_latency(name));
    return out;
  }();
  return kUsual;
}

}  // namespace foretrace::graph
