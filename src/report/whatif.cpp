#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/readable.hpp"
#include "foretrace/report/report.hpp"
#include "report/prediction_parts.hpp"
#include "report/strategy_json.hpp"
#include "report/text_table.hpp"
#include "report/verdict.hpp"

namespace foretrace::report {

namespace {

void write_families(JsonWriter& json, const std::vector<whatif::FamilyTime>& families) {
  json.key("gpu_families").begin_object();
  for (const whatif::FamilyTime& f : families) {
    json.key(f.family).begin_object().member("errors", f.errors);
    for (std::size_t o = 0; o < f.time.size(); ++o) {
      if (f.time[o] > 0) json.member(fmt::format("{}_ms", to_string(static_cast<graph::Origin>(o))), to_ms(f.time[o]));
    }
    json.end_object();
  }
  json.end_object();
}

void write_pipeline(JsonWriter& json, const std::optional<whatif::PipelineFigures>& of) {
  if (!of) return;
  json.key("pipeline").begin_object().member("gpus", of->gpus).member("microbatches", of->microbatches);
  json.member_ms("bubble_ms", of->bubble).member("tokens", of->tokens).member("tokens_per_s", of->tokens_per_s);
  json.end_object();
}

bool changes_batch(const whatif::Prediction& p) { return p.declined.empty() && p.samples != 1; }

// Samples per second after the change, where the batch is known.
std::optional<double> samples_per_second(const WhatIfReport& r, const whatif::Prediction& p) {
  if (!r.batch || p.step <= 0) return std::nullopt;
  return *r.batch * p.samples * 1e9 / static_cast<double>(p.step);
}

std::string samples_text(const WhatIfReport& r, const whatif::Prediction& p) {
  const std::optional<double> rate = samples_per_second(r, p);
  return rate ? fmt::format("{:.1f} ({:.2f} x)", *rate, p.gain()) : times(p.gain());
}

// What a step of several GPUs is a step of.
std::string job_text(const WhatIfReport& r, const whatif::Prediction& p) {
  const double samples = p.samples * p.replicas;
  std::string batch = "the samples and tokens of the traced one";
  if (r.batch) {
    batch = fmt::format("{:g} samples, {:.1f} per second", *r.batch * samples,
                        *r.batch * samples * 1e9 / static_cast<double>(std::max<Ns>(1, p.step)));
  } else if (samples != 1) {
    batch = fmt::format("{:g} times {}", samples, batch);
  }
  std::string text = fmt::format("{}: {} GPUs, {} of the model; a step of the whole job is of {}", p.whatif, p.workers,
                                 p.replicas == 1 ? "one replica" : fmt::format("{} replicas", p.replicas), batch);
  if (!p.pipeline) return text;
  const whatif::PipelineFigures& f = *p.pipeline;
  if (f.tokens && f.tokens_per_s) {
    text += fmt::format(", {} tokens, {} per second", format_count(static_cast<std::uint64_t>(*f.tokens)),
                        format_count(static_cast<std::uint64_t>(*f.tokens_per_s)));
  }
  text += fmt::format("; {} in a step, bubble {} ms",
                      plural(static_cast<std::uint64_t>(f.microbatches), "micro-batch", "micro-batches"),
                      short_ms(f.bubble));
  return text;
}

// A batch that is rounded up would no longer fit.
std::string rounded_down(double factor) {
  const double unit = factor >= 1 ? 0.01 : 0.0001;
  return fmt::format("{:.{}f}", std::floor(factor / unit) * unit, factor >= 1 ? 2 : 4);
}

std::string memory_text(const WhatIfReport& r) {
  return fmt::format("the GPU has {:.0f} GB, of which the driver keeps {}", r.baseline.memory_gb,
                     gigabytes(hardware::kDriverBytes));
}

// One line for the step as it is and one for every change that moves its peak.
std::string peaks_text(const WhatIfReport& r, const TextStyle& style) {
  if (!r.baseline.peak_parts) return {};
  std::vector<TableColumn> columns{{"of the peak, GB", Align::kLeft, true}};
  for (const auto& [name, bytes] : peak_parts(*r.baseline.peak_parts)) {
    columns.push_back({std::string(name.substr(0, name.find('_')))});  // "optimizer_states"
  }
  TextTable table(std::move(columns));
  const auto add = [&](const std::string& name, const memory::Composition& peak) {
    std::vector<std::string> row{name};
    for (const auto& [part, bytes] : peak_parts(peak))
      row.push_back(fmt::format("{:.2f}", static_cast<double>(bytes) / 1e9));
    table.row(std::move(row));
  };
  add("as it is", *r.baseline.peak_parts);
  for (const whatif::Prediction& p : r.predictions) {
    if (p.peak_parts && p.peak_bytes != r.baseline.peak_bytes) add(p.whatif, *p.peak_parts);
  }
  return "\n" + table.render(style);
}

// How long each rank of a job waits for others, before and after.
std::string waits_text(const WhatIfReport& r, const TextStyle& style) {
  if (!r.baseline.job) return {};
  TextTable table({{"waits for other ranks, ms", Align::kLeft, true}, {"least"}, {"most"}, {"on rank"}, {"transfers"}});
  const auto add = [&](const std::string& name, const std::vector<whatif::RankTime>& ranks) {
    if (ranks.empty()) return;
    const auto [least, most] =
        std::minmax_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.wait < b.wait; });
    table.row(
        {name, short_ms(least->wait), short_ms(most->wait), fmt::format("{}", most->rank), short_ms(most->transfer)});
  };
  add("as it is", r.baseline.job->ranks);
  for (const whatif::Prediction& p : r.predictions) add(p.whatif, p.ranks);
  return "\n" + table.render(style);
}

}  // namespace

std::string to_text(const WhatIfReport& r, const TextStyle& style) {
  std::string out = text_line(headline(r.baseline.file, r.baseline.step_name, r.baseline.device), style);
  out += text_line(now_text(r.baseline), style, 2);
  if (r.baseline.period) {
    out += text_line(fmt::format("the GPU lags behind the CPU, so the step is measured by its period of {} ms",
                                 short_ms(*r.baseline.period)),
                     style, 2);
  }
  out += baseline_notes(r.baseline, style) +
         verdict_text(r.baseline.verdict, short_ms(r.baseline.traced), r.baseline.startup.time() > 0, style, 2);
  std::vector<TableColumn> columns{{"what if", Align::kLeft, true},
                                   {"ms"},
                                   {"10 % .. 90 %"},
                                   {"speed-up"},
                                   {.header = "GPU ms", .drop = 2},
                                   {"peak"},
                                   {.header = "costs", .align = Align::kLeft, .drop = 1}};
  const bool other_batch = std::any_of(r.predictions.begin(), r.predictions.end(), changes_batch);
  if (other_batch) columns.insert(columns.begin() + 4, {"samples/s"});
  TextTable table(std::move(columns));
  bool crowded = false;
  for (const whatif::Prediction& p : r.predictions) {
    if (!p.declined.empty()) continue;
    crowded |= p.fits == false;
    std::vector<std::string> row{
        p.whatif,         short_ms(p.step),     band(p.low, p.high),
        times(p.speedup), short_ms(p.gpu_time), gigabytes(p.peak_bytes) + (p.fits == false ? " (!)" : ""),
        p.origin};
    if (other_batch) row.insert(row.begin() + 4, samples_text(r, p));
    table.row(std::move(row));
  }
  if (table.rows() > 0) out += "\n" + table.render(style);
  if (crowded) out += text_line(fmt::format("(!) does not fit: {}", memory_text(r)), style, 2);
  out += peaks_text(r, style) + waits_text(r, style);
  std::vector<const whatif::Prediction*> all;
  for (const whatif::Prediction& p : r.predictions) all.push_back(&p);
  out += trust_text(all, style);
  for (const whatif::Prediction& p : r.predictions) {
    if (!p.declined.empty()) out += paragraph(fmt::format("{}: declined. {}", p.whatif, p.reason()), style);
  }
  std::vector<std::pair<std::string, std::string>> largest, missing;
  for (const whatif::Prediction& p : r.predictions) {
    if (p.largest_batch) largest.emplace_back(p.whatif, rounded_down(*p.largest_batch));
    if (!p.declined.empty() || p.not_modelled.empty()) continue;
    std::string notes;
    for (const std::string& note : p.not_modelled) notes += text_line("- " + note, style, 4);
    missing.emplace_back(p.whatif, std::move(notes));
  }
  for (const whatif::Prediction& p : r.predictions) {
    if (p.declined.empty() && p.workers > 1) out += paragraph(job_text(r, p), style);
  }
  for (const auto& [factor, names] : by_text(largest)) {
    out += paragraph(
        fmt::format("{}: the largest batch that fits into the GPU's memory is {} times the traced one", names, factor),
        style);
  }
  for (const auto& [notes, names] : by_text(missing)) {
    out += paragraph(fmt::format("{}, not modelled:", names), style);
    out += notes;
  }
  return out;
}

std::string to_json(const WhatIfReport& r, const search::Optimized* plan) {
  std::string out;
  JsonWriter json(out);
  begin_report(json, "whatif", r.baseline);
  json.key("baseline").begin_object();
  write_baseline(json, r.baseline);
  write_families(json, r.baseline.gpu_families);
  json.end_object();
  json.objects("predictions", r.predictions, [&](const whatif::Prediction& p) {
    json.member("whatif", p.whatif);
    if (!p.declined.empty()) {
      json.member("declined", p.declined);
      return;
    }
    write_times(json, p).member("speedup", p.speedup).member("samples", p.samples).member("gain", p.gain());
    json.member("samples_per_s", samples_per_second(r, p));
    if (p.workers > 1) {
      json.member("workers", p.workers).member("replicas", p.replicas);
      if (!p.pipeline) json.member_ms("comm_ms", p.communication);
      json.member_ms("exposed_comm_ms", p.exposed_communication);
    }
    write_pipeline(json, p.pipeline);
    json.member_ms("gpu_ms", p.gpu_time).member("peak_bytes", p.peak_bytes);
    json.member("reserved_bytes", p.reserved_bytes).member("fits", p.fits);
    write_peak_parts(json, p.peak_parts);
    if (p.largest_batch) json.member("largest_batch", *p.largest_batch);
    if (p.fullest_rank) json.member("fullest_rank", *p.fullest_rank);
    if (!p.ranks.empty()) write_ranks(json, p.ranks);
    write_trust(json, p);
    json.objects("band", p.band, [&](const whatif::BandPart& part) {
      json.member("family", part.family).member("sigma", part.sigma);
      json.member_ms("down_ms", part.down).member_ms("up_ms", part.up);
    });
    write_families(json, p.gpu_families);
    json.objects("applied", p.applied, [&](const whatif::Prediction::Applied& one) {
      json.member("whatif", one.text).member("changed", one.changed).member("seconds", one.seconds);
    });
  });
  if (plan != nullptr && plan->prediction.declined.empty()) {
    json.key("plan").begin_object().member_ms("baseline_ms", plan->baseline);
    json.member("baseline_peak_bytes", plan->baseline_peak);
    write_plan(json, *plan, "strategy");
    json.end_object();
  }
  json.end_object();
  return out + "\n";
}

}  // namespace foretrace::report
