// Two recordings of one job, as text, JSON and markdown.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/readable.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/report.hpp"
#include "report/compare_parts.hpp"
#include "report/json_writer.hpp"
#include "report/prediction_parts.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {

using compare::CollectiveChange;
using compare::GroupChange;
using compare::JobComparison;
using compare::RankChange;
using compare::TimeChange;

namespace {

std::string instead_of(const TimeChange& t) {
  if (t.before == 0) return fmt::format("{} ms, none before", format_ms(t.after));
  if (t.after == 0) return fmt::format("none, {} ms before", format_ms(t.before));
  return fmt::format("{} ms instead of {} ({:+.1f} %)", format_ms(t.after), format_ms(t.before), t.change.pct);
}

std::string change_text(const TimeChange& t) {
  return t.before == 0 ? "new" : t.after == 0 ? "gone" : fmt::format("{:+.1f}", t.change.pct);
}

std::string name_of(const GroupChange& g) { return fmt::format("{} {}", g.kind, g.name); }

std::string name_of(const CollectiveChange& c) {
  if (c.bytes < 0) return c.kind;
  return fmt::format("{} of {}", c.kind, format_bytes(static_cast<std::uint64_t>(c.bytes)));
}

// The parts of a rank's own work that changed, and why.
std::string rank_words(const RankChange& r) {
  std::string out = fmt::format("rank {}'s own work changes its step by {:+.1f} %", r.rank, r.own_pct);
  for (const compare::Part& part : r.own.parts) {
    if (part.step_pct == 0 || !beyond(part.change) || part.name == "communication" || part.name == "waits") continue;
    out += fmt::format("; {} {} ms instead of {}", part.name, format_ms(part.after), format_ms(part.before));
  }
  for (const compare::Cause& cause : r.own.causes) {
    if (cause.kind != compare::CauseKind::kKernels && cause.kind != compare::CauseKind::kWork &&
        cause.kind != compare::CauseKind::kCpu) {
      continue;
    }
    out += fmt::format(": {}", cause_words(cause));
    break;
  }
  return out;
}

std::string step_words(const JobComparison& c) {
  const std::string figures = fmt::format("{} ms before, {} ms after", short_ms(c.before.step), short_ms(c.after.step));
  if (!c.beyond_noise()) {
    return fmt::format("No difference in the job's step beyond noise: {} ({:+.1f} %, noise {:.1f} %).", figures,
                       c.change.pct, c.change.noise_pct);
  }
  return fmt::format("The job's step is {:.1f} % {}: {} (noise {:.1f} %).", std::abs(c.change.pct),
                     c.change.pct > 0 ? "slower" : "faster", figures, c.change.noise_pct);
}

void rank_sentences(const JobComparison& c, std::vector<std::string>& out) {
  const std::vector<const RankChange*> changed = c.changed_ranks();
  const bool alike = std::all_of(changed.begin(), changed.end(), [&](const RankChange* r) {
    return (r->own_pct > 0) == (changed.front()->own_pct > 0);
  });
  if (changed.size() > 1 && changed.size() == c.ranks.size() && alike) {
    out.push_back(
        fmt::format("The own work of all {} ranks changed; most: {}.", c.ranks.size(), rank_words(*changed.front())));
    return;
  }
  constexpr std::size_t kNamed = 4;
  for (std::size_t i = 0; i < std::min(changed.size(), kNamed); ++i)
    out.push_back(capital(rank_words(*changed[i])) + ".");
  if (changed.size() > kNamed) {
    std::vector<std::int64_t> rest;
    for (std::size_t i = kNamed; i < changed.size(); ++i) rest.push_back(changed[i]->rank);
    std::sort(rest.begin(), rest.end());
    out.push_back(fmt::format("The own work of ranks {} changed too.", ranks::list_of(rest)));
  }
}

std::string gate_words(const JobComparison& c) {
  const std::string change = fmt::format("{:+.1f} % with a noise of {:.1f} %", c.change.pct, c.change.noise_pct);
  if (*c.outcome == compare::Outcome::kPassed) return fmt::format("The gate of {:g} % holds: {}.", *c.gate_pct, change);
  if (*c.outcome == compare::Outcome::kInconclusive)
    return fmt::format("The gate of {:g} % is inconclusive: {}.", *c.gate_pct, change);
  return fmt::format("The gate of {:g} % fails: the job's step changes by {}.", *c.gate_pct, change);
}

std::string prediction_words(const compare::JobVerdict& v, Ns after) {
  const whatif::Prediction& p = v.prediction;
  if (!p.declined.empty()) return fmt::format("{} cannot be predicted from BEFORE: {}.", p.whatif, p.declined);
  return fmt::format("{} was predicted to take {} ms [{}, {}]; AFTER takes {}: {:+.1f} %, {} the band.", p.whatif,
                     short_ms(p.step), short_ms(p.low), short_ms(p.high), short_ms(after), v.step_error_pct.value_or(0),
                     v.inside_band ? "inside" : "outside");
}

TextTable rank_table(const JobComparison& c, std::size_t top) {
  TextTable table({{"rank", Align::kLeft},
                   {"traced ms"},
                   {"after"},
                   {"own work %"},
                   {"waits ms"},
                   {"after"},
                   {.header = "peak", .drop = 1},
                   {.header = "after", .drop = 1}});
  for (std::size_t i = 0; i < std::min(c.ranks.size(), top); ++i) {
    const RankChange& r = c.ranks[i];
    table.row({fmt::format("{}", r.rank), format_ms(r.own.before.traced), format_ms(r.own.after.traced),
               fmt::format("{:+.1f}", r.own_pct), format_ms(r.wait_before), format_ms(r.wait_after),
               gigabytes(r.own.before.peak_bytes), gigabytes(r.own.after.peak_bytes)});
  }
  if (c.ranks.size() > top) table.note(fmt::format("… and {} more", c.ranks.size() - top));
  table.note("own work: what the changes of the rank's GPU and CPU work that are beyond noise do to its step.");
  return table;
}

template <class Row>
std::string transfer_table(const char* title, const std::vector<Row>& rows, std::size_t top, const TextStyle& style) {
  if (rows.empty()) return {};
  TextTable table({{title, Align::kLeft, true},
                   {.header = "ranks", .drop = 1},
                   {"transfer ms"},
                   {"after"},
                   {"%"},
                   {.header = "waits ms", .drop = 2},
                   {.header = "after", .drop = 2}});
  for (std::size_t i = 0; i < std::min(rows.size(), top); ++i) {
    const Row& r = rows[i];
    table.row({name_of(r), ranks::list_of(r.ranks), format_ms(r.transfer.before), format_ms(r.transfer.after),
               change_text(r.transfer), format_ms(r.wait_before), format_ms(r.wait_after)});
  }
  if (rows.size() > top) table.note(fmt::format("… and {} more", rows.size() - top));
  return "\n" + table.render(style);
}

void write_side(JsonWriter& json, const char* name, const compare::JobSide& side) {
  json.key(name).begin_object().member_ms("ms", side.step).member_ms("traced_ms", side.traced);
  json.member("peak_bytes", side.peak_bytes).member("fullest_rank", side.fullest_rank);
  json.member("device", side.device).member("parallel", side.parallel).member("step", side.step_name);
  json.member("ranks", side.ranks).member("missing", side.missing).member("steps", side.steps);
  json.member("files", side.files).end_object();
}

void write_transfer(JsonWriter& json, const TimeChange& t) {
  json.member_ms("transfer_before_ms", t.before).member_ms("transfer_after_ms", t.after).member("changed", t.named);
  json.key("change_pct");
  t.before > 0 && t.after > 0 ? json.value(t.change.pct) : json.null();
  json.key("noise_pct");
  t.before > 0 && t.after > 0 ? json.value(t.change.noise_pct) : json.null();
}

void write_rank(JsonWriter& json, const RankChange& r) {
  json.member("rank", r.rank).member("changed", r.named).member("own_pct", r.own_pct);
  json.member_ms("before_ms", r.own.before.traced).member_ms("after_ms", r.own.after.traced);
  json.member_ms("wait_before_ms", r.wait_before).member_ms("wait_after_ms", r.wait_after);
  json.member_ms("bubble_before_ms", r.bubble_before).member_ms("bubble_after_ms", r.bubble_after);
  json.member("peak_before_bytes", r.own.before.peak_bytes).member("peak_after_bytes", r.own.after.peak_bytes);
  json.objects("parts", r.own.parts, [&](const compare::Part& part) { write_part(json, part); });
  json.objects("causes", r.own.causes, [&](const compare::Cause& cause) { write_cause(json, cause); });
}

}  // namespace

std::vector<std::string> sentences(const JobComparison& c) {
  std::vector<std::string> out = {step_words(c)};
  if (c.before.parallel != c.after.parallel) {
    const auto kind = [](const std::string& text) { return text.empty() ? std::string("unknown") : text; };
    out.push_back(fmt::format("The job is of another kind: {} before, {} after.", kind(c.before.parallel),
                              kind(c.after.parallel)));
  }
  for (const compare::Cause& cause : c.causes) out.push_back("On all ranks: " + cause_words(cause) + ".");
  rank_sentences(c, out);
  for (const GroupChange& g : c.groups) {
    if (!g.transfer.named) continue;
    out.push_back(fmt::format("Group {} (ranks {}): transfers {}.", printable(name_of(g)), ranks::list_of(g.ranks),
                              instead_of(g.transfer)));
  }
  constexpr std::size_t kNamed = 4;
  std::size_t shown = 0;
  for (const CollectiveChange& one : c.collectives) {
    if (!one.transfer.named || ++shown > kNamed) continue;
    out.push_back(fmt::format("Collective {} (ranks {}; {} before, {} after): {}.", name_of(one),
                              ranks::list_of(one.ranks), one.before_count, one.after_count, instead_of(one.transfer)));
  }
  if (out.size() == 1) out.emplace_back("No rank, group or collective changed beyond noise.");
  out.push_back(capital(std::string(decided_words(c.decided))) + ". Noise: " + c.noise_from + ".");
  for (const std::string& note : c.notes) out.push_back(capital(printable(note)) + (note.ends_with('?') ? "" : "."));
  if (c.verdict) out.push_back(prediction_words(*c.verdict, c.after.step));
  if (c.outcome) out.push_back(gate_words(c));
  return out;
}

std::string to_text(const JobComparison& c, const TextStyle& style) {
  std::string out;
  for (const std::string& sentence : sentences(c)) out += wrap(sentence, style.width, 2, 0) + "\n";
  out += "\n" + rank_table(c, std::max<std::size_t>(style.top, c.ranks.size() > 64 ? 0 : c.ranks.size())).render(style);
  out += transfer_table("group", c.groups, style.top, style);
  out += transfer_table("collective", c.collectives, style.top, style);
  return out;
}

std::string to_json(const JobComparison& c) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("schema", 1).member("verb", "compare").member("of", "jobs");
  write_side(json, "before", c.before);
  write_side(json, "after", c.after);
  write_change(json, c.change);
  json.member("beyond_noise", c.beyond_noise()).member("decided_by", compare::to_string(c.decided));
  json.member("noise_from", c.noise_from).member("gate_pct", c.gate_pct);
  json.key("outcome");
  c.outcome ? json.value(compare::to_string(*c.outcome)) : json.null();
  json.member("recordings_needed", c.recordings_needed).member("sentences", sentences(c));
  json.objects("causes", c.causes, [&](const compare::Cause& cause) { write_cause(json, cause); });
  json.objects("ranks", c.ranks, [&](const RankChange& r) { write_rank(json, r); });
  json.objects("groups", c.groups, [&](const GroupChange& g) {
    json.member("kind", g.kind).member("name", g.name).member("ranks", g.ranks);
    write_transfer(json, g.transfer);
    json.member_ms("wait_before_ms", g.wait_before).member_ms("wait_after_ms", g.wait_after);
    json.member_ms("exposed_before_ms", g.exposed_before).member_ms("exposed_after_ms", g.exposed_after);
    json.member("operations_before", g.before_operations).member("operations_after", g.after_operations);
    json.member("bytes_before", g.before_bytes).member("bytes_after", g.after_bytes);
  });
  json.objects("collectives", c.collectives, [&](const CollectiveChange& one) {
    json.member("kind", one.kind).member("group", one.group).member("ranks", one.ranks);
    json.key("bytes");
    one.bytes < 0 ? json.null() : json.value(one.bytes);
    write_transfer(json, one.transfer);
    json.member_ms("wait_before_ms", one.wait_before).member_ms("wait_after_ms", one.wait_after);
    json.member("count_before", one.before_count).member("count_after", one.after_count);
  });
  if (c.verdict) {
    const whatif::Prediction& p = c.verdict->prediction;
    json.key("prediction").begin_object().member("whatif", p.whatif);
    if (!p.declined.empty()) {
      json.member("declined", p.declined);
    } else {
      write_times(json, p).member("peak_bytes", p.peak_bytes).member_ms("measured_ms", c.after.step);
      json.member("step_error_pct", c.verdict->step_error_pct).member("memory_error_pct", c.verdict->memory_error_pct);
      json.member("inside_band", c.verdict->inside_band);
    }
    json.end_object();
  }
  json.member("notes", c.notes).end_object();
  return out + "\n";
}

std::string to_markdown(const JobComparison& c, std::size_t top) {
  const std::vector<std::string> lines = sentences(c);
  std::string out = fmt::format("### {}\n\n", markdown_cell(lines.front()));
  if (c.outcome) out += fmt::format("{} **{}**\n\n", outcome_sign(*c.outcome), markdown_cell(lines.back()));
  const std::size_t last = lines.size() - (c.outcome ? 1 : 0);
  for (std::size_t i = 1; i < last; ++i) out += fmt::format("- {}\n", markdown_cell(lines[i]));
  out += "\n| rank | traced ms | after | own work % | waits ms | after |\n|---|--:|--:|--:|--:|--:|\n";
  for (std::size_t i = 0; i < std::min(c.ranks.size(), top); ++i) {
    const RankChange& r = c.ranks[i];
    out += fmt::format("| {} | {} | {} | {:+.1f} | {} | {} |\n", r.rank, format_ms(r.own.before.traced),
                       format_ms(r.own.after.traced), r.own_pct, format_ms(r.wait_before), format_ms(r.wait_after));
  }
  return out;
}

}  // namespace foretrace::report
