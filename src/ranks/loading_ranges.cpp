#include "ranks/loading_ranges.hpp"

#include <algorithm>

#include "trace/ranges.hpp"

namespace foretrace::ranks {

LoadingRanges loading_ranges(const trace::Trace& trace) {
  std::vector<std::int8_t> loads(trace.strings.size(), -1);
  LoadingRanges out;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    const trace::EventKind kind = trace.kind(e);
    if (kind != trace::EventKind::kOp && kind != trace::EventKind::kAnnotation) continue;
    std::int8_t& known = loads[trace.events.name[e].index()];
    if (known < 0) known = trace::is_loader_range(trace.name(e)) ? 1 : 0;
    if (known != 0) out.emplace_back(trace.events.start[e], trace.end(e));
  }
  std::sort(out.begin(), out.end());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (kept > 0 && out[i].first < out[kept - 1].second) {
      out[kept - 1].second = std::max(out[kept - 1].second, out[i].second);
    } else {
      out[kept++] = out[i];
    }
  }
  out.resize(kept);
  return out;
}

}  // namespace foretrace::ranks
