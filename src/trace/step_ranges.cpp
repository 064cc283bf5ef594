#include "trace/step_ranges.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "base/decimal.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "trace/name_tables.hpp"
#include "trace/ranges.hpp"

namespace foretrace::trace {

namespace {

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

}  // namespace

const std::vector<StepPattern>& step_patterns() {
  static const std::vector<StepPattern> kPatterns = [] {
    std::vector<StepPattern> all;
    for (const NameRow& row : name_table("steps", 4)) {
      FORETRACE_CHECK(row[1] == "whole" || row[1] == "end");
      const auto priority = parse_int64(row[0]);
      FORETRACE_CHECK(priority.has_value());
      all.push_back({static_cast<int>(*priority), row[1] == "whole", row[2], row[3]});
    }
    return all;
  }();
  return kPatterns;
}

const StepPattern* step_pattern_of(std::string_view name) {
  // Most names of a trace begin like none of the patterns ("aten::…", "void …").
  static const std::array<bool, 256> kBegins = [] {
    std::array<bool, 256> begins{};
    for (const StepPattern& p : step_patterns()) {
      FORETRACE_CHECK(!p.pattern.empty() && p.pattern.front() != '*' && p.pattern.front() != '%');
      begins[static_cast<unsigned char>(lower(p.pattern.substr(0, 1)).front())] = true;
      begins[static_cast<unsigned char>(upper(p.pattern.front()))] = true;
    }
    return begins;
  }();
  if (name.empty() || !kBegins[static_cast<unsigned char>(name.front())]) return nullptr;
  for (const StepPattern& p : step_patterns()) {
    if (matches(name, p.pattern)) return &p;
  }
  return nullptr;
}

bool is_step_range(std::string_view name) {
  const StepPattern* pattern = step_pattern_of(name);
  return pattern != nullptr && pattern->whole;
}

bool is_autograd_node(std::string_view name) {
  if (name.starts_with("autograd::engine::evaluate_function") || name.starts_with("torch::autograd::")) return true;
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.remove_suffix(1);
  return name.ends_with("Backward") && !contains(name, "::");
}

WorkClock::WorkClock(const Trace& trace) {
  struct At {
    Ns when;
    Sum sum;
  };
  std::unordered_map<std::int64_t, std::vector<Ns>> called;  // correlation -> begins of calls; several in merged files
  std::vector<At> all;
  bool gpu = false;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (trace.events.ph[e] != 'X') continue;
    const EventKind kind = trace.kind(e);
    if (kind == EventKind::kRuntime && trace.events.correlation[e] != kAbsent) {
      called[trace.events.correlation[e]].push_back(trace.events.start[e]);
    }
    gpu |= is_gpu_work(kind);
  }
  for (auto& [correlation, begins] : called) std::sort(begins.begin(), begins.end());
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (trace.events.ph[e] != 'X') continue;
    const EventKind kind = trace.kind(e);
    const Ns start = trace.events.start[e];
    if (kind == EventKind::kOp) {
      all.push_back({start, {1, gpu ? 0 : 1}});
    } else if (kind == EventKind::kRuntime) {
      all.push_back({start, {1, 0}});
    } else if (is_gpu_work(kind)) {
      Ns when = start;
      if (const auto it = called.find(trace.events.correlation[e]); it != called.end()) {
        // The last call with its id that began before it ended.
        const auto behind = std::upper_bound(it->second.begin(), it->second.end(), trace.end(e));
        if (behind != it->second.begin()) when = *(behind - 1);
      }
      all.push_back({when, {1, std::max<Ns>(0, trace.events.duration[e])}});
    }
  }
  std::sort(all.begin(), all.end(), [](const At& a, const At& b) { return a.when < b.when; });
  when_.reserve(all.size());
  before_.reserve(all.size() + 1);
  before_.emplace_back();
  for (const At& a : all) {
    when_.push_back(a.when);
    Ns time = 0;
    if (__builtin_add_overflow(before_.back().time, a.sum.time, &time)) time = before_.back().time;
    before_.push_back({before_.back().tasks + a.sum.tasks, time});
  }
}

WorkClock::Sum WorkClock::between(Ns begin, Ns end) const {
  const auto place = [&](Ns t) {
    return static_cast<std::size_t>(std::lower_bound(when_.begin(), when_.end(), t) - when_.begin());
  };
  const Sum& from = before_[place(begin)];
  const Sum& to = before_[end == INT64_MAX ? when_.size() : std::max(place(begin), place(end))];
  return {to.tasks - from.tasks, to.time - from.time};
}

RangeSet outermost(const Trace& trace, const std::vector<std::uint32_t>& events, const StepPattern* pattern) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> lanes;
  for (const std::uint32_t e : events) lanes[trace.events.lane[e].value].push_back(e);
  RangeSet best;
  best.pattern = pattern;
  Ns longest = -1;
  for (auto& [lane, list] : lanes) {
    std::sort(list.begin(), list.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (trace.events.start[a] != trace.events.start[b]) return trace.events.start[a] < trace.events.start[b];
      return trace.end(a) != trace.end(b) ? trace.end(a) > trace.end(b) : a < b;
    });
    std::vector<std::uint32_t> kept;
    Ns length = 0;
    for (const std::uint32_t e : list) {
      if (!kept.empty() && trace.events.start[e] < trace.end(kept.back())) continue;
      if (trace.events.duration[e] <= 0) continue;
      kept.push_back(e);
      if (__builtin_add_overflow(length, trace.events.duration[e], &length)) length = INT64_MAX;
    }
    if (kept.size() < best.events.size() || (kept.size() == best.events.size() && length <= longest)) continue;
    best.lane = LaneId{lane};
    best.events = std::move(kept);
    longest = length;
  }
  return best;
}

WorkClock::Sum held(const Trace& trace, const RangeSet& set, const WorkClock& clock) {
  WorkClock::Sum sum;
  for (const std::uint32_t e : set.events) {
    const WorkClock::Sum one = clock.between(trace.events.start[e], trace.end(e));
    sum.tasks += one.tasks;
    sum.time += one.time;
  }
  return sum;
}

namespace {

// The one number of a name, where its pattern has one: "[Executor] _forward_step 12: 0 ctx reqs" -> 12.
std::optional<std::int64_t> number_of(std::string_view name, const StepPattern* pattern) {
  std::size_t from = 0;
  if (pattern != nullptr) {
    const std::size_t digits = pattern->pattern.find("%d");
    if (digits == std::string_view::npos || pattern->pattern.find('*') < digits) return std::nullopt;
    from = digits;
  }
  const std::size_t first = name.find_first_of("0123456789", from);
  if (first == std::string_view::npos) return std::nullopt;
  std::size_t last = name.find_first_not_of("0123456789", first);
  if (last == std::string_view::npos) last = name.size();
  if (pattern == nullptr && name.find_first_of("0123456789", last) != std::string_view::npos) return std::nullopt;
  return parse_int64(name.substr(first, last - first));
}

// Names and numbers of steps: those of their ranges where each has its own, else counted.
void name_steps(const Trace& trace, const RangeSet& set, std::vector<Step>& steps) {
  std::vector<std::int64_t> numbers;
  bool same = steps.size() > 1;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].name = std::string(trace.name(set.events[i]));
    same &= trace.events.name[set.events[i]] == trace.events.name[set.events[0]];
    if (const auto n = number_of(steps[i].name, set.pattern)) numbers.push_back(*n);
  }
  std::vector<std::int64_t> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  const bool own = numbers.size() == steps.size() && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].number = own ? numbers[i] : static_cast<std::int64_t>(i);
    if (same && !own) steps[i].name += " " + std::to_string(i);
  }
}

}  // namespace

std::vector<Step> steps_of_ranges(const Trace& trace, const RangeSet& set) {
  std::vector<Step> steps;
  if (set.events.empty()) return steps;
  if (set.events.size() == 1) {
    steps.push_back(lone_step(trace, set.events[0]));
    name_steps(trace, set, steps);
    return steps;
  }
  // A step is a period: what is between two ranges (loading, sampling, scheduling) belongs to the one before. Unless
  // nothing happened for long: then the engine had nothing to do.
  std::vector<Ns> distances;
  std::vector<Ns> gaps;
  for (std::size_t i = 0; i + 1 < set.events.size(); ++i) {
    distances.push_back(trace.events.start[set.events[i + 1]] - trace.events.start[set.events[i]]);
    gaps.push_back(trace.events.start[set.events[i + 1]] - trace.end(set.events[i]));
  }
  constexpr Ns kIdle = 2;    // times the typical distance
  constexpr Ns kClose = 20;  // one part in so many
  std::vector<Ns> sorted = distances;
  const Ns typical = median(sorted);
  sorted = gaps;
  const bool close = median(sorted) <= typical / kClose;
  for (std::size_t i = 0; i < set.events.size(); ++i) {
    const std::uint32_t e = set.events[i];
    const bool last = i + 1 == set.events.size();
    // What follows the last range is not in the file.
    if (last && !close) break;
    const bool idle = !last && gaps[i] / kIdle > typical;
    const Ns end = last || idle ? trace.end(e) : trace.events.start[set.events[i + 1]];
    steps.push_back({{}, 0, trace.events.start[e], end, set.lane});
  }
  name_steps(trace, set, steps);
  return steps;
}

std::vector<Step> steps_between_ends(const Trace& trace, const RangeSet& set) {
  std::vector<Step> steps;
  for (std::size_t i = 1; i < set.events.size(); ++i) {
    steps.push_back({"step " + std::to_string(i - 1), static_cast<std::int64_t>(i - 1), trace.end(set.events[i - 1]),
                     trace.end(set.events[i]), set.lane});
  }
  return steps;
}

}  // namespace foretrace::trace
