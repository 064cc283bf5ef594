#include "foretrace/analysis/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/readable.hpp"
#include "foretrace/report/report.hpp"
#include "report/job_kind.hpp"
#include "report/json_writer.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {

using analysis::RanksReport;

namespace {

// Of numbers that are negative where nothing is known.
std::optional<std::int64_t> known(std::int64_t number) { return number < 0 ? std::nullopt : std::optional(number); }

// At most `count` rows, those of the largest size, in order of time.
template <class Row, class Size, class Time>
std::vector<const Row*> longest_in_order(const std::vector<Row>& all, std::size_t count, Size size, Time time) {
  std::vector<const Row*> rows;
  for (const Row& row : all) rows.push_back(&row);
  if (rows.size() <= count) return rows;
  std::stable_sort(rows.begin(), rows.end(), [&](const Row* a, const Row* b) { return size(*a) > size(*b); });
  rows.resize(count);
  std::stable_sort(rows.begin(), rows.end(), [&](const Row* a, const Row* b) { return time(*a) < time(*b); });
  return rows;
}

std::string size_text(std::int64_t bytes) {
  return bytes < 0 ? std::string("-") : format_bytes(static_cast<std::uint64_t>(bytes));
}

std::string signed_us(Ns ns) { return fmt::format("{:+.1f}", to_us(ns)); }

std::string clock_text(const RanksReport& report, const TextStyle& style) {
  const ranks::Clocks& c = report.clocks;
  if (report.ranks.size() < 2 || report.collectives.empty()) return {};
  std::string out = fmt::format("clocks: ranks end a collective {} us apart (median), {} us on the clocks as recorded",
                                format_us(to_us(c.end_spread)), format_us(to_us(c.raw_end_spread)));
  out += c.drift_fitted ? "; drift fitted" : "";
  out += fmt::format("; {} in an impossible order before, {} after", plural(c.violations_before, "collective"),
                     c.impossible.size());
  return wrap(out, style.width, 2, 0) + "\n";
}

std::string rank_table(const RanksReport& report, const TextStyle& style) {
  TextTable table({{"Rank", Align::kLeft, true},
                   {.header = "offset us", .drop = 2},
                   {.header = "+-", .drop = 2},
                   {.header = "drift ppm", .drop = 1},
                   {.header = "start ms", .drop = 3},
                   {"step ms"},
                   {"wait"},
                   {"transfer"},
                   {"last"},
                   {"critical"}},
                  0);
  constexpr std::size_t kMostRows = 64;
  for (std::size_t i = 0; i < std::min(report.ranks.size(), kMostRows); ++i) {
    const RanksReport::RankRow& r = report.ranks[i];
    std::string name = fmt::format("  {}", r.rank);
    if (!r.host.empty()) name += fmt::format(" ({})", r.host);
    if (!r.in_step) {
      table.row({name, signed_us(r.clock.offset), "", "", "not in this step"});
      continue;
    }
    table.row({name, r.clock.known ? signed_us(r.clock.offset) : "?",
               r.clock.known ? format_us(to_us(r.clock.uncertainty)) : "-",
               report.clocks.drift_fitted ? fmt::format("{:+.2f}", r.clock.drift_ppm) : "-", format_ms(r.start),
               format_ms(r.step), format_ms(r.wait), format_ms(r.transfer),
               fmt::format("{}/{}", r.arrived_last, r.collectives), format_ms(r.critical)});
  }
  if (report.ranks.size() > kMostRows) table.note(fmt::format("  and {} more", report.ranks.size() - kMostRows));
  constexpr std::string_view kColumns =
      "offset: how far this clock is ahead of the first rank's, +- its standard error. start: after the first rank's. "
      "wait: time in collectives until the last rank arrives; transfer: from then on. last: collectives this rank was "
      "the last to join. critical: time of the critical path on this rank.";
  return table.render(style) + "  " + wrap(kColumns, style.width, 2, 2) + "\n";
}

std::string collective_table(const RanksReport& report, const TextStyle& style) {
  if (report.collectives.empty()) return {};
  TextTable table({{"Collective", Align::kLeft, true},
                   {"size"},
                   {.header = "ranks", .drop = 2},
                   {.header = "at ms", .drop = 3},
                   {"transfer"},
                   {"longest wait"},
                   {"last"},
                   {.header = "ends us apart", .drop = 1}},
                  0);
  const auto rows = longest_in_order(
      report.collectives, 20, [](const auto& c) { return c.transfer + c.longest_wait; },
      [](const auto& c) { return c.arrival; });
  for (const RanksReport::CollectiveRow* c : rows) {
    const std::string what = c->from < 0 ? c->kind : fmt::format("{} {} -> {}", c->kind, c->from, c->to);
    table.row({fmt::format("  {} ({})", what, c->group), size_text(c->bytes), fmt::format("{}", c->members),
               format_ms(c->arrival), format_ms(c->transfer), format_ms(c->longest_wait), fmt::format("{}", c->last),
               format_us(to_us(c->end_spread))});
  }
  if (report.collectives.size() > rows.size()) {
    table.note(fmt::format("  and {} shorter ones", report.collectives.size() - rows.size()));
  }
  return "\n" + table.render(style);
}

std::string straggler_text(const RanksReport& report, const TextStyle& style) {
  if (report.ranks.size() < 2 || !report.connected) return {};
  std::string out = "\nStragglers\n";
  const ranks::Stragglers& s = report.stragglers;
  if (s.found.empty()) {
    out += text_line(
        fmt::format("none costs {:.0f} % of the step or more, and more than {}", 100 * ranks::Stragglers::kNotable,
                    s.clock_error > 0 ? "the clock error" : "runs of one program differ"),
        style, 2);
  }
  for (const ranks::Straggler& x : s.found) {
    std::string line =
        fmt::format("rank {}, {}: {} ms", report.ranks[x.rank].rank, to_string(x.cause), format_ms(x.cost));
    line += fmt::format("; {} ms more than rank {}", format_ms(x.excess), report.ranks[x.like].rank);
    if (!x.worst.empty()) line += fmt::format(", {} of it {}", format_ms(x.worst_excess), short_kernel_name(x.worst));
    out += "  - " + wrap(printable(line), style.width, 4, 4) + "\n";
  }
  const double gain = report.replayed > s.without_any ? 100.0 * static_cast<double>(report.replayed - s.without_any) /
                                                            static_cast<double>(report.replayed)
                                                      : 0;
  out += text_line(
      fmt::format("with every rank as fast as the typical one: {} ms ({:+.1f}%)", format_ms(s.without_any), 0.0 - gain),
      style, 2);
  return out;
}

std::string path_text(const RanksReport& report, const TextStyle& style) {
  if (report.path.empty()) return {};
  TextTable table({{"Critical path", Align::kLeft},
                   {.header = "at ms", .drop = 1},
                   {"ms"},
                   {.header = "waited for", .drop = 2},
                   {"most of it", Align::kLeft, true}},
                  0);
  const auto rows =
      longest_in_order(report.path, 12, [](const auto& p) { return p.length; }, [](const auto& p) { return p.start; });
  for (const RanksReport::PathPart* p : rows) {
    const std::string where = p->rank < 0 ? "transfer, " + p->on : fmt::format("rank {}, {}", p->rank, p->on);
    table.row({"  " + where, format_ms(p->start), format_ms(p->length), p->why, short_kernel_name(p->longest)});
  }
  if (report.path.size() > rows.size())
    table.note(fmt::format("  and {} shorter stretches", report.path.size() - rows.size()));
  return "\n" + table.render(style);
}

}  // namespace

std::string to_text(const RanksReport& report, const TextStyle& style) {
  std::string out;
  const auto line = [&](const std::string& text) { out += text_line(text, style); };
  if (report.ranks.size() > 1 && !report.connected) {
    line(report.kind.groups.empty() ? "no job: these ranks share no communication"
                                    : "these ranks do not communicate with each other");
  }
  out += kind_text(report, style);
  line(fmt::format("{} of {}, {} ({} in common, {})", plural(report.ranks.size(), "rank"), report.world_size,
                   printable(report.step), plural(report.steps.size(), "step"), report.step_source));
  out += clock_text(report, style) + "\n" + rank_table(report, style);
  out += collective_table(report, style) + "\n";
  line(fmt::format("step of all ranks: {} ms traced, {} ms replayed ({:+.2f}%), {} tasks", format_ms(report.traced),
                   format_ms(report.replayed), report.error_pct, format_count(report.tasks)));
  if (report.job_step != report.traced || report.job_step_replayed != report.replayed) {
    line(fmt::format("step of a rank, on average: {} ms traced, {} ms replayed", format_ms(report.job_step),
                     format_ms(report.job_step_replayed)));
  }
  out += straggler_text(report, style) + path_text(report, style);
  std::string notes;
  const auto add = [&](const std::string& text) { notes += "  - " + wrap(printable(text), style.width, 4, 4) + "\n"; };
  for (const std::string& n : report.notes) add(n);
  constexpr std::size_t kMostImpossible = 5;
  for (std::size_t i = 0; i < std::min(report.impossible.size(), kMostImpossible); ++i) {
    add(fmt::format("impossible order: {}, by {} us", report.impossible[i].what,
                    format_us(to_us(report.impossible[i].by))));
  }
  for (const std::string& n : report.not_modelled) add("not modelled: " + n);
  return notes.empty() ? out : out + "\nNotes\n" + notes;
}

namespace {

void write_ranks(JsonWriter& json, const RanksReport& report) {
  json.objects("ranks", report.ranks, [&](const RanksReport::RankRow& r) {
    json.member("rank", r.rank).member("file", r.file).member("offset_ns", r.clock.offset);
    json.member("offset_error_ns", r.clock.uncertainty).member("drift_ppm", r.clock.drift_ppm);
    json.member("clock_known", r.clock.known).member("host", r.clock.host).member("in_step", r.in_step);
    json.member_ms("start_ms", r.start).member_ms("step_ms", r.step).member_ms("replayed_ms", r.replayed);
    json.member_ms("wait_ms", r.wait).member_ms("transfer_ms", r.transfer);
    json.member_ms("replayed_wait_ms", r.replayed_wait).member("collectives", r.collectives);
    json.member("arrived_last", r.arrived_last).member("unmatched", r.unmatched).member_ms("critical_ms", r.critical);
    json.member("stage", r.place.stage).member_ms("compute_ms", r.place.compute).member_ms("bubble_ms", r.place.bubble);
  });
}

void write_clocks(JsonWriter& json, const RanksReport& report) {
  const ranks::Clocks& c = report.clocks;
  json.key("clocks").begin_object().member("end_spread_us", to_us(c.end_spread));
  json.member("raw_end_spread_us", to_us(c.raw_end_spread)).member("drift_fitted", c.drift_fitted);
  json.member("hosts", c.hosts).member("violations_before", c.violations_before);
  json.member("violations_left", c.impossible.size());
  json.objects("impossible", report.impossible,
               [&](const RanksReport::Impossible& i) { json.member("what", i.what).member("by_us", to_us(i.by)); });
  json.end_object();
}

void write_collectives(JsonWriter& json, const RanksReport& report) {
  json.objects("collectives", report.collectives, [&](const RanksReport::CollectiveRow& c) {
    json.member("kind", c.kind).member("group", c.group).member("bytes", known(c.bytes));
    json.member("ranks", c.members).member_ms("at_ms", c.arrival).member_ms("transfer_ms", c.transfer);
    json.member_ms("longest_wait_ms", c.longest_wait).member_ms("total_wait_ms", c.total_wait);
    json.member("start_spread_us", to_us(c.start_spread)).member("end_spread_us", to_us(c.end_spread));
    json.member("last_rank", c.last)
        .member("from", known(c.from))
        .member("to", known(c.to))
        .key("members")
        .begin_array();
    for (std::size_t i = 0; i < c.rank.size(); ++i) {
      json.begin_object().member("rank", c.rank[i]).member_ms("wait_ms", c.wait[i]);
      json.member_ms("transfer_ms", c.rank_transfer[i]).end_object();
    }
    json.end_array();
  });
}

void write_stragglers(JsonWriter& json, const RanksReport& report) {
  json.objects("stragglers", report.stragglers.found, [&](const ranks::Straggler& s) {
    json.member("rank", report.ranks[s.rank].rank).member("cause", to_string(s.cause));
    json.member_ms("cost_ms", s.cost).member_ms("saves_ms", s.saves).member_ms("excess_ms", s.excess);
    json.member("compared_with", report.ranks[s.like].rank).member("worst", s.worst);
    json.member_ms("worst_excess_ms", s.worst_excess);
  });
  json.member_ms("without_stragglers_ms", report.stragglers.without_any);
  const Ns error = report.stragglers.clock_error;
  json.member_ms("clock_error_ms", error > 0 && error < INT64_MAX ? std::optional(error) : std::nullopt);
}

}  // namespace

std::string to_json(const RanksReport& report) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("schema", 1).member("verb", "ranks").member("step", report.step);
  json.member("step_number", report.step_number).member("step_source", report.step_source);
  json.member("steps", report.steps).member("world_size", report.world_size).member("missing", report.missing);
  write_kind(json, report.kind);
  write_ranks(json, report);
  json.member_ms("traced_ms", report.traced).member_ms("replayed_ms", report.replayed);
  json.member_ms("job_step_ms", report.job_step).member_ms("job_step_replayed_ms", report.job_step_replayed);
  json.member("connected", report.connected);
  json.member("error_pct", report.error_pct).member("tasks", report.tasks).member("dependencies", report.dependencies);
  write_stragglers(json, report);
  write_clocks(json, report);
  write_collectives(json, report);
  json.objects("critical_path", report.path, [&](const RanksReport::PathPart& p) {
    json.member("rank", known(p.rank))
        .member("on", p.on)
        .member_ms("at_ms", p.start)
        .member_ms("ms", p.length)
        .member("waited_for", p.why);
    json.member("tasks", p.tasks).member("longest", p.longest);
  });
  json.member("notes", report.notes).member("not_modelled", report.not_modelled).end_object();
  return out + "\n";
}

}  // namespace foretrace::report
