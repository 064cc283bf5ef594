// The step of a job: a model of each rank, made like that of a single trace except for its waits, and all of them joined.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "analysis/job_calibration.hpp"
#include "analysis/ranks_step.hpp"
#include "analysis/steadiness.hpp"
#include "base/percentiles.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/ranks/job.hpp"
#include "ranks/missing.hpp"
#include "whatif/job/absent_ranks.hpp"
#include "whatif/job/fold.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/model/simulate_model.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::analysis {

namespace {

using whatif::JobTies;
using whatif::Model;

// A trace shows the speed of its host with an error, so a step is taken to run at a speed between that and the typical one:
// `speed_exponent`, which is v / (v + e) for the variance v of hosts and e of one trace. Several ranks on a host show its speed
// several times, and e shrinks with their number.
std::optional<host::HostCosts> costs_seen_by(std::size_t ranks, const trace::Trace& trace,
                                             const host::UserMeasurements& user) {
  if (user.host || ranks < 2 || host::recorder_figures(trace).probe_view_us) return user.host;
  host::HostCosts costs = host::HostCosts::built_in();
  costs.speed_exponent = 1 / (1 + (1 / costs.speed_exponent - 1) / static_cast<double>(ranks));
  return costs;
}

Result<Baseline> rank_baseline(const ranks::Rank& rank, std::uint32_t index, std::size_t step, const JobTies& ties,
                               const whatif::AbsentRanks& absent, const std::optional<host::HostCosts>& costs) {
  const graph::GraphBuilder builder(rank.trace, rank.steps);
  FORETRACE_TRY(graph::Graph graph, build_graph(builder, step));
  whatif::take_out_waits(graph, index, ties.meetings);
  whatif::take_out_waits(graph, absent.transfers[index]);
  // The measured step is the job's: it says nothing of one rank alone.
  FORETRACE_TRY(Baseline out,
                make_baseline(rank.trace, rank.steps.steps[step], graph, host::UserMeasurements({}, costs)));
  out.model.transfers_only = !ties.meetings.empty() || !absent.like_others.empty();
  std::erase_if(out.model.not_modelled, [&](const std::string& text) {
    return out.figures.one_rank && text == out.figures.one_rank->sentence();
  });
  return out;
}

Ns simulated(const Model& model) {
  whatif::ModelRuns runs(model);
  return runs.run().timeline.step;
}

// The job with every rank's CPU at one end of what is not known of it, as host::unprofiled does for one rank.
Ns at_end(const Ranks& ranks, MovedJob& job, double sign) {
  const Ns step = job.step([&](std::size_t slot, std::size_t part) {
    if (part == host::kGpuPart) return 0.0;
    const host::Unprofiled& base = ranks[slot]->base;
    return sign * kTenthPercentile * base.sigma[part] + (sign > 0 && part < host::kCpuPhases ? base.slower[part] : 0.0);
  });
  const double gpu = kTenthPercentile * ranks.front()->base.sigma[host::kGpuPart];
  return static_cast<Ns>(static_cast<double>(step) * (1 + sign * gpu));
}

// The measured step of the job, where it is plausible for every rank.
Result<std::optional<Ns>> measured_step(const Ranks& ranks, Ns replayed, const host::UserMeasurements& user) {
  if (!user.measured_ms) return std::optional<Ns>();
  for (const auto& rank : ranks) {
    Result<Ns> step = host::plausible_step(rank->graph, replayed, *user.measured_ms);
    if (step) continue;
    step.error().message = "--measured-ms: " + step.error().message;
    return forward(step);
  }
  return std::optional<Ns>(std::llround(*user.measured_ms * 1e6));
}

// Absent ranks that others stand for are no longer unknown: a note says so in place of the one that they are.
void fill_in(const ranks::Job& job, const whatif::AbsentRanks& absent, JobFigures& about) {
  std::vector<std::int64_t> filled_in;
  std::set_intersection(job.missing.begin(), job.missing.end(), absent.like_others.begin(), absent.like_others.end(),
                        std::back_inserter(filled_in));
  if (filled_in.empty()) return;
  std::erase_if(about.missing,
                [&](std::int64_t rank) { return std::binary_search(filled_in.begin(), filled_in.end(), rank); });
  std::erase(about.notes, ranks::note_of_missing(job));
  about.notes.push_back(
      fmt::format("{} of {} ranks have no trace ({}); ranks that do the same work stand in for them: {}. They are "
                  "assumed to arrive when those do",
                  job.missing.size(), job.world_size, ranks::list_of(job.missing), ranks::list_of(filled_in)));
}

// Which ranks are simulated: all, or of a large job some of each kind, which a note says.
std::vector<char> folded(const ranks::Job& job, const RanksStep& step, const std::vector<whatif::Meeting>& meetings,
                         const std::vector<std::int64_t>& only, JobFigures& about) {
  std::vector<ranks::RankPlace> places = step.kind.places;
  places.resize(job.ranks.size());
  std::vector<std::uint32_t> keep;
  for (std::uint32_t r = 0; r < job.ranks.size(); ++r) {
    if (std::find(only.begin(), only.end(), job.ranks[r].rank) != only.end()) keep.push_back(r);
  }
  std::vector<char> out = whatif::simulated_ranks(places, meetings, keep);
  std::vector<std::int64_t> simulated;
  for (std::uint32_t r = 0; r < job.ranks.size(); ++r) {
    if (out[r] != 0) simulated.push_back(job.ranks[r].rank);
  }
  if (simulated.size() < job.ranks.size()) {
    about.notes.push_back(
        fmt::format("of {} ranks {} are simulated ({}): the typical and the slowest of those that do the same work",
                    job.ranks.size(), simulated.size(), ranks::list_of(simulated)));
  }
  return out;
}

Status check_only(const std::vector<std::int64_t>& only, const std::vector<std::int64_t>& numbers) {
  for (const std::int64_t rank : only) {
    if (std::find(numbers.begin(), numbers.end(), rank) == numbers.end()) {
      return fail(ErrorCode::kUsage, fmt::format("no trace of rank {} among those given", rank),
                  "there are: " + ranks::list_of(numbers));
    }
  }
  return {};
}

}  // namespace

Result<Baseline> make_baseline(const ranks::Job& job, std::optional<std::int64_t> number,
                               const host::UserMeasurements& measurements, const std::vector<std::int64_t>& only) {
  RanksOptions options;
  options.step = number;
  FORETRACE_TRY(const RanksStep step, ranks_step(job, options));
  const ranks::CommonStep& chosen = step.steps.steps[step.chosen];
  auto ties = std::make_shared<JobTies>();
  ties->meetings = whatif::meetings(step.matching, step.graph);
  ties->slot_of_rank.assign(job.ranks.size(), kNone);
  JobFigures about;
  about.world_size = std::max<std::int64_t>(job.world_size, static_cast<std::int64_t>(job.ranks.size()));
  about.missing = job.missing;
  about.notes = job.notes;
  about.notes.insert(about.notes.end(), step.notes.begin(), step.notes.end());
  const whatif::AbsentRanks absent =
      job.ranks.size() > 1 ? whatif::absent_ranks(job, step.matching, step.kind)
                           : whatif::AbsentRanks{{}, {job.ranks.size(), std::unordered_map<std::uint32_t, Ns>{}}};
  fill_in(job, absent, about);
  const std::vector<char> simulate = folded(job, step, ties->meetings, only, about);
  std::vector<StepFigures> figures;
  Ranks ranks;
  for (std::uint32_t r = 0; r < job.ranks.size(); ++r) {
    if (simulate[r] == 0) continue;
    if (chosen.step[r] == ranks::CommonStep::kNone) {
      about.missing.push_back(job.ranks[r].rank);
      continue;
    }
    const auto neighbours = static_cast<std::size_t>(std::count_if(
        job.ranks.begin(), job.ranks.end(), [&](const ranks::Rank& other) { return other.host == job.ranks[r].host; }));
    Result<Baseline> one = rank_baseline(job.ranks[r], r, chosen.step[r], *ties, absent,
                                         costs_seen_by(neighbours, job.ranks[r].trace, measurements));
    if (!one) {
      one.error().message = fmt::format("rank {}: {}", job.ranks[r].rank, one.error().message);
      return one;
    }
    ties->slot_of_rank[r] = static_cast<std::uint32_t>(ranks.size());
    ties->numbers.push_back(job.ranks[r].rank);
    ties->changes.push_back(only.empty() || std::find(only.begin(), only.end(), job.ranks[r].rank) != only.end());
    const ranks::RankPlace place = r < step.kind.places.size() ? step.kind.places[r] : ranks::RankPlace{};
    ties->peers.push_back(place.peers);
    ties->stage.push_back(place.stage);
    figures.push_back(std::move(one->figures));
    ranks.push_back(std::make_shared<const Model>(std::move(one->model)));
  }
  FORETRACE_TRY_VOID(check_only(only, ties->numbers));
  Baseline out;
  FORETRACE_TRY(out.model, whatif::join(ties, ranks));
  const Ns replayed = ranks::simulated_step(step.graph, step.timeline);
  FORETRACE_TRY(const std::optional<Ns> measured, measured_step(ranks, replayed, measurements));
  if (measured) {
    MovedJob today(out.model);
    ranks = calibrated(ranks, today, *measured);
    FORETRACE_TRY(out.model, whatif::join(ties, ranks));
  }
  const std::size_t fullest = out.model.job->fullest;
  StepFigures& f = out.figures;
  f = std::move(figures[fullest]);
  f.file = job.ranks.front().trace.path;
  f.step_name = chosen.name;
  f.traced = ranks::traced_step(step.graph);
  f.replayed = replayed;
  f.period.reset();
  f.one_rank.reset();
  f.measured = measured;
  f.measured_refused.clear();
  f.unprofiled = simulated(out.model);
  if (ranks.size() > 1) {
    MovedJob today(out.model);
    f.unprofiled_high = at_end(ranks, today, 1);
    f.unprofiled_low = at_end(ranks, today, -1);
  }
  f.unprofiled_high = std::max(f.unprofiled_high, f.unprofiled);
  f.unprofiled_low = std::min(f.unprofiled_low, f.unprofiled);
  out.model.base.step = f.unprofiled;
  out.model.base.low = f.unprofiled_low;
  out.model.base.high = f.unprofiled_high;
  f.verdict.unprofiled = simulate::bottleneck(out.model.graph);
  f.verdict.traced = simulate::bottleneck(step.graph.graph);
  about.ranks = whatif::rank_times(out.model);
  about.fullest_rank = ties->numbers[fullest];
  f.job = std::move(about);
  return out;
}

}  // namespace foretrace::analysis
