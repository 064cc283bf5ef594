// Finds the steps that ranks have in common. Numbers of the profiler are trusted when all ranks have them; otherwise time decides.

#include "ranks/common_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ranks/collectives.hpp"

namespace foretrace::ranks {
namespace {

struct Span {
  Ns begin, end;
};

Span aligned(const Job& job, const Clocks& clocks, std::size_t rank, std::size_t step) {
  const trace::Step& s = job.ranks[rank].steps.steps[step];
  const Ns base = job.ranks[rank].trace.base_time_ns;
  return {clocks.clocks[rank].aligned(base + s.start), clocks.clocks[rank].aligned(base + s.end)};
}

std::map<std::int64_t, CommonStep> by_number(const Job& job) {
  std::map<std::int64_t, CommonStep> all;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const std::vector<trace::Step>& steps = job.ranks[r].steps.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      CommonStep& common = all[steps[i].number];
      if (common.step.empty()) {
        common.name = steps[i].name;
        common.number = steps[i].number;
        common.step.assign(job.ranks.size(), CommonStep::kNone);
      }
      if (common.step[r] == CommonStep::kNone) common.step[r] = i;
    }
  }
  return all;
}

// The steps of one rank (whose profiler numbered them, if there is one), and of every other rank the step that shares most
// time with each.
std::map<std::int64_t, CommonStep> by_time(const Job& job, const Clocks& clocks) {
  std::size_t lead = 0;
  for (std::size_t r = job.ranks.size(); r-- > 0;) {
    if (job.ranks[r].steps.source == trace::StepSource::kProfilerStep) lead = r;
  }
  std::map<std::int64_t, CommonStep> all;
  for (std::size_t i = 0; i < job.ranks[lead].steps.steps.size(); ++i) {
    const Span mine = aligned(job, clocks, lead, i);
    const trace::Step& step = job.ranks[lead].steps.steps[i];
    const bool numbered = job.ranks[lead].steps.source == trace::StepSource::kProfilerStep;
    CommonStep& common = all[numbered ? step.number : static_cast<std::int64_t>(i)];
    common.name = step.name;
    common.number = numbered ? step.number : static_cast<std::int64_t>(i);
    common.step.assign(job.ranks.size(), CommonStep::kNone);
    common.step[lead] = i;
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      if (r == lead) continue;
      Ns most = 0;
      for (std::size_t k = 0; k < job.ranks[r].steps.steps.size(); ++k) {
        const Span theirs = aligned(job, clocks, r, k);
        const Ns shared = std::min(mine.end, theirs.end) - std::max(mine.begin, theirs.begin);
        // Less than half of it is another step's neighbour.
        if (shared * 2 < std::min(mine.end - mine.begin, theirs.end - theirs.begin) || shared <= most) continue;
        most = shared;
        common.step[r] = k;
      }
    }
  }
  return all;
}

std::size_t ranks_in(const CommonStep& s) {
  return static_cast<std::size_t>(
      std::count_if(s.step.begin(), s.step.end(), [](std::size_t i) { return i != CommonStep::kNone; }));
}

}  // namespace

CommonSteps common_steps(const Job& job, const Matching& matching, const Clocks& clocks) {
  CommonSteps out;
  out.by_number = steps_are_numbered(job);
  std::map<std::int64_t, CommonStep> all = out.by_number ? by_number(job) : by_time(job, clocks);
  for (const Collective& c : matching.collectives) {
    if (const auto it = all.find(c.step); out.by_number && it != all.end()) it->second.collectives += c.count;
  }
  std::vector<std::size_t> lacks(job.ranks.size(), 0);
  const std::size_t steps = all.size();
  for (auto& [number, common] : all) {
    for (std::size_t r = 0; r < job.ranks.size(); ++r) lacks[r] += common.step[r] == CommonStep::kNone ? 1u : 0u;
    if (ranks_in(common) >= std::min<std::size_t>(2, job.ranks.size())) out.steps.push_back(std::move(common));
  }
  if (!out.by_number && job.ranks.size() > 1) {
    out.notes.emplace_back(
        "the steps are not numbered alike on all ranks: steps at the same time are taken as one step");
  }
  std::vector<std::int64_t> short_ranks;
  std::size_t worst = 0;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    if (lacks[r] == 0) continue;
    short_ranks.push_back(job.ranks[r].rank);
    worst = std::max(worst, lacks[r]);
  }
  if (!short_ranks.empty()) {
    out.notes.push_back(fmt::format("the ranks do not hold the same steps: up to {} of {} are missing on rank {}",
                                    worst, steps, list_of(short_ranks)));
  }
  return out;
}

std::size_t median_step(const Job& job, const Clocks& clocks, const CommonSteps& steps) {
  std::size_t most = 0;
  std::uint64_t fullest = 0;
  for (const CommonStep& s : steps.steps) most = std::max(most, ranks_in(s));
  for (const CommonStep& s : steps.steps) {
    if (ranks_in(s) == most) fullest = std::max(fullest, s.collectives);
  }
  // Only complete steps are candidates.
  std::vector<std::pair<Ns, std::size_t>> lengths;
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    const CommonStep& s = steps.steps[i];
    // A step a file was cut off in has lost its collectives.
    if (ranks_in(s) < most || s.collectives * 10 < fullest * 9) continue;
    Span all{INT64_MAX, INT64_MIN};
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      if (s.step[r] == CommonStep::kNone) continue;
      const Span one = aligned(job, clocks, r, s.step[r]);
      all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
    }
    lengths.emplace_back(all.end - all.begin, i);
  }
  std::sort(lengths.begin(), lengths.end());
  return lengths[(lengths.size() - 1) / 2].second;
}

}  // namespace foretrace::ranks
