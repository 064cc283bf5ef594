// Two recordings of one job: the ranks compared one by one, the groups and collectives by their transfers, and the job's step.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

#include "base/readable.hpp"
#include "compare/judge.hpp"
#include "compare/noise.hpp"
#include "compare/recordings.hpp"
#include "compare/step_parts.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {
namespace {

using analysis::RanksReport;

// A side as it was read: what `ranks` says of it, a profile of each rank, and the step that what-ifs start from.
struct Read {
  RanksReport report;
  std::map<std::int64_t, Profile> profiles;  // by rank
  Result<analysis::Baseline> baseline;
};

Result<Read> read_side(const ranks::Job& job, const Options& options, std::optional<double> measured_ms) {
  Read out;
  FORETRACE_TRY(out.report, analysis::analyse_ranks(job, {.step = options.step}));
  if (!out.report.connected) {
    return fail(ErrorCode::kDeclined, "these ranks are not one job: none communicates with another",
                "--rank R compares one of them");
  }
  for (const ranks::Rank& rank : job.ranks) {
    FORETRACE_TRY(std::vector<Profile> one, read({&rank.trace}, options, {}));
    out.profiles.emplace(rank.rank, std::move(one.front()));
  }
  out.baseline = analysis::make_baseline(job, options.step, host::UserMeasurements(measured_ms, options.host));
  if (!out.baseline && out.baseline.error().code == ErrorCode::kUsage) return forward(out.baseline);
  return out;
}

bool recorded(const Read& side) {
  return std::all_of(side.profiles.begin(), side.profiles.end(),
                     [](const auto& entry) { return entry.second.clean.has_value(); });
}

DecidedBy decide(const Read& before, const Read& after, const Options& options) {
  const bool simulated = before.baseline && after.baseline;
  if (options.before_ms && options.after_ms) return DecidedBy::kUser;
  if (recorded(before) && recorded(after)) return DecidedBy::kRecorded;
  return simulated ? DecidedBy::kEstimated : DecidedBy::kTraced;
}

Ns step_of(const Read& side, DecidedBy decided, std::optional<double> measured_ms) {
  if (decided == DecidedBy::kUser) return std::llround(*measured_ms * 1e6);
  if (decided == DecidedBy::kEstimated) return side.baseline->figures.unprofiled;
  if (decided == DecidedBy::kTraced) return side.report.job_step;
  double sum = 0;
  for (const auto& [rank, profile] : side.profiles) sum += static_cast<double>(*profile.clean);
  return std::llround(sum / static_cast<double>(side.profiles.size()));
}

JobSide side_of(const Read& read, DecidedBy decided, std::optional<double> measured_ms) {
  JobSide out;
  for (const RanksReport::RankRow& row : read.report.ranks) {
    out.files.push_back(row.file);
    out.ranks.push_back(row.rank);
  }
  out.missing = read.report.missing;
  out.steps = read.report.steps;
  out.step_name = read.report.step;
  out.parallel = read.report.kind.parallel;
  out.traced = read.report.job_step;
  out.step = step_of(read, decided, measured_ms);
  out.device = read.profiles.begin()->second.device;
  for (const auto& [rank, profile] : read.profiles) {
    if (!profile.peak_bytes || (out.peak_bytes && *out.peak_bytes >= *profile.peak_bytes)) continue;
    out.peak_bytes = profile.peak_bytes;
    out.fullest_rank = rank;
  }
  return out;
}

// All ranks together have one step. Where they were joined in one graph, that graph says what it follows: waiting is a result in it.
// A rank's own graph takes its waits for work.
Sigma noise_of(const Read& side, DecidedBy decided) {
  if (side.baseline) return step_noise(side.baseline->model.graph, decided);
  Sigma out;
  for (const auto& [rank, profile] : side.profiles) {
    const Sigma one = step_noise(*profile.traced_graph, decided);
    if (one.value > out.value) out = one;
  }
  return out;
}

Estimate step_change(const JobComparison& c, const Read& before, const Read& after) {
  const Sigma left = noise_of(before, c.decided), right = noise_of(after, c.decided);
  const Sigma& noise = left.value > right.value ? left : right;
  Estimate out = estimate({static_cast<double>(c.before.step)}, {static_cast<double>(c.after.step)}, noise, noise);
  const bool copies =
      c.before.ranks == c.after.ranks &&
      std::all_of(c.ranks.begin(), c.ranks.end(), [](const RankChange& r) { return r.own.noise_pct == 0; });
  if (copies) out.error = 0;
  return out;
}

bool notable(Ns difference, Ns step) {
  return std::abs(static_cast<double>(difference)) >= ranks::Stragglers::kNotable * static_cast<double>(step);
}

// Own work: what the rank does itself. Its communication and waits depend on the others.
void judge_rank(RankChange& out) {
  double log_change = 0;
  for (const Part& part : out.own.parts) {
    if ((part.name != kGpuPart && part.name != kCpuPart) || !beyond(part.change)) continue;
    log_change += std::log1p(part.step_pct / 100);
  }
  out.own_pct = 100 * std::expm1(log_change);
  out.named = std::abs(out.own_pct) >= 100 * ranks::Stragglers::kNotable;
}

void compare_ranks(JobComparison& c, const Read& before, const Read& after, const Options& options) {
  Options alone = options;
  alone.gate_pct.reset();
  for (const RanksReport::RankRow& a : before.report.ranks) {
    const auto b = std::find_if(after.report.ranks.begin(), after.report.ranks.end(),
                                [&](const RanksReport::RankRow& row) { return row.rank == a.rank; });
    if (b == after.report.ranks.end()) continue;
    RankChange one;
    one.rank = a.rank;
    one.own = compare_recordings({before.profiles.at(a.rank)}, {after.profiles.at(a.rank)}, alone);
    one.wait_before = a.wait;
    one.wait_after = b->wait;
    one.bubble_before = a.place.bubble;
    one.bubble_after = b->place.bubble;
    judge_rank(one);
    c.ranks.push_back(std::move(one));
  }
}

// A transfer is of several hosts' and the network's making: it varies no less than the CPU between recordings.
void judge(TimeChange& t, Ns step, bool copies) {
  if (t.before > 0 && t.after > 0) {
    const Sigma& noise = Noise::table().host_sessions;
    Estimate e = estimate({static_cast<double>(t.before)}, {static_cast<double>(t.after)}, noise, noise);
    if (copies) e.error = 0;
    t.change = to_change(e);
    t.named = beyond(t.change) && notable(t.difference(), step);
    return;
  }
  t.named = notable(t.difference(), step);  // there on one side only: no noise does that
}

template <class Row>
void sort_by_change(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::abs(a.transfer.difference()) > std::abs(b.transfer.difference());
  });
}

void compare_groups(JobComparison& c, const Read& before, const Read& after) {
  std::map<std::pair<ranks::Parallelism, std::vector<std::int64_t>>, GroupChange> found;
  const auto row = [&](const ranks::JobGroup& g) -> GroupChange& {
    GroupChange& out = found[{g.kind, g.ranks}];
    out.kind = ranks::to_string(g.kind);
    out.name = g.description.empty() ? g.name : g.description;
    out.ranks = g.ranks;
    return out;
  };
  for (const ranks::JobGroup& g : before.report.kind.groups) {
    GroupChange& out = row(g);
    out.before_operations += g.operations;
    out.before_bytes += g.bytes;
    out.wait_before += g.wait;
    out.exposed_before += g.exposed;
    out.transfer.before += g.transfer;
  }
  for (const ranks::JobGroup& g : after.report.kind.groups) {
    GroupChange& out = row(g);
    out.after_operations += g.operations;
    out.after_bytes += g.bytes;
    out.wait_after += g.wait;
    out.exposed_after += g.exposed;
    out.transfer.after += g.transfer;
  }
  for (auto& [key, one] : found) {
    judge(one.transfer, before.report.job_step, c.change.noise_pct == 0);
    c.groups.push_back(std::move(one));
  }
  sort_by_change(c.groups);
}

void compare_collectives(JobComparison& c, const Read& before, const Read& after) {
  std::map<std::tuple<std::string, std::vector<std::int64_t>, std::int64_t>, CollectiveChange> found;
  const auto row = [&](const RanksReport::CollectiveRow& r) -> CollectiveChange& {
    std::vector<std::int64_t> members = r.from < 0 ? r.rank : std::vector{r.from, r.to};
    if (r.from < 0) std::sort(members.begin(), members.end());
    // A rank without a trace on one side takes part all the same.
    std::erase_if(members, [&](std::int64_t rank) {
      return std::none_of(c.ranks.begin(), c.ranks.end(), [&](const RankChange& one) { return one.rank == rank; });
    });
    CollectiveChange& out = found[{r.kind, members, r.bytes}];
    out.kind = r.kind;
    out.group = r.group;
    out.bytes = r.bytes;
    out.ranks = std::move(members);
    return out;
  };
  for (const RanksReport::CollectiveRow& r : before.report.collectives) {
    CollectiveChange& out = row(r);
    ++out.before_count;
    out.transfer.before += r.transfer;
    out.wait_before += r.total_wait;
  }
  for (const RanksReport::CollectiveRow& r : after.report.collectives) {
    CollectiveChange& out = row(r);
    ++out.after_count;
    out.transfer.after += r.transfer;
    out.wait_after += r.total_wait;
  }
  for (auto& [key, one] : found) {
    judge(one.transfer, before.report.job_step, c.change.noise_pct == 0);
    c.collectives.push_back(std::move(one));
  }
  sort_by_change(c.collectives);
}

// What all ranks are run with is the job's; what one rank alone differs in stays with that rank.
void common_causes(JobComparison& c) {
  if (c.ranks.empty()) return;
  for (const Cause& cause : c.ranks.front().own.causes) {
    if (cause.kind != CauseKind::kSetup && cause.kind != CauseKind::kRecording) continue;
    const bool everywhere = std::all_of(c.ranks.begin(), c.ranks.end(), [&](const RankChange& r) {
      return std::any_of(r.own.causes.begin(), r.own.causes.end(),
                         [&](const Cause& other) { return other.kind == cause.kind && other.what == cause.what; });
    });
    if (everywhere) c.causes.push_back(cause);
  }
}

std::vector<std::int64_t> only_in(const std::vector<std::int64_t>& these, const std::vector<std::int64_t>& others) {
  std::vector<std::int64_t> out;
  std::set_difference(these.begin(), these.end(), others.begin(), others.end(), std::back_inserter(out));
  return out;
}

void fill_notes(JobComparison& c, const Read& before, const Read& after) {
  const auto note_extra_ranks = [&](const JobSide& side, const JobSide& other, const char* name) {
    const std::vector<std::int64_t> alone = only_in(side.ranks, other.ranks);
    if (alone.empty()) return;
    c.notes.push_back(fmt::format("only {} has traces of rank{} {}: not compared one by one", name,
                                  alone.size() == 1 ? "" : "s", ranks::list_of(alone)));
  };
  note_extra_ranks(c.before, c.after, "BEFORE");
  note_extra_ranks(c.after, c.before, "AFTER");
  if (c.before.steps.size() != c.after.steps.size()) {
    c.notes.push_back(fmt::format("{} before and {} after were recorded on all ranks",
                                  plural(c.before.steps.size(), "step"), plural(c.after.steps.size(), "step")));
  }
  for (const auto& [name, side] : {std::pair<const char*, const Read*>("BEFORE", &before), {"AFTER", &after}}) {
    for (const std::string& note : side->report.notes) c.notes.push_back(fmt::format("{}: {}", name, note));
    if (!side->baseline) {
      c.notes.push_back(
          fmt::format("{}: the step without the profiler is unknown: {}", name, side->baseline.error().message));
    }
  }
}

Status check_prediction(JobComparison& c, const Read& before, const Options& options) {
  if (options.whatif.empty()) return {};
  if (!before.baseline) return tl::unexpected(before.baseline.error());
  JobVerdict v;
  v.prediction = analysis::predict(*before.baseline, options.whatif);
  if (v.prediction.declined.empty() && c.after.step > 0) {
    v.step_error_pct = 100 * (static_cast<double>(v.prediction.step) / static_cast<double>(c.after.step) - 1);
    v.inside_band = v.prediction.low <= c.after.step && c.after.step <= v.prediction.high;
    if (v.prediction.peak_bytes && c.after.peak_bytes && *c.after.peak_bytes > 0) {
      v.memory_error_pct =
          100 * (static_cast<double>(*v.prediction.peak_bytes) / static_cast<double>(*c.after.peak_bytes) - 1);
    }
  }
  c.verdict = std::move(v);
  return {};
}

}  // namespace

std::vector<const RankChange*> JobComparison::changed_ranks() const {
  std::vector<const RankChange*> out;
  for (const RankChange& rank : ranks) {
    if (rank.named) out.push_back(&rank);
  }
  std::stable_sort(out.begin(), out.end(), [](const RankChange* a, const RankChange* b) {
    return std::abs(a->own_pct) > std::abs(b->own_pct);
  });
  return out;
}

Result<JobComparison> compare_jobs(const ranks::Job& before, const ranks::Job& after, const Options& options) {
  FORETRACE_TRY(const Read left, read_side(before, options, options.before_ms));
  FORETRACE_TRY(const Read right, read_side(after, options, options.after_ms));
  JobComparison c;
  c.decided = decide(left, right, options);
  c.before = side_of(left, c.decided, options.before_ms);
  c.after = side_of(right, c.decided, options.after_ms);
  if (c.before.step <= 0 || c.after.step <= 0) return fail(ErrorCode::kDeclined, "a side's step has no length");
  compare_ranks(c, left, right, options);
  if (c.ranks.empty()) {
    return fail(ErrorCode::kDeclined, "no rank has a trace on both sides",
                fmt::format("BEFORE has {}, AFTER {}", ranks::list_of(c.before.ranks), ranks::list_of(c.after.ranks)));
  }
  const Estimate step = step_change(c, left, right);
  c.change = to_change(step);
  c.noise_from =
      step.error == 0 ? "none, one side is a copy of the other" : "the spread of recordings of unchanged programs";
  compare_groups(c, left, right);
  compare_collectives(c, left, right);
  common_causes(c);
  c.gate_pct = options.gate_pct;
  if (c.gate_pct) {
    const Judgement found = judge(Evidence{step, {}, {}, 1, 1}, *c.gate_pct);
    c.outcome = found.outcome;
    c.recordings_needed = found.recordings_needed;
  }
  fill_notes(c, left, right);
  FORETRACE_TRY_VOID(check_prediction(c, left, options));
  return c;
}

}  // namespace foretrace::compare
