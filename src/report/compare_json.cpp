#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/readable.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/report/report.hpp"
#include "report/compare_parts.hpp"
#include "report/json_writer.hpp"
#include "report/prediction_parts.hpp"
#include "report/verdict.hpp"

namespace foretrace::report {

namespace {

void write_side(JsonWriter& json, const char* name, const compare::Side& side) {
  json.key(name).begin_object().member_ms("ms", side.step).member_ms("traced_ms", side.traced);
  json.member_ms("clean_ms", side.clean).member_ms("gpu_ms", side.gpu_time).member_ms("cpu_ms", side.cpu_time);
  json.member("peak_bytes", side.peak_bytes).member("launches", side.launches).member("syncs", side.syncs);
  const bool known = side.bottleneck.by != simulate::BoundBy::kNothing;
  json.member_or_null("bound_by", known ? to_string(side.bottleneck.by) : std::string_view());
  json.member_or_null("unprofiled_bottleneck", known ? side.bottleneck.sentence() : std::string());
  json.member("device", side.device).member("rank", side.rank).member("files", side.files).member("steps", side.steps);
  json.end_object();
}

// Means over steps, without the noise of adding them up.
double rounded(double count) { return std::round(count * 1e6) / 1e6; }

void write_rows(JsonWriter& json, const char* name, const std::vector<compare::Row>& rows) {
  json.objects(name, rows, [&](const compare::Row& r) {
    json.member("name", r.name).member_ms("before_ms", r.before).member_ms("after_ms", r.after);
    json.member("before_count", rounded(r.before_count)).member("after_count", rounded(r.after_count));
    if (!r.families.empty()) json.member("families", r.families);
  });
}

void write_verdict(JsonWriter& json, const compare::Verdict& v) {
  const whatif::Prediction& p = v.prediction;
  json.key("prediction").begin_object().member("whatif", p.whatif);
  if (!p.declined.empty()) {
    json.member("declined", p.declined).end_object();
    return;
  }
  write_times(json, p).member_ms("gpu_ms", p.gpu_time);
  json.member("peak_bytes", p.peak_bytes).member_ms("measured_ms", v.step).member("step_error_pct", v.step_error_pct);
  json.member("gpu_error_pct", v.gpu_error_pct).member("memory_error_pct", v.memory_error_pct);
  json.member("inside_band", v.inside_band);
  json.objects("families", v.families, [&](const compare::Verdict::Family& f) {
    json.member("family", f.name).member_ms("predicted_ms", f.predicted).member_ms("measured_ms", f.measured);
  });
  json.objects("residuals", v.residuals, [&](const whatif::Residuals::Row& r) {
    json.member("family", r.family).member("model", r.model).member("residual", r.residual);
  });
  json.end_object();
}

}  // namespace

void write_change(JsonWriter& json, const compare::Change& change) {
  json.member("change_pct", change.pct).member("noise_pct", change.noise_pct).member("low_pct", change.low_pct);
  json.member("high_pct", change.high_pct).member("p_value", change.p_value);
}

void write_part(JsonWriter& json, const compare::Part& part) {
  json.member("name", part.name).member_ms("before_ms", part.before).member_ms("after_ms", part.after);
  write_change(json, part.change);
  json.member("step_pct", part.step_pct);
}

void write_cause(JsonWriter& json, const compare::Cause& cause) {
  json.member("what", cause.what).member("where", cause.where).member_ms("ms", cause.time);
  json.member("of", compare::to_string(cause.kind)).member("whatif", cause.whatif).member("noise_pct", cause.noise_pct);
}

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view("|`\\*_[]~").find(c) != std::string_view::npos) out += '\\';
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

std::string_view outcome_sign(compare::Outcome outcome) {
  return outcome == compare::Outcome::kFailed ? "❌" : outcome == compare::Outcome::kPassed ? "✅" : "❔";
}

std::string to_json(const compare::Comparison& c) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("schema", 1).member("verb", "compare");
  write_side(json, "before", c.before);
  write_side(json, "after", c.after);
  json.member("change_pct", c.change_pct).member("noise_pct", c.noise_pct).member("beyond_noise", c.beyond_noise());
  json.member("decided_by", compare::to_string(c.decided)).member("noise_from", c.noise_from);
  json.key("gate");
  c.outcome ? json.value(compare::to_string(*c.outcome)) : json.null();
  json.member("gate_pct", c.gate_pct);
  json.key("outcome");
  c.outcome ? json.value(compare::to_string(*c.outcome)) : json.null();
  json.key("outcome_by");
  c.outcome ? json.value(c.decided_by_parts ? "parts" : "step") : json.null();
  json.member("recordings_needed", c.recordings_needed);
  json.member("low_pct", c.low_pct).member("high_pct", c.high_pct).member("p_value", c.p_value);
  json.key("from_parts").begin_object();
  write_change(json, c.from_parts);
  json.end_object();
  if (c.outcome) {
    json.key("decisive").begin_object();
    write_change(json, c.decisive);
    json.end_object();
  }
  json.objects("parts", c.parts, [&](const compare::Part& part) { write_part(json, part); });
  json.member("sentences", sentences(c));
  json.objects("causes", c.causes, [&](const compare::Cause& cause) { write_cause(json, cause); });
  json.member("matched_share", c.matched_share);
  if (c.verdict) write_verdict(json, *c.verdict);
  json.key("tables").begin_object();
  write_rows(json, "phases", c.tables.phases);
  write_rows(json, "cpu_phases", c.tables.cpu_phases);
  write_rows(json, "families", c.tables.families);
  write_rows(json, "layers", c.tables.layers);
  write_rows(json, "operations", c.tables.operations);
  write_rows(json, "cpu_operations", c.tables.cpu_operations);
  write_rows(json, "kernels", c.tables.kernels);
  json.end_object().end_object();
  return out + "\n";
}

std::string to_markdown(const compare::Comparison& c, std::size_t top) {
  const std::vector<std::string> lines = sentences(c);
  std::string out = fmt::format("### {}\n\n", markdown_cell(lines.front()));
  if (c.outcome) {
    out += fmt::format("{} **{}**\n\n", outcome_sign(*c.outcome), markdown_cell(lines.back()));
  }
  const std::size_t last = lines.size() - (c.gate_pct ? 1 : 0);
  for (std::size_t i = 1; i < last; ++i) out += fmt::format("- {}\n", markdown_cell(lines[i]));
  out += "\n| | step ms | traced ms | GPU ms | CPU ms | peak | launches | waits |\n|---|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const auto& [name, side] :
       {std::pair<const char*, const compare::Side*>("before", &c.before), {"after", &c.after}}) {
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name, short_ms(side->step),
                       short_ms(side->traced), short_ms(side->gpu_time), short_ms(side->cpu_time),
                       gigabytes(side->peak_bytes), side->launches, side->syncs);
  }
  if (!c.parts.empty()) {
    out += "\n| part | before ms | after ms | change % | noise % | p | step % |\n|---|--:|--:|--:|--:|--:|--:|\n";
  }
  for (const compare::Part& part : c.parts) {
    out += fmt::format("| {} | {} | {} | {:+.1f} | {:.1f} | {} | {:+.1f} |\n", part.name, format_ms(part.before),
                       format_ms(part.after), part.change.pct, part.change.noise_pct, p_text(part.change.p_value),
                       part.step_pct);
  }
  for (const auto& [title, rows] : named_tables(c.tables)) {
    if (rows->empty()) continue;
    out += fmt::format(
        "\n<details><summary>{}</summary>\n\n| | before | after | change ms | % | count | then |\n"
        "|---|--:|--:|--:|--:|--:|--:|\n",
        title);
    for (std::size_t i = 0; i < std::min(rows->size(), top); ++i) {
      const compare::Row& r = (*rows)[i];
      out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n",
                         markdown_cell(shorten_middle(short_kernel_name(r.name), 80)), format_ms(r.before),
                         format_ms(r.after), signed_ms(r.change()), percent_text(r), count_text(r.before_count),
                         count_text(r.after_count));
    }
    out += "\n</details>\n";
  }
  return out;
}

}  // namespace foretrace::report
