#include "foretrace/analysis/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>

#include "analysis/ranks_step.hpp"
#include "base/freed_memory.hpp"
#include "base/readable.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "graph/gpu_work.hpp"
#include "hardware/collective.hpp"
#include "ranks/clocks.hpp"
#include "ranks/job_graph.hpp"
#include "ranks/job_kind.hpp"
#include "ranks/one_job.hpp"
#include "ranks/stragglers.hpp"

namespace foretrace::analysis {
namespace {

using ranks::CommonStep;
using ranks::JobGraph;
using ranks::Rendezvous;

Result<std::size_t> choose_step(const ranks::Job& job, const RanksStep& s, const std::optional<std::int64_t>& number) {
  if (!number) return ranks::median_step(job, s.clocks, s.steps);
  std::string there;
  for (std::size_t i = 0; i < s.steps.steps.size(); ++i) {
    if (s.steps.steps[i].number == *number) return i;
    there += fmt::format("{}{}", there.empty() ? "" : ", ", s.steps.steps[i].number);
  }
  return fail(ErrorCode::kUsage, fmt::format("the ranks have no step {} in common", *number), "there are: " + there);
}

// Ranks that fit into one node are joined as such GPUs usually are. What joins nodes is in no trace.
std::optional<hardware::FabricCollectives> fabric_of(const ranks::Job& job) {
  const Result<hardware::DeviceMatch> device = hardware::device_of(job.ranks[0].trace);
  if (!device) return std::nullopt;
  Result<hardware::Fabric> fabric = hardware::find_fabric(whatif::usual_fabric(device->device));
  if (!fabric) return std::nullopt;
  constexpr std::int64_t kMostInANode = 8;  // of all servers that the fabrics describe
  for (const ranks::Rank& r : job.ranks) {
    if (r.host != job.ranks[0].host || job.world_size > kMostInANode) return std::nullopt;
  }
  fabric->name = fabric->levels.front().name;
  fabric->levels.resize(1);
  return hardware::FabricCollectives(std::move(*fabric));
}

void fill_ranks(const ranks::Job& job, const RanksStep& s, RanksReport& out) {
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    RanksReport::RankRow row;
    row.rank = job.ranks[r].rank;
    row.file = job.ranks[r].trace.path;
    row.host = job.ranks[r].host;
    row.clock = s.clocks.clocks[r];
    row.unmatched = s.matching.unmatched[r];
    row.place = s.kind.places[r];
    out.ranks.push_back(std::move(row));
  }
  for (const ranks::RankPart& part : s.graph.ranks) {
    RanksReport::RankRow& row = out.ranks[part.rank];
    row.in_step = true;
    row.start = part.step_start;
    row.step = part.step_end - part.step_start;
    row.replayed = s.timeline.end[part.last.index()] - s.timeline.end[part.begin.index()];
  }
}

void fill_collectives(const ranks::Job& job, const RanksStep& s, RanksReport& out) {
  for (const Rendezvous& meeting : s.graph.collectives) {
    const ranks::Collective& c = s.matching.collectives[meeting.collective];
    RanksReport::CollectiveRow row;
    row.kind = to_string(c.kind);
    row.group = s.matching.groups[c.group].name;
    row.bytes = c.bytes;
    row.members = c.count;
    row.arrival = meeting.parts[meeting.last].start;
    row.transfer = meeting.transfer();
    row.last = job.ranks[meeting.parts[meeting.last].rank].rank;
    if (c.kind == ranks::CollectiveKind::kSendRecv) {
      row.from = job.ranks[meeting.parts[c.root].rank].rank;
      row.to = job.ranks[meeting.parts[1 - c.root].rank].rank;
    }
    Ns first = INT64_MAX, first_end = INT64_MAX, last_end = INT64_MIN;
    for (const Rendezvous::Part& p : meeting.parts) {
      RanksReport::RankRow& rank = out.ranks[p.rank];
      first = std::min(first, p.start);
      first_end = std::min(first_end, p.end);
      last_end = std::max(last_end, p.end);
      row.longest_wait = std::max(row.longest_wait, p.wait);
      row.total_wait += p.wait;
      row.rank.push_back(rank.rank);
      row.wait.push_back(p.wait);
      row.rank_transfer.push_back(p.transfer);
      if (!p.arrive.valid()) continue;
      ++rank.collectives;
      rank.arrived_last += &p == &meeting.parts[meeting.last] ? 1u : 0u;
      if (!p.counts) continue;
      rank.wait += p.wait;
      rank.transfer += p.transfer;
      // As simulated: from the arrival to whatever let the rank go on.
      if (p.tail.valid()) {
        const Ns met = meeting.hub.valid() ? s.timeline.start[meeting.hub.index()] : s.timeline.start[p.tail.index()];
        rank.replayed_wait += std::max<Ns>(0, met - s.timeline.start[p.arrive.index()]);
      }
    }
    row.start_spread = row.arrival - first;
    row.end_spread = last_end - first_end;
    out.collectives.push_back(std::move(row));
  }
  std::stable_sort(out.collectives.begin(), out.collectives.end(),
                   [](const auto& a, const auto& b) { return a.arrival < b.arrival; });
}

// Each task of the path has the time until the next one starts; neighbours on one rank and kind of lane are one stretch.
void fill_path(const ranks::Job& job, const RanksStep& s, RanksReport& out) {
  const graph::Graph& g = s.graph.graph;
  const std::vector<simulate::PathStep>& path = s.path;
  std::uint32_t open_lane = kNone;
  Ns longest = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::uint32_t t = path[i].task;
    const Ns start = s.timeline.start[t];
    const Ns until = i + 1 < path.size() ? s.timeline.start[path[i + 1].task] : s.timeline.end[t];
    const std::uint32_t lane = g.lane[t];
    if (lane == 0 && until == start) continue;  // the job's own begin and end
    const std::uint32_t rank = s.graph.rank_of_lane[lane];
    if (open_lane != lane || out.path.empty()) {
      RanksReport::PathPart part;
      part.rank = rank == kNone ? -1 : job.ranks[rank].rank;
      part.on = g.strings[g.lanes[lane].name];
      part.why = to_string(path[i].why);
      part.start = start;
      out.path.push_back(std::move(part));
      open_lane = lane;
      longest = -1;
    }
    RanksReport::PathPart& part = out.path.back();
    part.length += until - start;
    ++part.tasks;
    if (until - start > longest) {
      longest = until - start;
      part.longest = g.task_name(t);
    }
    if (rank != kNone) out.ranks[rank].critical += until - start;
  }
  std::erase_if(out.path, [](const RanksReport::PathPart& p) { return p.length == 0; });
}

void fill_notes(const ranks::Job& job, const RanksStep& s, bool aligned, RanksReport& out) {
  out.notes = job.notes;
  out.notes.insert(out.notes.end(), s.notes.begin(), s.notes.end());
  const auto note = [&](std::string text) { out.notes.push_back(std::move(text)); };
  std::uint64_t unmatched = 0, total = 0;
  for (const std::uint64_t u : s.matching.unmatched) unmatched += u;
  for (const std::uint64_t t : s.matching.total) total += t;
  if (job.ranks.size() == 1) {
    note("only one rank was given, so there are no waits between ranks and no clocks to align");
  } else if (total == 0) {
    note(
        "no trace holds a communication kernel, so these ranks are not known to be one job: each is replayed alone on "
        "its own clock, and they are not compared");
  } else if (s.matching.collectives.empty()) {
    note(
        fmt::format("none of the {} communication kernels matches one of another rank; by their process groups these "
                    "ranks do not communicate",
                    total));
  } else if (unmatched > 0) {
    note(
        fmt::format("{} of {} communication kernels match none of another rank and keep their measured time, waiting "
                    "included",
                    unmatched, total));
  }
  if (s.matching.incomplete > 0) {
    note(fmt::format("{} of {} collectives lack the kernel of a rank that takes part in the others",
                     s.matching.incomplete, s.matching.collectives.size()));
  }
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    if (!s.clocks.clocks[r].known && job.ranks.size() > 1 && !s.matching.collectives.empty()) {
      note(fmt::format("no collective connects rank {} with rank {}: its clock is used as recorded", job.ranks[r].rank,
                       job.ranks[0].rank));
    }
  }
  for (std::string& doubt : ranks::doubts(job, s.matching, s.clocks, aligned)) note(std::move(doubt));
  const std::vector<ranks::RankPart>& parts = s.graph.ranks;
  const bool on_gpu = std::any_of(s.graph.graph.kind.begin(), s.graph.graph.kind.end(),
                                  [](graph::TaskKind kind) { return graph::is_gpu(kind); });
  if (!on_gpu && !parts.empty()) note(fmt::format("{} on any rank", graph::kNoGpuWork));
  for (const ranks::Impossible& i : s.clocks.impossible) {
    const ranks::Collective& c = s.matching.collectives[i.collective];
    out.impossible.push_back({fmt::format("{} {} of group {} in step {}: rank {} ends it before rank {} has started it",
                                          to_string(c.kind), i.collective, s.matching.groups[c.group].name, c.step,
                                          job.ranks[i.early].rank, job.ranks[i.late].rank),
                              i.by});
  }
  if (!out.impossible.empty()) {
    note(fmt::format(
        "{} in {}; the replay ignores this order", plural(out.impossible.size(), "collective"),
        aligned ? "an order that no setting of the clocks explains: the traces are not of one run, or a clock jumped"
                : "an impossible order on the clocks as recorded"));
  }
  if (s.graph.graph.notes.unexplained_lags > 0) {
    note(fmt::format("{} started late without a known cause, {} ms together",
                     plural(s.graph.graph.notes.unexplained_lags, "kernel"),
                     format_ms(s.graph.graph.notes.unexplained_time)));
  }
  out.not_modelled = {
      "transfers keep their measured length: contention for links is not recomputed when ranks arrive at other times"};
  if (job.ranks.size() > 1) {
    out.not_modelled.emplace_back("kernels that run faster because a late rank uses less of a shared GPU or host");
  }
  if (!job.missing.empty()) out.not_modelled.emplace_back("ranks without a trace");
}

}  // namespace

namespace {

// What happens to traces that were looked at for the last time, and how to get them back.
struct Release {
  std::function<void(std::uint32_t rank)> done = {};
  std::function<Status()> again = {};
};

Result<RanksStep> step_of(const ranks::Job& job, const RanksOptions& options, const Release& release) {
  RanksStep s;
  s.matching = ranks::match(job);
  if (const std::string why = ranks::unrelated(job, s.matching); !why.empty()) {
    return fail(ErrorCode::kDeclined, "the files are of unrelated jobs: " + why,
                "give the traces of one job, one file per rank; `foretrace summary` looks at one alone");
  }
  s.clocks = ranks::align_clocks(job, s.matching, {options.align, true});
  s.steps = ranks::common_steps(job, s.matching, s.clocks);
  s.notes = s.steps.notes;
  if (s.steps.steps.empty()) {
    return fail(ErrorCode::kDeclined, "the ranks have no step in common",
                "`foretrace doctor` shows the steps of each trace; record all ranks with the same schedule");
  }
  FORETRACE_TRY(s.chosen, choose_step(job, s, options.step));
  if (options.progress) options.progress("building the graph of all ranks", 0, job.ranks.size(), "ranks");
  const std::optional<hardware::FabricCollectives> fabric = fabric_of(job);
  s.order.resize(job.ranks.size());
  s.loading.resize(job.ranks.size());
  const auto copied = [&](const graph::Graph& graph, const ranks::RankPart& part) {
    const trace::Trace& trace = job.ranks[part.rank].trace;
    s.order[part.rank] = ranks::program_order(trace, s.matching.operations[part.rank], graph, part);
    s.loading[part.rank] = ranks::loading_ranges(trace);
    if (release.done) release.done(part.rank);
  };
  const auto again = [&]() -> Status {
    s.order.assign(job.ranks.size(), {});
    return release.again ? release.again() : Status();
  };
  FORETRACE_TRY(s.graph, ranks::build_job_graph(job, s.matching, s.clocks, s.steps.steps[s.chosen], s.notes,
                                                {options.threads, copied, again}));
  s.kind = ranks::find_kind(job, s.matching, s.graph, s.order, fabric ? &*fabric : nullptr);
  s.timeline = simulate::simulate(s.graph.graph);
  s.path = simulate::critical_path(s.graph.graph, s.timeline);
  return s;
}

// Events and what belongs to them; what is known of the recording as a whole stays.
void let_go(trace::Trace& trace) {
  trace.events = {};
  trace.args = {};
  trace.op_ids = {};
  trace.python_ids = {};
  trace.memory_ids = {};
  trace.sync_ids = {};
  trace.copy_ids = {};
}

}  // namespace

Result<RanksStep> ranks_step(const ranks::Job& job, const RanksOptions& options) { return step_of(job, options, {}); }

Result<RanksReport> analyse_ranks(const std::vector<std::string>& files, const trace::LoadOptions& load,
                                  const RanksOptions& options) {
  FORETRACE_TRY(ranks::Job job, ranks::load_job(files, load));
  Release release;
  release.done = [&](std::uint32_t rank) {
    let_go(job.ranks[rank].trace);
    return_freed_memory();
  };
  release.again = [&]() -> Status {
    for (ranks::Rank& r : job.ranks) {
      if (r.trace.size() > 0) continue;
      FORETRACE_TRY(r.trace, trace::load(r.trace.path, load));
    }
    return {};
  };
  FORETRACE_TRY(const RanksStep s, step_of(job, options, release));
  return ranks_report(job, s, options);
}

Result<std::shared_ptr<const RanksStep>> open_ranks_step(const ranks::Job& job, const RanksOptions& options) {
  FORETRACE_TRY(RanksStep s, ranks_step(job, options));
  return std::make_shared<const RanksStep>(std::move(s));
}

Result<RanksReport> analyse_ranks(const ranks::Job& job, const RanksOptions& options) {
  FORETRACE_TRY(const RanksStep s, ranks_step(job, options));
  return ranks_report(job, s, options);
}

RanksReport ranks_report(const ranks::Job& job, const RanksStep& s, const RanksOptions& options) {
  RanksReport out;
  out.step = s.steps.steps[s.chosen].name;
  out.step_number = s.steps.steps[s.chosen].number;
  for (const CommonStep& step : s.steps.steps) out.steps.push_back(step.number);
  out.step_source = trace::describe(job.ranks[0].steps.source);
  out.world_size = job.world_size;
  out.missing = job.missing;
  out.clocks = s.clocks;
  out.traced = s.graph.graph.traced;
  out.replayed = s.timeline.step;
  out.error_pct =
      out.traced > 0 ? 100.0 * static_cast<double>(out.replayed - out.traced) / static_cast<double>(out.traced) : 0;
  out.tasks = s.graph.graph.size();
  out.dependencies = s.graph.graph.dependencies();
  fill_ranks(job, s, out);
  fill_collectives(job, s, out);
  fill_path(job, s, out);
  fill_notes(job, s, options.align, out);
  out.kind = s.kind;
  out.job_step = ranks::traced_step(s.graph);
  out.job_step_replayed = ranks::simulated_step(s.graph, s.timeline);
  out.connected = !s.matching.collectives.empty();
  out.stragglers.step = out.stragglers.without_any = s.timeline.step;
  if (!out.connected) return out;  // without communication there are no stragglers
  if (options.progress) options.progress("looking for stragglers", 0, job.ranks.size(), "ranks");
  out.stragglers = ranks::find_stragglers(s.loading, s.matching, s.clocks, s.graph, s.timeline, s.kind.places);
  return out;
}

}  // namespace foretrace::analysis
