#include "foretrace/trace/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/decimal.hpp"

namespace foretrace::trace {

namespace {

constexpr std::string_view kProfilerStepPrefix = "ProfilerStep#";
constexpr std::string_view kOptimizerPrefix = "Optimizer.step#";

std::vector<std::size_t> annotations_with_prefix(const Trace& trace, std::string_view prefix) {
  std::vector<char> matches(trace.strings.size(), 0);
  bool any = false;
  for (std::uint32_t s = 0; s < trace.strings.size(); ++s) {
    matches[s] = trace.strings[StringId{s}].starts_with(prefix) ? 1 : 0;
    any |= matches[s] != 0;
  }
  std::vector<std::size_t> found;
  if (!any) return found;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (matches[trace.events.name[e].index()] == 0 || trace.events.ph[e] != 'X') continue;
    const EventKind kind = trace.kind(e);
    // Old traces mark their steps as plain operations.
    if (kind == EventKind::kAnnotation || kind == EventKind::kOp) found.push_back(e);
  }
  std::sort(found.begin(), found.end(),
            [&](std::size_t a, std::size_t b) { return trace.events.start[a] < trace.events.start[b]; });
  return found;
}

std::vector<Step> profiler_steps(const Trace& trace) {
  std::vector<Step> steps;
  for (const std::size_t e : annotations_with_prefix(trace, kProfilerStepPrefix)) {
    const std::string_view name = trace.name(e);
    const auto number = parse_int64(name.substr(kProfilerStepPrefix.size()));
    steps.push_back({std::string(name), number.value_or(static_cast<std::int64_t>(steps.size())), trace.events.start[e],
                     trace.end(e), trace.events.lane[e]});
  }
  return steps;
}

std::vector<Step> optimizer_steps(const Trace& trace) {
  std::vector<std::size_t> ranges = annotations_with_prefix(trace, kOptimizerPrefix);
  if (ranges.size() < 2) return {};
  // With several optimizers (a GAN's two), one period holds one range of each: count the first one's.
  const StringId first = trace.events.name[ranges.front()];
  std::erase_if(ranges, [&](std::size_t e) { return trace.events.name[e] != first; });
  std::vector<Step> steps;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    steps.push_back({fmt::format("step {}", i - 1), static_cast<std::int64_t>(i - 1), trace.end(ranges[i - 1]),
                     trace.end(ranges[i]), trace.events.lane[ranges[i]]});
  }
  return steps;
}

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

// The length of one period: a name that returns at equal distances, confirmed by the whole sequence. 0 when none does.
std::size_t find_period(const Trace& trace, const std::vector<std::size_t>& sequence) {
  struct Spacing {
    std::size_t last = 0, period = 0, count = 0;
    bool equal = true;
  };
  std::unordered_map<std::uint32_t, Spacing> by_name;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    Spacing& s = by_name[trace.events.name[sequence[i]].value];
    if (s.count == 1) s.period = i - s.last;
    if (s.count > 1 && i - s.last != s.period) s.equal = false;
    s.last = i;
    ++s.count;
  }
  std::vector<std::size_t> candidates;
  for (const auto& [name, s] : by_name) {
    if (s.equal && s.count >= 2 && s.period >= 4) candidates.push_back(s.period);
  }
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  constexpr double kConfirmed = 0.9;
  for (const std::size_t period : candidates) {
    if (period * 2 > sequence.size()) break;
    std::size_t same = 0;
    for (std::size_t i = 0; i + period < sequence.size(); ++i) {
      same += trace.events.name[sequence[i]] == trace.events.name[sequence[i + period]] ? 1u : 0u;
    }
    if (static_cast<double>(same) >= kConfirmed * static_cast<double>(sequence.size() - period)) return period;
  }
  return 0;
}

std::vector<Step> repeated_steps(const Trace& trace) {
  const std::vector<std::size_t> sequence = repeating_sequence(trace);
  const std::size_t period = find_period(trace, sequence);
  if (period == 0) return {};
  // A step begins where the stream rests longest: between the update and the next batch.
  std::vector<Ns> rest(period, 0);
  for (std::size_t i = 1; i < sequence.size(); ++i) {
    rest[i % period] += std::max<Ns>(0, trace.events.start[sequence[i]] - trace.end(sequence[i - 1]));
  }
  const auto first = static_cast<std::size_t>(std::max_element(rest.begin(), rest.end()) - rest.begin());
  std::vector<Step> steps;
  for (std::size_t i = first; i + period < sequence.size(); i += period) {
    steps.push_back({fmt::format("step {}", steps.size()), static_cast<std::int64_t>(steps.size()),
                     trace.events.start[sequence[i]], trace.events.start[sequence[i + period]], LaneId{}});
  }
  return steps;
}

std::vector<Step> whole_trace(const Trace& trace) {
  Ns start = std::numeric_limits<Ns>::max();
  Ns end = std::numeric_limits<Ns>::min();
  for (std::size_t e = 0; e < trace.size(); ++e) {
    const EventKind kind = trace.kind(e);
    if (trace.events.ph[e] != 'X' || kind == EventKind::kSpan || kind == EventKind::kOverhead) continue;
    start = std::min(start, trace.events.start[e]);
    end = std::max(end, trace.end(e));
  }
  if (start > end) return {};
  return {Step{"whole trace", 0, start, end, LaneId{}}};
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
  using Finder = std::vector<Step> (*)(const Trace&);
  constexpr std::pair<StepSource, Finder> kWays[] = {{StepSource::kProfilerStep, profiler_steps},
                                                     {StepSource::kOptimizer, optimizer_steps},
                                                     {StepSource::kRepetition, repeated_steps},
                                                     {StepSource::kWholeTrace, whole_trace}};
  for (const auto& [source, find] : kWays) {
    std::vector<Step> steps = find(trace);
    if (!steps.empty()) return {source, std::move(steps)};
  }
  return {};
}

}  // namespace foretrace::trace
