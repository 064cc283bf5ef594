#include <fmt/format.h>

#include "base/data_files.hpp"
#include "base/readable.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/gpus.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/version.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "report/json_writer.hpp"
#include "report/page_facts.hpp"
#include "report/page_html.hpp"
#include "report/page_pack.hpp"
#include "report/prediction_parts.hpp"
#include "report/scale.hpp"
#include "whatif/model/evidence.hpp"

namespace foretrace::report {

using overview::Overview;

namespace {

// The changes in one sentence. Long lists of layers are cut; the table has them in full.
std::string stack_text(const Overview& o) {
  constexpr std::size_t kRoom = 48;
  std::string out;
  for (const whatif::Use& use : o.stack) out += (out.empty() ? "" : " + ") + shorten_middle(use.text, kRoom);
  return out;
}

// Everything but the section about the ranks is about one of them.
std::optional<std::int64_t> own_rank(const Overview& o) {
  if (!o.job) return std::nullopt;
  for (const ranks::Rank& r : o.job->job->ranks) {
    if (r.trace.path == o.trace->path) return r.rank;
  }
  return std::nullopt;
}

std::string whose(const Overview& o) {
  const std::optional<std::int64_t> rank = own_rank(o);
  return rank ? fmt::format(" on rank {} of {}", *rank, o.job->report.world_size) : std::string();
}

// What the page says of all ranks together, behind the answer for one of them.
std::string job_answer(const Overview& o) {
  if (!o.job || !o.job->baseline) return {};
  const analysis::StepFigures& figures = o.job->baseline->figures;
  std::string out = fmt::format(" The job of {} ranks takes {} ms a step, all ranks simulated together",
                                o.job->report.world_size, short_ms(figures.measured.value_or(figures.unprofiled)));
  if (const std::optional<whatif::Prediction>& best = o.job->best) {
    constexpr std::size_t kRoom = 96;  // as in stack_text, of two changes
    out += fmt::format("; with {} on every rank {} ms [{} to {}]", shorten_middle(best->whatif, kRoom),
                       short_ms(best->step), short_ms(best->low), short_ms(best->high));
  }
  return out + ".";
}

std::string answer(const Overview& o) {
  if (!o.baseline) {
    return fmt::format("The step takes {} ms{} as traced; nothing can be predicted from it: {}.",
                       short_ms(o.summary.step_duration()), whose(o), o.declined);
  }
  std::string bound = o.baseline->figures.verdict.unprofiled.sentence();
  bound = bound.substr(0, bound.find(':'));
  std::string out =
      fmt::format("Today a step takes {} ms{}{}{}", short_ms(o.today()), whose(o),
                  o.baseline->figures.measured ? "" : " without the profiler", bound.empty() ? "" : ", " + bound);
  if (o.best) {
    out += fmt::format("; {} {} ms [{} to {}] with {}", o.stack_was_asked ? "predicted:" : "the best found is",
                       short_ms(o.best->step), short_ms(o.best->low), short_ms(o.best->high), stack_text(o));
  }
  return out + "." + job_answer(o);
}

// What the changes do to the job, all ranks together.
void write_job(JsonWriter& json, const overview::JobOverview& job) {
  if (!job.baseline) {
    if (!job.declined.empty()) json.key("job").begin_object().member("declined", job.declined).end_object();
    return;
  }
  const analysis::StepFigures& figures = job.baseline->figures;
  json.key("job").begin_object().member_ms("today_ms", figures.measured.value_or(figures.unprofiled));
  json.key("whatif").raw(to_json(WhatIfReport{figures, job.alone, std::nullopt}));
  if (job.advised) json.key("advise").raw(to_json(AdviseReport{figures, *job.advised}));
  if (job.best) json.key("best").raw(to_json(WhatIfReport{figures, {*job.best}, std::nullopt}));
  json.end_object();
}

void write_predictions(JsonWriter& json, const Overview& o) {
  const analysis::StepFigures& figures = o.baseline->figures;
  json.key("whatif").raw(to_json(WhatIfReport{figures, o.alone, std::nullopt}));
  if (o.advised) json.key("advise").raw(to_json(AdviseReport{figures, *o.advised}));
  json.member_ms("today_ms", o.today()).key("waterfall").begin_array();
  for (const auto& [name, step] : o.waterfall)
    json.begin_object().member("whatif", name).member_ms("ms", step).end_object();
  json.end_array();
  if (o.best) {
    json.key("best").begin_object().member("whatif", o.best->whatif).member_ms("ms", o.best->step);
    json.member_ms("low_ms", o.best->low).member_ms("high_ms", o.best->high).member("peak_bytes", o.best->peak_bytes);
    write_trust(json, *o.best).end_object();
  }
  if (o.gpus) json.key("gpus").raw(to_json(*o.gpus));
  if (o.scale) json.key("scale").raw(to_json(*o.scale));
  write_sliders(json, o.sliders);
}

// How far predictions of each change were off where the change was really made.
void write_track_record(JsonWriter& json) {
  json.key("track_record").begin_object();
  for (const whatif::PastErrors& past : whatif::past_errors()) {
    json.key(past.whatif).begin_object().member("rows", past.rows);
    json.member("step_pct", past.step_pct).member("worst_step_pct", past.worst_step_pct);
    json.member("gpu_pct", past.gpu_pct).member("memory_pct", past.memory_pct);
    json.member("worst_row", past.worst_row).member("unseen_rows", past.unseen_rows);
    json.member("unseen_pct", past.unseen_pct).member("models", whatif::evidence_of(past.whatif).models);
    json.member("networks", past.networks).member("blind_rows", past.blind_rows);
    json.member("blind_pct", past.blind_pct).end_object();
  }
  json.end_object();
}

// What has to hold for each change that was predicted, as the catalogue says it.
void write_assumptions(JsonWriter& json) {
  json.key("assumes").begin_object();
  for (const whatif::WhatIf& one : whatif::catalogue()) {
    if (!one.assumes.empty()) json.member(one.name, one.assumes);
  }
  json.end_object();
}

std::string page_json(const Overview& o, const PageOptions& options) {
  std::string out;
  JsonWriter json(out, 1);
  json.begin_object().member("schema", 1).member("version", version()).member("command", options.command);
  json.member("file", file_name(o.trace->path)).key("summary").raw(to_json(o.summary));
  if (o.job) {
    json.key("ranks").raw(to_json(o.job->report));
    write_job(json, *o.job);
  }
  if (const std::optional<std::int64_t> rank = own_rank(o)) json.member("rank", *rank);
  if (!options.compare_json.empty()) json.key("compare").raw(options.compare_json);
  json.member("answer", answer(o));
  if (o.baseline) {
    write_predictions(json, o);
    write_track_record(json);
    write_assumptions(json);
    write_roofline(json, o);
    write_memory(json, *o.baseline);
  } else {
    json.member("declined", o.declined);
  }
  json.end_object();
  return out;
}

Result<std::string> pack(const Overview& o) {
  std::vector<PackedTimeline> timelines;
  if (o.traced) timelines.push_back({"as traced, with the profiler", &*o.traced, true});
  if (o.traced && o.predicted) {
    timelines.push_back({o.best ? "predicted with " + stack_text(o) : "without the profiler", &*o.predicted});
  }
  if (timelines.empty() && !o.job) return std::string();
  return pack_timelines(*o.trace, timelines, o.job ? &*o.job : nullptr);
}

}  // namespace

Result<Page> make_page(const Overview& o, const PageOptions& options) {
  FORETRACE_TRY(const std::string timelines, pack(o));
  const std::size_t tasks = o.baseline ? o.baseline->model.graph.size() : o.traced ? o.traced->graph.size() : 0;
  const std::vector<DataFile> scripts = data_files_in("report/page", ".js");
  return Page{page_html(o.trace->path, page_json(o, options), scripts, {}, timelines), answer(o), tasks};
}

}  // namespace foretrace::report
