#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/decimal.hpp"
#include "base/statistics.hpp"
#include "base/suggest.hpp"
#include "base/text.hpp"
#include "foretrace/trace/trace.hpp"
#include "trace/name_tables.hpp"
#include "trace/ranges.hpp"
#include "trace/step_ranges.hpp"

namespace foretrace::trace {

namespace {

bool is_range_kind(EventKind kind) { return kind == EventKind::kAnnotation || kind == EventKind::kOp; }

// Events whose name `wanted` gives a group, by group, in the order of the file.
template <class Group>
std::map<std::size_t, std::vector<std::uint32_t>> grouped(const Trace& trace, bool python, Group wanted) {
  constexpr std::size_t kNo = SIZE_MAX;
  std::vector<std::size_t> group(trace.strings.size(), kNo);
  bool any = false;
  for (std::uint32_t s = 0; s < trace.strings.size(); ++s) {
    group[s] = wanted(trace.strings[StringId{s}]);
    any |= group[s] != kNo;
  }
  std::map<std::size_t, std::vector<std::uint32_t>> events;
  if (!any) return events;
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    const std::size_t g = group[trace.events.name[e].index()];
    if (g == kNo || trace.events.ph[e] != 'X') continue;
    if (is_range_kind(trace.kind(e)) || (python && trace.kind(e) == EventKind::kPython)) events[g].push_back(e);
  }
  return events;
}

// With several optimizers (a GAN's two), one period holds one range of each: count the first one's.
void keep_first_name(const Trace& trace, std::vector<std::uint32_t>& events) {
  if (events.empty()) return;
  const auto first = *std::min_element(events.begin(), events.end(), [&](std::uint32_t a, std::uint32_t b) {
    return trace.events.start[a] < trace.events.start[b];
  });
  const StringId name = trace.events.name[first];
  std::erase_if(events, [&](std::uint32_t e) { return trace.events.name[e] != name; });
}

std::vector<Step> profiler_steps(const Trace& trace, std::vector<std::uint32_t> events) {
  std::stable_sort(events.begin(), events.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return trace.events.start[a] < trace.events.start[b]; });
  std::vector<Step> steps;
  for (const std::uint32_t e : events) {
    // A range inside another one of its thread is a part of that step.
    if (!steps.empty() && steps.back().lane == trace.events.lane[e] && trace.end(e) <= steps.back().end &&
        trace.events.duration[e] < steps.back().duration()) {
      continue;
    }
    const std::string_view name = trace.name(e);
    const auto number = parse_int64(name.substr(name.find('#') + 1));
    steps.push_back({std::string(name), number.value_or(static_cast<std::int64_t>(steps.size())), trace.events.start[e],
                     trace.end(e), trace.events.lane[e]});
  }
  return steps;
}

// Ranges of the table, best first: those of the lowest priority, of which the innermost that hold the whole step.
class MarkedSteps {
 public:
  explicit MarkedSteps(const Trace& trace) : t_(trace) {}

  Steps run() {
    const std::vector<StepPattern>& patterns = step_patterns();
    const auto found = grouped(t_, false, [&](std::string_view name) {
      const StepPattern* p = step_pattern_of(name);
      return p == nullptr ? SIZE_MAX : static_cast<std::size_t>(p - patterns.data());
    });
    for (auto& [row, events] : found) {
      if (patterns[row].priority == 1) return {StepSource::kProfilerStep, profiler_steps(t_, events), {}};
    }
    if (found.empty()) return {};
    clock_.emplace(t_);
    std::vector<RangeSet> sets;
    for (const auto& [row, events] : found) {
      std::vector<std::uint32_t> own = events;
      if (!patterns[row].whole) keep_first_name(t_, own);
      sets.push_back(outermost(t_, own, &patterns[row]));
    }
    for (const RangeSet& set : sets) {
      if (!set.pattern->whole) ends_.push_back(&set);
    }
    std::vector<const RangeSet*> good;
    for (const RangeSet& set : sets) {
      if (!good.empty() && good.front()->pattern->priority < set.pattern->priority) break;  // rows are by priority
      if (sound(set)) good.push_back(&set);
    }
    const RangeSet* best = innermost(good);
    if (best == nullptr) return {};
    std::vector<Step> steps = best->pattern->whole ? steps_of_ranges(t_, *best) : steps_between_ends(t_, *best);
    return {best->pattern->whole ? StepSource::kAnnotation : StepSource::kOptimizer, std::move(steps),
            fmt::format("{} ({})", best->pattern->pattern, best->pattern->source)};
  }

 private:
  static constexpr int kConvention = 4;

  // Whether the ranges can be steps at all.
  [[nodiscard]] bool sound(const RangeSet& set) const {
    if (set.events.empty()) return false;
    if (!set.pattern->whole) return set.events.size() >= 2;
    std::vector<std::uint64_t> tasks;
    for (const std::uint32_t e : set.events) tasks.push_back(clock_->between(t_.events.start[e], t_.end(e)).tasks);
    if (median(tasks) < kFewestTasks) return false;
    for (const RangeSet* ends : ends_) {
      std::vector<Ns> updates;
      for (const std::uint32_t x : ends->events) updates.push_back(t_.events.start[x]);
      std::sort(updates.begin(), updates.end());
      // A range that holds two updates of one optimizer is more than a step.
      for (const std::uint32_t e : set.events) {
        const auto first = std::lower_bound(updates.begin(), updates.end(), t_.events.start[e]);
        if (std::lower_bound(first, updates.end(), t_.end(e)) - first >= 2) return false;
      }
    }
    const WorkClock::Sum sum = held(t_, set, *clock_);
    const WorkClock::Sum all = clock_->all();
    if (all.time > 0 && sum.time == 0) return false;
    // A name anybody may use counts where most of the work is inside.
    return set.pattern->priority < kConvention || sum.time >= all.time / 2;
  }

  // Of the sets that hold most work, the one whose ranges are shortest together.
  [[nodiscard]] const RangeSet* innermost(const std::vector<const RangeSet*>& sets) const {
    Ns most = 0;
    for (const RangeSet* s : sets) most = std::max(most, held(t_, *s, *clock_).time);
    const RangeSet* best = nullptr;
    Ns shortest = 0;
    for (const RangeSet* s : sets) {
      if (held(t_, *s, *clock_).time < most) continue;
      Ns length = 0;
      for (const std::uint32_t e : s->events) length += t_.events.duration[e];
      if (best != nullptr && length >= shortest) continue;
      best = s;
      shortest = length;
    }
    return best;
  }

  const Trace& t_;
  std::optional<WorkClock> clock_;
  std::vector<const RangeSet*> ends_;
};

// Kernels in order of start (of the busiest stream), or operations where there are no kernels.
std::vector<std::size_t> repeating_sequence(const Trace& trace) {
  const auto collect = [&](EventKind kind) {
    std::unordered_map<std::uint32_t, std::size_t> per_lane;
    for (std::size_t e = 0; e < trace.size(); ++e) {
      if (trace.kind(e) == kind && trace.events.ph[e] == 'X') ++per_lane[trace.events.lane[e].value];
    }
    std::vector<std::size_t> sequence;
    if (per_lane.empty()) return sequence;
    const auto busiest = std::max_element(per_lane.begin(), per_lane.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second < b.second : a.first > b.first;
    });
    for (std::size_t e = 0; e < trace.size(); ++e) {
      if (trace.kind(e) == kind && trace.events.ph[e] == 'X' && trace.events.lane[e].value == busiest->first) {
        sequence.push_back(e);
      }
    }
    std::stable_sort(sequence.begin(), sequence.end(),
                     [&](std::size_t a, std::size_t b) { return trace.events.start[a] < trace.events.start[b]; });
    return sequence;
  };
  std::vector<std::size_t> kernels = collect(EventKind::kKernel);
  return kernels.size() >= 16 ? kernels : collect(EventKind::kOp);
}

// Whether parts of a sequence are steps of a program rather than layers of a network, of which a forward pass is made up between
// an embedding and a head. A step waits for the GPU or reads a result back, which a layer does not; and no layer has that many kernels.
class StepsOfSolver {
 public:
  StepsOfSolver(const Trace& trace, const std::vector<std::size_t>& sequence) : t_(trace), sequence_(sequence) {
    for (std::size_t e = 0; e < trace.size(); ++e) {
      if (trace.events.ph[e] != 'X') continue;
      const EventKind kind = trace.kind(e);
      const bool waits = kind == EventKind::kRuntime && contains(trace.name(e), "Synchronize");
      const bool reads = kind == EventKind::kMemcpy && contains(trace.name(e), "DtoH");
      if (waits || reads) results_.push_back(trace.events.start[e]);
      network_ |= kind == EventKind::kOp;
    }
    std::sort(results_.begin(), results_.end());
  }

  bool operator()(const std::vector<std::size_t>& begins) const {
    constexpr std::size_t kLargestLayer = 64;  // kernels
    const std::size_t steps = begins.size() - 1;
    if (network_) return false;
    std::vector<std::size_t> lengths;
    for (std::size_t i = 0; i < steps; ++i) lengths.push_back(begins[i + 1] - begins[i]);
    if (median(lengths) > kLargestLayer) return true;
    std::size_t with_result = 0;
    for (std::size_t i = 0; i < steps; ++i) {
      const auto after = std::lower_bound(results_.begin(), results_.end(), start_of(begins[i]));
      with_result += after != results_.end() && *after < start_of(begins[i + 1]) ? 1 : 0;
    }
    return with_result * 2 > steps;
  }

 private:
  [[nodiscard]] Ns start_of(std::size_t place) const { return t_.events.start[sequence_[place]]; }

  const Trace& t_;
  const std::vector<std::size_t>& sequence_;
  std::vector<Ns> results_;  // when the CPU waited or something was read back
  bool network_ = false;     // operations of a framework are recorded
};

std::vector<Step> repeated_steps(const Trace& trace) {
  const std::vector<std::size_t> sequence = repeating_sequence(trace);
  std::vector<std::uint32_t> names;
  std::vector<Ns> rests;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    names.push_back(trace.events.name[sequence[i]].value);
    rests.push_back(i == 0 ? 0 : std::max<Ns>(0, trace.events.start[sequence[i]] - trace.end(sequence[i - 1])));
  }
  std::vector<std::size_t> begins = repeated_parts(names, rests);
  if (begins.empty()) begins = anchored_parts(names, rests, StepsOfSolver(trace, sequence));
  std::vector<Step> steps;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    steps.push_back({fmt::format("step {}", i), static_cast<std::int64_t>(i), trace.events.start[sequence[begins[i]]],
                     trace.events.start[sequence[begins[i + 1]]], LaneId{}});
  }
  return steps;
}

std::vector<Step> whole_trace(const Trace& trace) {
  Ns start = std::numeric_limits<Ns>::max();
  Ns end = std::numeric_limits<Ns>::min();
  Ns thread_end = std::numeric_limits<Ns>::min();
  for (std::size_t e = 0; e < trace.size(); ++e) {
    const EventKind kind = trace.kind(e);
    if (trace.events.ph[e] != 'X' || kind == EventKind::kSpan || kind == EventKind::kOverhead) continue;
    start = std::min(start, trace.events.start[e]);
    end = std::max(end, trace.end(e));
    if (!is_gpu_work(kind)) thread_end = std::max(thread_end, trace.end(e));
  }
  if (start > end) return {};
  Step step{"whole trace", 0, start, end, LaneId{}};
  // Start times that follow from dependencies leave the CPU ahead of the GPU: then the GPU ends the step. Recorded ones do not say
  // whether the CPU waited for the rest.
  const bool derived = trace.diagnostics.find("starts_from_dependencies") != nullptr;
  if (derived && thread_end > start && thread_end < end) step.thread_end = thread_end;
  return {step};
}

}  // namespace

std::string_view describe(StepSource source) {
  switch (source) {
    case StepSource::kProfilerStep:
      return "ProfilerStep ranges";
    case StepSource::kOptimizer:
      return "from the end of one optimizer range to the next";
    case StepSource::kRepetition:
      return "a sequence of kernels that repeats";
    case StepSource::kAnnotation:
      return "ranges that mark steps";
    case StepSource::kByName:
      return "ranges picked by name";
    case StepSource::kWholeTrace:
      break;
  }
  return "nothing repeats: the whole trace counts as one step";
}

std::size_t Steps::median() const {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return steps[a].duration() < steps[b].duration(); });
  return order.empty() ? 0 : order[(order.size() - 1) / 2];
}

Result<std::size_t> Steps::by_number(std::int64_t number) const {
  std::string there;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].number == number) return i;
    if (i < 20) there += fmt::format("{}{}", i == 0 ? "" : ", ", steps[i].number);
  }
  if (steps.size() > 20) there += ", …";
  return fail(ErrorCode::kUsage, fmt::format("the trace has no step {}", number), "it has: " + there);
}

Steps find_steps(const Trace& trace) {
  if (!trace.steps_by.empty()) {
    if (Result<Steps> picked = steps_by(trace, trace.steps_by)) return std::move(*picked);
  }
  if (Steps marked = MarkedSteps(trace).run(); !marked.steps.empty()) return marked;
  using FindSteps = std::vector<Step> (*)(const Trace&);
  constexpr std::pair<StepSource, FindSteps> kMethods[] = {{StepSource::kRepetition, repeated_steps},
                                                           {StepSource::kWholeTrace, whole_trace}};
  for (const auto& [source, find] : kMethods) {
    std::vector<Step> steps = find(trace);
    if (!steps.empty()) return {source, std::move(steps), {}};
  }
  return {};
}

Result<Steps> steps_by(const Trace& trace, std::string_view name) {
  const std::string pattern = without_numbers(name);
  const auto pick = [&](auto fits) {
    auto found = grouped(trace, true, [&](std::string_view text) { return fits(text) ? std::size_t{0} : SIZE_MAX; });
    return found.empty() ? RangeSet{} : outermost(trace, std::move(found.begin()->second), nullptr);
  };
  RangeSet set = pick([&](std::string_view text) { return text == name; });
  if (set.events.empty()) set = pick([&](std::string_view text) { return matches(text, name); });
  if (set.events.empty()) {
    const auto numbered = [&](std::string_view text) {
      const std::string plain = without_numbers(text);
      for (const std::string_view tail : {"%d", " %d", "_%d", "#%d", "-%d", "=%d"}) {
        if (plain.size() == pattern.size() + tail.size() && plain.starts_with(pattern) && plain.ends_with(tail))
          return true;
      }
      return plain == pattern;
    };
    set = pick(numbered);
  }
  if (!set.events.empty()) {
    return Steps{StepSource::kByName, steps_of_ranges(trace, set), std::string(name)};
  }
  std::vector<std::string> names;
  std::string there;
  std::size_t shown = 0;
  for (const StepCandidate& c : step_candidates(trace)) {
    names.push_back(c.name);
    if (const std::size_t number = c.name.find("%d"); number != std::string::npos && number > 1) {
      names.push_back(c.name.substr(0, c.name.find_last_not_of(" _#-=", number - 1) + 1));  // "step" for "step %d"
    }
    if (++shown <= 8) there += fmt::format("{}'{}' ({})", shown == 1 ? "" : ", ", c.name, c.count);
  }
  std::string hint = did_you_mean(name, names);
  if (!hint.empty()) hint += " ";
  hint += there.empty() ? "the trace has no range that repeats" : "ranges there are: " + there;
  return fail(ErrorCode::kUsage, fmt::format("no range is named '{}'", name), std::move(hint));
}

Status mark_steps_by(Trace& trace, const std::string& name) {
  if (name.empty()) return {};
  if (const Result<Steps> picked = steps_by(trace, name); !picked) return tl::unexpected(picked.error());
  trace.steps_by = name;
  return {};
}

std::vector<StepCandidate> step_candidates(const Trace& trace) {
  std::map<std::string, std::vector<std::uint32_t>, std::less<>> sets;
  std::unordered_map<std::uint32_t, std::string> plain;
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    if (trace.events.ph[e] != 'X' || trace.kind(e) != EventKind::kAnnotation) continue;
    const auto [it, inserted] = plain.try_emplace(trace.events.name[e].value);
    if (inserted) it->second = without_numbers(trace.name(e));
    sets[it->second].push_back(e);
  }
  std::vector<StepCandidate> out;
  if (sets.empty()) return out;
  const WorkClock clock(trace);
  const Ns all = clock.all().time;
  for (auto& [name, events] : sets) {
    const RangeSet set = outermost(trace, events, nullptr);
    if (set.events.empty()) continue;
    const Ns time = held(trace, set, clock).time;
    // Ranges around a part of the step (a layer, a collective) are no candidates.
    constexpr Ns kPart = 2;
    const bool known = is_step_range(trace.name(set.events.front()));
    if (time == 0 || name.starts_with("layer:") || (time < all / kPart && !known)) continue;
    std::vector<Ns> lengths;
    for (const std::uint32_t e : set.events) lengths.push_back(trace.events.duration[e]);
    out.push_back({name, set.events.size(), median(lengths),
                   all > 0 ? static_cast<double>(time) / static_cast<double>(all) : 0.0});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const StepCandidate& a, const StepCandidate& b) { return a.gpu_share > b.gpu_share; });
  return out;
}

}  // namespace foretrace::trace
