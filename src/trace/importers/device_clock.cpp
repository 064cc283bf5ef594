#include "trace/importers/device_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/notable.hpp"
#include "base/statistics.hpp"
#include "trace/device_times.hpp"

namespace foretrace::trace {

namespace {

constexpr Ns kReturn = 1 * kNsPerUs;    // from the end of the work to the call's return, at the least
constexpr Ns kHalfRange = Ns{1} << 62;  // a guard: differences of times do not overflow
constexpr std::size_t kMinSamples = 3;

bool waits_for_stream(std::string_view name) {
  return name.starts_with("cudaStreamSynchronize") || name.starts_with("cuStreamSynchronize");
}

void move_gpu(Trace& trace, Ns by) {
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    if (is_gpu_work(trace.kind(e)) || trace.kind(e) == EventKind::kCudaEvent) trace.events.start[e] += by;
  }
}

// By how much the GPU's clock is behind, at the least: no work starts before the call that launches it. `slack` is sorted. A few that do
// are rows that went wrong. Clocks of one domain are read less than a wake-up apart.
Ns behind_by(const std::vector<Ns>& slack) {
  const auto early =
      static_cast<std::size_t>(std::lower_bound(slack.begin(), slack.end(), -kLongestWake) - slack.begin());
  const auto rows = static_cast<std::int64_t>(slack.size());
  if (early < kMinSamples || !is_notable(static_cast<std::int64_t>(early), rows)) return 0;
  const Ns lowest = slack[early / 50];  // a row or two may be anything
  return lowest < -kHalfRange ? 0 : -lowest;
}

}  // namespace

void align_device_clock(Trace& trace) {
  struct Work {
    Ns called, end;
  };
  std::unordered_map<std::int64_t, std::uint32_t> calls;   // correlation -> call
  std::unordered_map<std::int64_t, std::uint32_t> stream;  // correlation of a wait -> lane
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    const std::int64_t id = trace.events.correlation[e];
    if (id == kAbsent || trace.events.ph[e] != 'X') continue;
    if (trace.kind(e) == EventKind::kRuntime) calls[id] = e;
    if (trace.kind(e) == EventKind::kSync && trace.name(e) == "Stream Sync") stream[id] = trace.events.lane[e].value;
  }
  std::unordered_map<std::uint32_t, std::vector<Work>> lanes;
  std::vector<Ns> slack;
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    if (!is_gpu_work(trace.kind(e))) continue;
    const auto call = calls.find(trace.events.correlation[e]);
    if (call == calls.end()) continue;
    Ns before = 0;
    if (__builtin_sub_overflow(trace.events.start[e], trace.events.start[call->second], &before)) continue;
    lanes[trace.events.lane[e].value].push_back({trace.events.start[call->second], trace.end(e)});
    slack.push_back(before);
  }
  std::sort(slack.begin(), slack.end());
  if (const Ns behind = behind_by(slack); behind > 0) {
    move_gpu(trace, behind);
    trace.diagnostics.add("clock_domains", Severity::kInfo,
                          "the GPU's times are of another clock than the CPU's: work started before the calls that "
                          "launched it; all of it was moved behind them, and how long it really lagged is not known",
                          fmt::format("by {:.1f} us", to_us(behind)));
    return;
  }
  for (auto& [lane, works] : lanes) {
    std::sort(works.begin(), works.end(), [](const Work& a, const Work& b) { return a.called < b.called; });
  }
  std::vector<Ns> late;  // by how much the last work of the stream ended after the wait for it
  for (const auto& [id, lane] : stream) {
    const auto call = calls.find(id);
    const auto works = lanes.find(lane);
    if (call == calls.end() || works == lanes.end() || !waits_for_stream(trace.name(call->second))) continue;
    const auto behind = std::lower_bound(works->second.begin(), works->second.end(), trace.events.start[call->second],
                                         [](const Work& w, Ns t) { return w.called < t; });
    if (behind == works->second.begin()) continue;
    Ns by = 0;
    if (!__builtin_sub_overflow((behind - 1)->end, trace.end(call->second), &by)) late.push_back(by);
  }
  // Imprecise clocks are apart by little, clocks of two domains by much; what is far from both is something else.
  const Ns typical = late.empty() ? 0 : median(late);
  const Ns about = typical < kLongestWake ? 0 : typical;
  std::erase_if(late, [&](Ns by) { return by <= about - kLongestWake || by >= about + kLongestWake; });
  if (late.size() < kMinSamples || slack.empty() || median(late) <= 0) return;
  const Ns allowed = slack[slack.size() / 1000];
  const Ns shift = std::min(*std::max_element(late.begin(), late.end()) + kReturn, allowed);
  if (shift <= 0) return;
  move_gpu(trace, -shift);
  trace.diagnostics.add("device_clock", Severity::kInfo,
                        "the GPU's clock ran ahead of the CPU's: work ended after the calls that waited for it; it was "
                        "moved back",
                        fmt::format("by {:.1f} us", to_us(shift)));
}

}  // namespace foretrace::trace
