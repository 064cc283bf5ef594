#include "graph/latencies.hpp"

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "foretrace/base/result.hpp"

namespace foretrace::graph {

std::span<const std::pair<std::string_view, std::string_view>> latency_files();  // generated from latencies/*.csv

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
    std::string_view text = latency_files().front().second;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      for (const auto& [name, figure] : figures) {
        if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ',') continue;
        std::from_chars(line.data() + name.size() + 1, line.data() + line.size(), *figure);
      }
    }
    for (const auto& [name, figure] : figures) FORETRACE_CHECK(*figure > 0);
    return out;
  }();
  return kUsual;
}

}  // namespace foretrace::graph
