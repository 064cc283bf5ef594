// Which parts of a step take longer for the same work, beyond the noise of kernels and operations.
//
// The same work of both sides makes pairs. The spread of a family's pairs around their common ratio is one estimate of its noise; the
// spread of kernels of unchanged programs is another (noise.hpp); the larger one counts. Recordings whose other kernels agree closely
// are judged by their own spread: two copies of one file have no noise at all.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/statistics.hpp"
#include "compare/noise.hpp"
#include "compare/parts.hpp"

namespace foretrace::compare {
namespace {

// Standard errors a claim needs: a step has some ten families and a hundred kernels, and 95 of 100 unchanged pairs shall be left alone.
constexpr double kFamilyErrors = 3.5, kKernelErrors = 5, kCpuErrors = 5;
// Negligible differences, as a part of all GPU time, and of the step's CPU time.
constexpr double kLeastGpu = 0.002, kLeastKernel = 0.004, kLeastWork = 0.01, kLeastCpu = 0.06;
// A family that moved by less is the GPU's clock.
constexpr double kLeastRatio = 0.02;
// So many families, with so much of the GPU's time, are all of it.
constexpr int kFamiliesOfAll = 3;
constexpr double kMostMoved = 0.7;
constexpr double kShortNs = 5'000, kLongNs = 50'000;
// Recordings that scatter by less than this part of what is typical are copies of one.
constexpr double kCopies = 0.02;

struct Pair {
  const std::string* key;
  const GpuItem* item;
  double before, after, typical;  // ns, and the typical spread of log(after / before)
};

double typical_spread(const GpuItem& item) {
  const Noise& n = Noise::table();
  if (item.from_host) return n.host_copy;
  const double one = item.count > 0 ? item.ns / item.count : item.ns;
  return one < kShortNs ? n.short_kernel : one < kLongNs ? n.kernel : n.long_kernel;
}

double common_ratio(const std::vector<Pair>& pairs) {
  std::vector<std::pair<double, double>> ratios;
  for (const Pair& p : pairs) ratios.emplace_back(p.after / p.before, p.before);
  return weighted_median(std::move(ratios), 1);
}

struct Moved {
  double before = 0, after = 0, error = 0;
  [[nodiscard]] double log_ratio() const { return std::log(after / before); }
};

class MovedParts {
 public:
  MovedParts(const std::vector<Profile>& before, const std::vector<Profile>& after)
      : a_(average(before)),
        b_(average(after)),
        averaged_(std::sqrt(0.5 / static_cast<double>(before.size()) + 0.5 / static_cast<double>(after.size()))) {
    for (const auto& [key, item] : a_.gpu) {
      const auto at = b_.gpu.find(key);
      // Work of another number of calls is other work, not slower work.
      if (at == b_.gpu.end() || item.ns <= 0 || at->second.ns <= 0) continue;
      if (std::abs(at->second.count - item.count) > 0.01 * item.count) continue;
      pairs_.push_back({&key, &item, item.ns, at->second.ns, typical_spread(item)});
    }
    find_scale();
  }

  std::vector<Cause> find(bool explained) {
    kernels();
    if (!explained) one_sided();
    if (!explained) cpu();
    std::stable_sort(out_.begin(), out_.end(),
                     [](const Cause& a, const Cause& b) { return std::abs(a.time) > std::abs(b.time); });
    return std::move(out_);
  }

 private:
  // How much these two recordings scatter, as a multiple of the typical noise.
  void find_scale() {
    const double common = common_ratio(pairs_);
    std::vector<std::pair<double, double>> scatter;
    for (const Pair& p : pairs_) {
      scatter.emplace_back(std::abs(std::log(p.after / p.before / common)) / p.typical, p.before);
    }
    // 0.95: half of a normal distribution's values are within 0.67 of sqrt(2) standard deviations.
    if (!scatter.empty()) scale_ = std::clamp(weighted_median(std::move(scatter), 0) / 0.95, 0.0, 1.0);
    if (pairs_.size() < 20) scale_ = std::max(scale_, 1.0);  // too few to say
  }

  [[nodiscard]] Moved moved(const std::vector<Pair>& pairs) const {
    Moved out;
    const double common = common_ratio(pairs);
    double own = 0, typical = 0;
    for (const Pair& p : pairs) {
      out.before += p.before;
      out.after += p.after;
      own += (p.after - common * p.before) * (p.after - common * p.before);
      // Copies from the host have two speeds, whatever the kernels of the step do.
      const double scale = p.item->from_host && scale_ > kCopies ? 1 : scale_;
      typical += 2 * scale * scale * p.typical * p.before * p.typical * p.before;
    }
    const double n = static_cast<double>(pairs.size());
    own = n > 1 ? std::sqrt(own * n / (n - 1)) / out.before : 0;
    typical = std::sqrt(typical) / out.before * averaged_;
    const double clock = Noise::table().common * std::max(scale_, 0.2);
    out.error = std::hypot(std::max(own, typical), clock);
    return out;
  }

  [[nodiscard]] static bool beyond(const Moved& m, double errors, double least) {
    return m.before > 0 && m.after > 0 && std::abs(m.log_ratio()) > std::max(kLeastRatio, errors * m.error) &&
           std::abs(m.after - m.before) > least;
  }

  // The layers or operations whose part of a change is largest.
  template <class Name>
  static std::string mostly(const std::vector<Pair>& pairs, Name name) {
    std::map<std::string, double> parts;
    double all = 0;
    for (const Pair& p : pairs) {
      parts[name(*p.item)] += p.after - p.before;
      all += p.after - p.before;
    }
    std::vector<std::pair<double, std::string>> order;
    for (auto& [text, part] : parts) {
      if (!text.empty() && part * all > 0) order.emplace_back(std::abs(part), text);
    }
    std::sort(order.rbegin(), order.rend());
    std::string out;
    for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 3); ++i) {
      out += (out.empty() ? "" : ", ") + order[i].second;
    }
    return out;
  }

  static std::string direction(const Moved& m) {
    const double pct = 100 * (m.after / m.before - 1);
    return fmt::format("{:.1f} % {}", std::abs(pct), pct > 0 ? "longer" : "shorter");
  }

  // Most of the GPU's work changed in one direction: the GPU is what differs, not its kernels.
  void whole_gpu(double moved_ns) {
    if (moved_ns < kMostMoved * a_.gpu_ns) return;
    const Moved m = moved(pairs_);
    if (!beyond(m, kFamilyErrors, kLeastGpu * a_.gpu_ns)) return;
    out_.push_back({CauseKind::kKernels,
                    fmt::format("all kernels take {} for the same work{}", direction(m),
                                a_.device == b_.device ? ": another clock, or other work at the same time" : ""),
                    "", std::llround(m.after - m.before), "", 100 * kFamilyErrors * m.error});
  }

  void kernels() {
    double longer = 0, shorter = 0;
    int claimed = 0;
    std::map<work::Family, std::vector<Pair>> families;
    for (const Pair& p : pairs_) families[p.item->family].push_back(p);
    for (const auto& [family, pairs] : families) {
      const Moved m = moved(pairs);
      if (beyond(m, kFamilyErrors, kLeastGpu * a_.gpu_ns)) {
        out_.push_back({CauseKind::kKernels,
                        fmt::format("{} kernels take {} for the same work", to_string(family), direction(m)),
                        mostly(pairs, [](const GpuItem& i) { return i.layer.empty() ? i.op : i.layer; }),
                        std::llround(m.after - m.before), "", 100 * kFamilyErrors * m.error});
        (m.after > m.before ? longer : shorter) += m.before;
        ++claimed;
        continue;
      }
      std::map<std::string, std::vector<Pair>> groups;
      for (const Pair& p : pairs) groups[p.item->kernel + "|" + p.item->op].push_back(p);
      for (const auto& [key, group] : groups) {
        const Moved g = moved(group);
        const GpuItem& item = *group.front().item;
        // The time of a kernel that overlaps another stream depends on that stream: only the family's time says something.
        if (item.overlaps || !beyond(g, kKernelErrors, kLeastKernel * a_.gpu_ns)) continue;
        out_.push_back(
            {CauseKind::kKernels,
             fmt::format("a {} kernel takes {} for the same work: {}", to_string(family), direction(g), item.kernel),
             mostly(group, [](const GpuItem& i) { return i.layer.empty() ? i.op : i.layer; }),
             std::llround(g.after - g.before), "", 100 * kKernelErrors * g.error});
      }
    }
    if (claimed >= kFamiliesOfAll) whole_gpu(std::max(longer, shorter));
  }

  // Operations whose kernels, or their number, differ from the other side's.
  void one_sided() {
    std::map<std::string, GpuItem> before = a_.gpu, after = b_.gpu;
    for (const Pair& p : pairs_) {
      before.erase(*p.key);
      after.erase(*p.key);
    }
    const auto name = [](const GpuItem& i) { return i.op.empty() ? i.kernel : i.op; };
    std::map<std::string, std::set<std::string>> layers;
    for (const auto* side : {&before, &after}) {
      for (const auto& [key, item] : *side) {
        if (!item.layer.empty()) layers[name(item)].insert(item.layer);
      }
    }
    for (const auto& [op, w] : sums_by(before, after, name)) {
      if (std::abs(w.after - w.before) < kLeastWork * a_.gpu_ns) continue;
      // Copies from the host and fills differ in number from one recording to the next without anybody changing them.
      const double change = w.after_count - w.before_count;
      std::string what;
      if (w.before == 0) {
        what = fmt::format("new work on the GPU: {} in {:.0f} launches", op, w.after_count);
      } else if (w.after == 0) {
        what = fmt::format("removed work: {}, {:.0f} launches", op, w.before_count);
      } else if (std::abs(change) >= 1) {
        what = fmt::format("{} in {:.0f} launches instead of {:.0f}", op, w.after_count, w.before_count);
      } else {
        what = fmt::format("other kernels or sizes for {}", op);
      }
      std::string where;
      for (const std::string& layer : layers[op]) {
        if (where.size() > 60) break;
        where += (where.empty() ? "" : ", ") + layer;
      }
      out_.push_back({CauseKind::kWork, what, where, std::llround(w.after - w.before), "", 0});
    }
  }

  // A host that is slower makes everything slower: an operation stands out against the others.
  void cpu() {
    std::vector<std::pair<double, double>> ratios;
    for (const auto& [key, item] : a_.cpu) {
      const auto at = b_.cpu.find(key);
      if (at != b_.cpu.end() && item.ns > 0 && at->second.ns > 0) ratios.emplace_back(at->second.ns / item.ns, item.ns);
    }
    const double common = weighted_median(std::move(ratios), 1);
    for (const auto& [op, s] : sums_by(a_.cpu, b_.cpu, [](const CpuItem& i) { return i.op; })) {
      const double expected = s.before * common, change = s.after - expected;
      if (std::abs(change) < kLeastCpu * a_.cpu_ns * common) continue;
      // A single long stretch varies as a whole, many short ones average out.
      const double count = std::max(1.0, std::min(s.before_count, s.after_count));
      const double error = std::sqrt(2.0) * averaged_ * Noise::table().cpu_op * std::hypot(1.0, 3 / std::sqrt(count));
      const bool other_count =
          std::abs(s.after_count - s.before_count) > 0.05 * std::max(s.before_count, s.after_count);
      const double ratio = s.before > 0 && s.after > 0 ? std::abs(std::log(s.after / expected)) : 1e9;
      if (!other_count && ratio < kCpuErrors * error) continue;
      out_.push_back({CauseKind::kCpu,
                      other_count
                          ? fmt::format("{} on the CPU: {:.0f} stretches of work instead of {:.0f}", op, s.after_count,
                                        s.before_count)
                          : fmt::format("{} takes the CPU {:.1f} times as long, the rest of the step {:.2f} times", op,
                                        s.after / s.before, common),
                      op, std::llround(s.after - s.before), "", 100 * kCpuErrors * error});
    }
  }
  Profile a_, b_;
  double averaged_;  // what several recordings leave of the noise of one
  double scale_ = 1;
  std::vector<Pair> pairs_;
  std::vector<Cause> out_;
};

}  // namespace

std::vector<Cause> moved_parts(const std::vector<Profile>& before, const std::vector<Profile>& after, bool explained) {
  return MovedParts(before, after).find(explained);
}

}  // namespace foretrace::compare
