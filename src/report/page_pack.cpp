#include "report/page_pack.hpp"

#include <numeric>
#include <optional>
#include <vector>

#include "base/deflate.hpp"
#include "report/json_writer.hpp"
#include "report/page_columns.hpp"
#include "report/page_details.hpp"
#include "report/page_job.hpp"

namespace foretrace::report {

using graph::Graph;

void add_dependencies(Columns& out, const Graph& g) {
  std::vector<std::uint32_t> count(g.size() + 1, 0);
  const auto each = [&](const auto& call) {
    for (std::uint32_t from = 0; from < g.size(); ++from) {
      for (std::uint32_t d = g.dep_begin[from]; d < g.dep_begin[from + 1]; ++d) call(from, g.dep_to[d], g.dep_kind[d]);
    }
  };
  each([&](std::uint32_t, std::uint32_t to, graph::DependencyKind) { ++count[to + 1]; });
  for (std::size_t t = 0; t < g.size(); ++t) {
    out.waits.number(count[t + 1]);
    count[t + 1] += count[t];
  }
  std::vector<std::pair<std::uint32_t, graph::DependencyKind>> sources(g.dependencies());
  each([&](std::uint32_t from, std::uint32_t to, graph::DependencyKind kind) { sources[count[to]++] = {from, kind}; });
  std::size_t at = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    for (; at < count[t]; ++at) {
      out.waits_for.zigzag(static_cast<std::int64_t>(t) - sources[at].first);
      out.waits_why.number(static_cast<unsigned>(sources[at].second));
    }
  }
}

namespace {

Columns columns_of(const trace::Trace& trace, const PackedTimeline& timeline, Names& names, PageDetails& details) {
  Columns out;
  const analysis::ReplayedStep& step = *timeline.step;
  const Graph& g = step.graph;
  std::vector<char> critical(g.size(), 0);
  for (const analysis::PathSegment& segment : step.path) critical[segment.task] = 1;
  // Strings of the graph and of the trace are found once each.
  std::vector<std::uint64_t> of_graph(g.strings.size(), UINT64_MAX), of_trace(trace.strings.size(), UINT64_MAX);
  const auto graph_name = [&](StringId id) {
    if (!id.valid()) return std::uint64_t{0};
    std::uint64_t& known = of_graph[id.index()];
    if (known == UINT64_MAX) known = names.place(g.strings[id]);
    return known;
  };
  const auto trace_name = [&](StringId id) {
    std::uint64_t& known = of_trace[id.index()];
    if (known == UINT64_MAX) known = names.place(trace.strings[id]);
    return known;
  };
  std::int64_t event_before = 0;
  for (const graph::GraphLane& lane : g.lanes) {
    Ns end = 0;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      const bool own = g.event[t].valid() && g.event[t].index() < trace.size();
      const Ns start = timeline.measured ? g.measured[t] : step.start(t);
      const Ns length = !timeline.measured                ? step.end(t) - step.start(t)
                        : own && graph::is_gpu(g.kind[t]) ? trace.events.duration[g.event[t].index()]
                                                          : g.cost[t];
      out.start.zigzag(start - end);
      out.length.number(static_cast<std::uint64_t>(std::max<Ns>(0, length)));
      end = start + std::max<Ns>(0, length);
      out.name.number(graph_name(g.name[t]));
      out.layer.number(g.layer[t].valid() ? graph_name(g.layers[g.layer[t].index()].name) : 0);
      const bool op = g.op[t].valid() && g.op[t].index() < trace.size();
      out.op.number(op ? trace_name(trace.events.name[g.op[t].index()]) : 0);
      out.add_task(t, g.kind[t], g.phase[t], critical[t] != 0, step.cause_kind(t), step.cause(t));
      const std::int64_t event = own ? static_cast<std::int64_t>(g.event[t].value) + 1 : 0;
      out.event.zigzag(event - event_before);
      event_before = event;
      out.shapes.number(op ? details.shapes(g.op[t]) : 0);
      out.launch.number(own && graph::is_gpu(g.kind[t]) ? details.launch(g.event[t]) : 0);
    }
  }
  add_dependencies(out, g);
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63];
    }
  }
  return out;
}

void write_spans(JsonWriter& json, std::int64_t rank, const ranks::Intervals& spans, Ns origin = 0) {
  json.member("rank", rank).key("spans").begin_array();
  for (const auto& [from, to] : spans) json.value(from - origin).value(to - origin);
  json.end_array();
}

void write_bubbles(JsonWriter& json, const overview::JobOverview& job) {
  const std::vector<ranks::Intervals> bubbles = job_bubbles(job);
  std::vector<std::size_t> ranks(bubbles.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  json.objects("bubbles", ranks, [&](std::size_t r) { write_spans(json, job.job->ranks[r].rank, bubbles[r]); });
}

// Bubbles of a changed job, and how long each rank waits there.
void write_changed(JsonWriter& json, const overview::JobOverview& job) {
  if (job.changed->pipeline) {
    const Ns origin = origin_of(*job.changed);
    json.objects("bubbles", job.changed->ranks,
                 [&](const auto& rank) { write_spans(json, rank.number, rank.bubble, origin); });
  }
  json.objects("waits", job.best->ranks,
               [&](const whatif::RankTime& rank) { json.member("rank", rank.rank).member_ms("ms", rank.wait); });
}

std::vector<std::optional<std::int64_t>> ranks_of_lanes(const overview::ChangedJob& job) {
  std::vector<std::optional<std::int64_t>> out(job.step.graph.lanes.size());
  for (const overview::ChangedJob::Rank& rank : job.ranks) {
    for (const std::uint32_t lane : rank.lanes) out[lane] = rank.number;
  }
  return out;
}

}  // namespace

Result<std::string> pack_timelines(const trace::Trace& trace, const std::vector<PackedTimeline>& timelines,
                                   const overview::JobOverview* job) {
  Names names;
  PageDetails details(trace);
  std::string head, body;
  JsonWriter json(head, 0);
  json.begin_object().key("timelines").begin_array();
  const auto add = [&](const std::string& title, const Graph& g, Ns step, const Columns& columns, const auto& rank_of,
                       const auto& more) {
    json.begin_object().member("title", title).member("tasks", g.size()).member("step_ns", step);
    more();
    json.key("lanes").begin_array();
    for (std::size_t l = 0; l < g.lanes.size(); ++l) {
      const graph::GraphLane& lane = g.lanes[l];
      json.begin_object().member("name", g.strings[lane.name]).member("kind", static_cast<int>(lane.kind));
      if (const std::optional<std::int64_t> rank = rank_of(l)) json.member("rank", *rank);
      json.member("begin", lane.begin).member("end", lane.end).end_object();
    }
    json.end_array().key("columns").begin_object();
    for (const auto& [name, column] : columns.all()) {
      json.member(name, column->bytes().size());
      body += column->bytes();
    }
    json.end_object().end_object();
  };
  for (const PackedTimeline& timeline : timelines) {
    const Graph& g = timeline.step->graph;
    add(
        timeline.title, g, timeline.measured ? g.traced : timeline.step->replayed(),
        columns_of(trace, timeline, names, details),
        [](std::size_t) -> std::optional<std::int64_t> { return std::nullopt; }, [] {});
  }
  if (job != nullptr) {
    const ranks::JobGraph& all = job->step->graph;
    add(
        "for all ranks, as traced, on one clock", all.graph, all.graph.traced, job_columns(*job, names),
        [&](std::size_t lane) -> std::optional<std::int64_t> {
          const std::uint32_t rank = all.rank_of_lane[lane];
          return rank == kNone ? std::nullopt : std::optional(job->job->ranks[rank].rank);
        },
        [&] { write_bubbles(json, *job); });
    if (job->changed) {
      const std::vector<std::optional<std::int64_t>> ranks = ranks_of_lanes(*job->changed);
      const Graph& g = job->changed->step.graph;
      add(
          "predicted with " + job->best->whatif + " on all ranks", g, job->best->step,
          changed_columns(*job->changed, names), [&](std::size_t lane) { return ranks[lane]; },
          [&] { write_changed(json, *job); });
    }
  }
  json.end_array().member("job", job == nullptr ? 0 : job->changed ? 2 : 1).key("names").begin_array();
  for (const std::string* name : names.list()) json.value(*name);
  json.end_array().member("details", details.list()).end_object();
  std::string all;
  for (int shift = 0; shift < 32; shift += 8) all += static_cast<char>(head.size() >> shift & 0xFF);
  all += head;
  all += body;
  FORETRACE_TRY(const std::string packed, deflate_gzip(all));
  return base64(packed);
}

}  // namespace foretrace::report
