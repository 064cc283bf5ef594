#include "graph/rules/held_back.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "trace/device_times.hpp"

namespace foretrace::graph {

namespace {

// Blocks differ: those of a kernel's last wave begin up to this part of its time early, the first ones of its only wave end that early,
// and the number of waves that follows from the launch's geometry is off by as much.
constexpr double kEarly = 0.1;
// Grids that a GPU runs at once (CUDA C++ Programming Guide, "Maximum number of resident grids per device"). A trace that shows
// more is damaged; the last ones to begin are kept, so that the time per task stays bounded.
constexpr std::size_t kMostResident = 128;
// For the same reason: tasks of all GPUs of a machine that begin or end within one wake-up.
constexpr std::size_t kMostNear = 8 * kMostResident;

// The part of a kernel's time after which it leaves room for others: its last wave has begun, or its only one is about to end.
double makes_room_at(const GpuWork& kernel) {
  const auto waves = static_cast<double>(kernel.waves);
  return waves > 1 + kEarly ? 1 - 1 / std::ceil(waves) - kEarly : 1 - kEarly;
}

}  // namespace

HeldBack::HeldBack(const StepState& s) : s_(s) {
  for (std::uint32_t i = 0; i < s_.works.size(); ++i) by_end_.push_back({i});
  for (const std::uint32_t w : s_.earlier) by_end_.push_back({w, true});
  by_begin_ = by_end_;
  const auto order = [&](Source x) { return std::tuple(x.earlier, x.id); };
  std::sort(by_end_.begin(), by_end_.end(), [&](Source a, Source b) {
    return s_.gpu(a).end != s_.gpu(b).end ? s_.gpu(a).end < s_.gpu(b).end : order(a) < order(b);
  });
  if (s_.earlier.empty()) return;  // StepWorks are by begin already
  std::stable_sort(by_begin_.begin(), by_begin_.end(),
                   [&](Source a, Source b) { return s_.gpu(a).begin < s_.gpu(b).begin; });
}

void HeldBack::advance_to(std::uint32_t i) {
  const Ns now = s_.gpu(i).begin;
  std::erase_if(running_, [&](Source x) { return s_.gpu(x).end <= now; });
  for (; next_ < by_begin_.size() && by_begin_[next_] != Source{i}; ++next_) {
    if (s_.gpu(by_begin_[next_]).end > now) running_.push_back(by_begin_[next_]);
  }
  if (running_.size() > kMostResident) {
    running_.erase(running_.begin(), running_.end() - static_cast<std::ptrdiff_t>(kMostResident));
  }
}

Source HeldBack::just_ended(const GpuWork& w, Ns satisfied, Ns within) const {
  auto it =
      std::upper_bound(by_end_.begin(), by_end_.end(), w.begin, [&](Ns t, Source x) { return t < s_.gpu(x).end; });
  for (std::size_t near = 0; it != by_end_.begin() && near < kMostNear; ++near) {
    const GpuWork& x = s_.gpu(*--it);
    if (x.end < w.begin - within || x.end <= satisfied) break;
    if (x.lane != w.lane && x.begin < w.begin && s_.device_of(x) == s_.device_of(w)) return *it;
  }
  return {};
}

// One that fills the device and had reached its last wave, or any wave of it.
Holder HeldBack::fills_the_device(const GpuWork& w, bool any_wave) const {
  for (std::size_t r = running_.size(); r-- > 0;) {
    const GpuWork& x = s_.gpu(running_[r]);
    if (x.lane == w.lane || x.begin >= w.begin - 1 || static_cast<double>(x.waves) < 1 - kEarly ||
        s_.device_of(x) != s_.device_of(w))
      continue;
    const double fraction = static_cast<double>(w.begin - x.begin) / static_cast<double>(x.end - x.begin);
    if (any_wave || fraction >= makes_room_at(x)) {
      return {running_[r], static_cast<std::uint32_t>(fraction * kWhole), false};
    }
  }
  return {};
}

// One that was about to end: its blocks do not all end at once, and the first of them made room.
Holder HeldBack::about_to_end(const GpuWork& w) const {
  for (std::size_t r = running_.size(); r-- > 0;) {
    const GpuWork& x = s_.gpu(running_[r]);
    if (x.lane == w.lane || x.end > w.begin + trace::kLongestGap || s_.device_of(x) != s_.device_of(w)) continue;
    const double fraction = static_cast<double>(w.begin - x.begin) / static_cast<double>(x.end - x.begin);
    if (fraction >= 1 - kEarly) return {running_[r], static_cast<std::uint32_t>(fraction * kWhole), false};
  }
  return {};
}

// A collective launched before this one that had just begun: a part of a GPU has few hardware queues, and work of streams
// that share one starts in the order of its launches.
std::uint32_t HeldBack::collective_ahead(std::uint32_t i) const {
  const GpuWork& w = s_.gpu(i);
  for (std::uint32_t j = i; j > 0 && i - j < kMostNear; --j) {
    const GpuWork& x = s_.gpu(j - 1);
    if (x.begin < w.begin - trace::kLongestGap) break;
    if (x.lane == w.lane || x.call == kNone || !x.collective || s_.device_of(x) != s_.device_of(w)) continue;
    if (x.issued < w.issued) return j - 1;
  }
  return kNone;
}

Holder HeldBack::find(std::uint32_t i, Ns satisfied, bool long_wait) const {
  const GpuWork& w = s_.gpu(i);
  const bool graph = w.group > 1;
  Holder holder;
  holder.source = just_ended(w, satisfied, trace::kLongestGap);
  if (!holder.source.valid()) holder = fills_the_device(w, false);
  if (!holder.source.valid()) {
    holder.source = {collective_ahead(i)};
    if (holder.source.valid()) holder.point = 0;
  }
  const bool typical = holder.source.valid();
  if (!typical && long_wait) holder = about_to_end(w);
  if (!holder.source.valid() && long_wait) holder.source = just_ended(w, satisfied, trace::kLongestWake);
  if (!holder.source.valid() && long_wait) holder = fills_the_device(w, true);
  if (!holder.source.valid()) return holder;
  // A small kernel that had just ended is a dependency the trace does not name, and stays one; so does whatever ended a wait
  // that is too long to be anything else.
  const GpuWork& x = s_.gpu(holder.source);
  holder.certain = graph || !typical || holder.point == 0 ||
                   (holder.point == kWhole && (x.waves < 0.5F || (x.collective && long_wait)));
  return holder;
}

}  // namespace foretrace::graph
