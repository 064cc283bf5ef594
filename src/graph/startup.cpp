#include "graph/startup.hpp"

#include <algorithm>
#include <unordered_set>

#include "base/notable.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "trace/name_tables.hpp"

namespace foretrace::graph {

namespace {

using trace::EventKind;

/// Calls of one operation while it times its own kernels.
struct Tuning {
  std::uint32_t op = kNone;
  Ns begin = 0;
  Ns end = 0;
  std::uint32_t launches = 0;  // since the last wait for an event
  std::uint32_t trials = 0;
};

}  // namespace

StartupIndex::StartupIndex(const TraceIndex& index, const trace::Steps& steps)
    : index_(index), kind_(index.calls.size(), StartupKind::kNone), steps_(steps.steps.size()) {
  for (const GpuWork& w : index_.work) {
    if (!busy_.empty() && w.begin <= busy_.back().end) {
      busy_.back().end = std::max(busy_.back().end, w.end);
    } else {
      const Ns before = busy_.empty() ? 0 : busy_.back().before + busy_.back().end - busy_.back().begin;
      busy_.push_back({w.begin, w.end, before});
    }
  }
  find_compiling();
  find_tuning();
  const auto order = [](const StartupRange& a, const StartupRange& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  };
  std::sort(ranges_.begin(), ranges_.end(), order);
  std::vector<StartupRange> outermost;
  for (const StartupRange& r : ranges_) {
    const bool inside = !outermost.empty() && outermost.back().lane == r.lane && r.begin < outermost.back().end;
    if (!inside) outermost.push_back(r);
  }
  ranges_ = std::move(outermost);
  find_calls();
  judge(steps);
}

Ns StartupIndex::gpu_idle(Ns begin, Ns end) const {
  const auto busy_until = [&](Ns when) {
    const auto behind =
        std::upper_bound(busy_.begin(), busy_.end(), when, [](Ns t, const Busy& b) { return t < b.begin; });
    if (behind == busy_.begin()) return Ns{0};
    const Busy& last = *(behind - 1);
    return last.before + std::min(when, last.end) - last.begin;
  };
  return end - begin - (busy_until(end) - busy_until(begin));
}

bool StartupIndex::overlaps(Ns begin, Ns end) const {
  const auto behind =
      std::upper_bound(spans_.begin(), spans_.end(), end, [](Ns t, const std::pair<Ns, Ns>& s) { return t < s.first; });
  return behind != spans_.begin() && (behind - 1)->second >= begin;
}

void StartupIndex::find_compiling() {
  const trace::Trace& t = index_.trace;
  const auto rows = trace::name_table("compiling", 2);
  std::vector<char> compiles(t.strings.size(), 0);
  bool any = false;
  for (std::uint32_t s = 0; s < t.strings.size(); ++s) {
    const std::string_view name = t.strings[StringId{s}];
    compiles[s] =
        std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return contains(name, row[0]); }) ? 1 : 0;
    any |= compiles[s] != 0;
  }
  if (!any) return;
  for (std::uint32_t lane = 0; lane < index_.cpu.size(); ++lane) {
    for (const std::uint32_t e : index_.cpu[lane]) {
      if (compiles[t.events.name[e].index()] == 0 || t.kind(e) == EventKind::kRuntime) continue;
      ranges_.push_back({lane, t.events.start[e], t.end(e), StartupKind::kCompiling});
    }
  }
}

// An operation that launches, waits for an event, launches again and waits again is timing what it launches. What it launches behind
// that it uses. A backward pass does this twice, for two gradients, each time with events of its own.
void StartupIndex::find_tuning() {
  const bool waits = std::any_of(index_.calls.begin(), index_.calls.end(),
                                 [](const Call& c) { return c.role == CallRole::kEventSync; });
  if (!waits) return;
  const trace::Trace& t = index_.trace;
  for (std::uint32_t lane = 0; lane < index_.cpu.size(); ++lane) {
    const std::vector<std::uint32_t>& events = index_.cpu[lane];
    Tuning tuning;
    const auto close = [&] {
      if (tuning.trials > 1) ranges_.push_back({lane, tuning.begin, tuning.end, StartupKind::kTuning});
      tuning = {};
    };
    for (std::uint32_t place = 0; place < events.size(); ++place) {
      const std::uint32_t call = index_.call_of(events[place]);
      if (call == kNone) continue;
      std::uint32_t op = index_.around[lane][place];
      while (op != kNone && t.kind(events[op]) != EventKind::kOp) op = index_.around[lane][op];
      const Call& c = index_.calls[call];
      if (op != tuning.op || (c.kind.makes_event && tuning.trials > 0)) close();
      if (op == kNone) continue;
      if (tuning.op == kNone) tuning = {op, c.begin};
      if (c.role == CallRole::kLaunch) ++tuning.launches;
      if (c.role != CallRole::kEventSync || tuning.launches == 0) continue;
      ++tuning.trials;
      tuning.launches = 0;
      tuning.end = c.end;
    }
    close();
  }
}

void StartupIndex::find_calls() {
  std::unordered_set<std::uint32_t> seen;  // kernels, by name
  std::vector<Ns> launches;
  for (std::uint32_t i = 0; i < kind_.size(); ++i) {
    const Call& c = index_.calls[i];
    const auto behind = std::upper_bound(ranges_.begin(), ranges_.end(), c, [](const Call& x, const StartupRange& r) {
      return x.lane != r.lane ? x.lane < r.lane : x.begin < r.begin;
    });
    if (behind != ranges_.begin() && (behind - 1)->lane == c.lane && c.begin < (behind - 1)->end) {
      kind_[i] = (behind - 1)->kind;
      continue;
    }
    if (c.role == CallRole::kLaunch) {
      if (c.works != 1 || c.graph) continue;
      const std::uint32_t kernel = index_.work[index_.work_by_call[c.first_work]].event;
      if (index_.trace.kind(kernel) != EventKind::kKernel) continue;
      if (seen.insert(index_.trace.events.name[kernel].value).second) {
        kind_[i] = StartupKind::kLaunch;
      } else {
        launches.push_back(c.end - c.begin - c.blocked);
      }
    } else if (c.kind.allocates || c.kind.frees) {
      kind_[i] = StartupKind::kAllocation;
    } else if (c.role == CallRole::kOther && !c.kind.copies && !c.kind.launches &&
               (c.kind.loads || c.end - c.begin > kLongestWarmCall)) {
      kind_[i] = StartupKind::kLoading;
    }
  }
  if (!launches.empty()) launch_ = median(launches);
}

Ns StartupIndex::evidence(std::uint32_t call) const {
  const Call& c = index_.calls[call];
  if (kind_[call] == StartupKind::kNone || c.end - c.begin - c.blocked <= kLongestWarmCall) return 0;
  const Ns idle = std::min(gpu_idle(c.begin, c.end), c.end - c.begin - c.blocked);
  return idle > kLongestWarmCall ? idle - warm(call) : 0;
}

void StartupIndex::judge(const trace::Steps& steps) {
  const std::vector<trace::Step>& all = steps.steps;
  struct Sums {
    Ns other = 0, growth = 0;        // evidence
    Ns allocating = 0, freeing = 0;  // all calls
  };
  std::vector<Sums> sums(all.size());
  const auto step_at = [&](Ns when) {
    const auto behind =
        std::upper_bound(all.begin(), all.end(), when, [](Ns t, const trace::Step& s) { return t < s.start; });
    const auto step = static_cast<std::size_t>(behind - all.begin());
    return step > 0 && when < all[step - 1].end ? step - 1 : all.size();
  };
  for (std::uint32_t i = 0; i < kind_.size(); ++i) {
    const StartupKind kind = kind_[i];
    if (kind == StartupKind::kNone || kind == StartupKind::kTuning || kind == StartupKind::kCompiling) continue;
    const Call& c = index_.calls[i];
    const std::size_t step = step_at(c.begin);
    if (step == all.size()) continue;
    if (kind == StartupKind::kAllocation) {
      (c.kind.frees ? sums[step].freeing : sums[step].allocating) += c.end - c.begin;
      sums[step].growth += evidence(i);
    } else {
      sums[step].other += evidence(i);
    }
  }
  for (const StartupRange& r : ranges_) {
    const std::size_t step = step_at(r.begin);
    if (step < all.size() && r.end - r.begin > kLongestWarmCall) sums[step].other += r.end - r.begin;
  }
  // The allocator grows once. Where most steps allocate, or a lone step without any other start-up work frees memory, it is
  // what the program does all the time.
  std::size_t allocating = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    allocating += is_notable(sums[i].allocating + sums[i].freeing, all[i].duration()) ? 1 : 0;
  }
  const bool every_step = all.size() > 1
                              ? 2 * allocating > all.size()
                              : !all.empty() && sums[0].freeing > 0 && !is_notable(sums[0].other, all[0].duration());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Ns allocator = sums[i].allocating + sums[i].freeing;
    steps_[i].cold = is_notable(sums[i].other + (every_step ? 0 : sums[i].growth), all[i].duration());
    if (every_step && is_notable(allocator, all[i].duration())) steps_[i].allocator = allocator;
  }
  for (std::uint32_t i = 0; i < kind_.size(); ++i) {
    if (every_step && kind_[i] == StartupKind::kAllocation) kind_[i] = StartupKind::kNone;
    if (kind_[i] == StartupKind::kNone) continue;
    const Call& c = index_.calls[i];
    if (!spans_.empty() && c.begin <= spans_.back().second) {
      spans_.back().second = std::max(spans_.back().second, c.end);
    } else {
      spans_.emplace_back(c.begin, c.end);
    }
  }
}

}  // namespace foretrace::graph
