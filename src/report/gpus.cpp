#include "foretrace/analysis/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/readable.hpp"
#include "foretrace/report/report.hpp"
#include "report/prediction_parts.hpp"
#include "report/text_table.hpp"
#include "report/verdict.hpp"

namespace foretrace::report {

namespace {

std::string_view to_string(analysis::GpuOrder order) {
  static constexpr std::string_view kNames[] = {"time", "cost", "value"};
  return kNames[static_cast<std::size_t>(order)];
}

std::string money(const std::optional<double>& usd, int digits) {
  return usd ? fmt::format("{:.{}f}", *usd, digits) : "-";
}

std::string memory_cell(const analysis::GpuPrediction& g) {
  if (!g.prediction.peak_bytes) return "-";
  const double share = 100.0 * static_cast<double>(*g.prediction.peak_bytes) / (g.device.reported_gb * 1e9);
  return g.fits == false ? "does not fit" : fmt::format("{:.0f} %", share);
}

// What several devices have in common is printed once.
std::vector<std::pair<std::string, std::string>> notes_of(const analysis::GpusReport& r) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_note;
  std::size_t answered = 0;
  for (const analysis::GpuPrediction& g : r.predictions) {
    if (!g.prediction.declined.empty()) continue;
    ++answered;
    for (const std::string& n : g.prediction.not_modelled) {
      const auto it = std::find_if(by_note.begin(), by_note.end(), [&](const auto& e) { return e.first == n; });
      if (it == by_note.end()) {
        by_note.push_back({n, {g.device.name}});
      } else if (it->second.back() != g.device.name) {
        it->second.push_back(g.device.name);
      }
    }
  }
  std::vector<std::pair<std::string, std::string>> notes;
  for (const auto& [note, names] : by_note) {
    notes.emplace_back(note, names.size() == answered ? "" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return notes;
}

// Where each price is from and of when, each source once.
std::string prices_text(const analysis::GpusReport& r, const TextStyle& style) {
  std::vector<std::pair<std::string, std::string>> sources;
  for (const analysis::GpuPrediction& g : r.predictions) {
    if (!g.usd_per_hour || !g.prediction.declined.empty()) continue;
    std::string source = g.price_source.empty() ? "--price" : printable(g.price_source);
    if (!g.price_age.empty()) source += fmt::format(" ({})", g.price_age);
    sources.emplace_back(g.device.name, std::move(source));
  }
  std::string out;
  for (const auto& [source, names] : by_text(sources)) out += text_line(fmt::format("{}: {}", source, names), style, 4);
  return out.empty() ? out : "\n  prices:\n" + out;
}

}  // namespace

std::string to_text(const analysis::GpusReport& r, const TextStyle& style) {
  std::string out = text_line(
      fmt::format("{}, recorded on {} ({})", headline(r.file, r.step_name, {}), printable(r.from), printable(r.how)),
      style);
  std::string now = fmt::format("{} ms a step there without the profiler", short_ms(r.baseline));
  if (!r.whatifs.empty()) now += fmt::format("; below with {}", fmt::join(r.whatifs, " + "));
  out += text_line(now, style, 2) + job_text(r.job, style) + steadiness_line(r.steadiness, style) + "\n";
  std::vector<TableColumn> columns = {{"device", Align::kLeft},
                                      {"ms"},
                                      {"10 % .. 90 %"},
                                      {"speed-up"},
                                      {.header = "memory", .drop = 5},
                                      {.header = "$/h", .drop = 4},
                                      {.header = "$/1k steps", .drop = 6},
                                      {.header = "steps/$", .drop = 3}};
  if (r.watts) {
    columns.push_back({.header = "W", .drop = 2});
    columns.push_back({.header = "kWh/1k steps", .drop = 6});
  }
  columns.push_back({.header = "costs", .align = Align::kLeft, .drop = 1});
  TextTable table(std::move(columns));
  for (const analysis::GpuPrediction& g : r.predictions) {
    const whatif::Prediction& p = g.prediction;
    if (!p.declined.empty()) continue;
    std::vector<std::string> cells = {g.device.name + (g.is_origin ? " (here)" : ""),
                                      short_ms(p.step),
                                      band(p.low, p.high),
                                      times(p.speedup),
                                      memory_cell(g),
                                      g.usd_per_hour ? money(g.usd_per_hour, 2) : "none",
                                      money(g.usd_per_1k_steps, 4),
                                      money(g.steps_per_usd, 0)};
    if (r.watts) {
      cells.push_back(g.device.power_w > 0 ? fmt::format("{:.0f}", g.device.power_w) : "-");
      cells.push_back(money(g.kwh_per_1k_steps, 4));
    }
    cells.push_back(p.origin);
    table.row(std::move(cells));
  }
  if (table.rows() > 0) out += table.render(style);
  std::vector<const whatif::Prediction*> shown;
  for (const analysis::GpuPrediction& g : r.predictions) shown.push_back(&g.prediction);
  out += trust_text(shown, style);
  std::vector<std::pair<std::string, std::string>> declined;
  for (const analysis::GpuPrediction& g : r.predictions) {
    if (!g.prediction.declined.empty()) declined.emplace_back(g.device.name, g.prediction.reason());
  }
  // One reason for the whole list: there is no need to name them all.
  const auto reasons = by_text(declined);
  const bool all_of_them = reasons.size() == 1 && declined.size() == r.predictions.size() && declined.size() > 4;
  for (const auto& [reason, names] : reasons) {
    out += paragraph(fmt::format("{}: declined. {}", all_of_them ? "every GPU" : names, reason), style);
  }
  std::vector<std::string> bound;
  for (const analysis::GpuPrediction& g : r.predictions) {
    if (g.cpu_bound && g.prediction.declined.empty()) bound.push_back(g.device.name);
  }
  if (!bound.empty()) {
    out += paragraph(fmt::format("not limited by the GPU alone on {}: it is busy for less than nine tenths of the step",
                                 fmt::join(bound, ", ")),
                     style);
  }
  out += prices_text(r, style);
  if (const auto notes = notes_of(r); !notes.empty()) {
    out += "\n  not modelled:\n";
    for (const auto& [note, names] : notes) {
      out += text_line(fmt::format("- {}{}", note, names.empty() ? "" : " [" + names + "]"), style, 4);
    }
  }
  return out;
}

std::string to_json(const analysis::GpusReport& r) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("schema", 1).member("verb", "gpus").member("file", r.file).member("step", r.step_name);
  json.member("from", r.from).member("from_device", r.from_device).member("matched", r.how);
  json.member_ms("baseline_ms", r.baseline).member("order", to_string(r.order));
  json.member("whatifs", r.whatifs);
  write_one_rank(json, r.one_rank);
  if (r.job) write_job(json, *r.job);
  write_steadiness(json, r.steadiness);
  json.objects("predictions", r.predictions, [&](const analysis::GpuPrediction& g) {
    const whatif::Prediction& p = g.prediction;
    json.member("device", g.device.name);
    if (!p.declined.empty()) {
      json.member("declined", p.declined);
      return;
    }
    write_times(json, p).member("speedup", p.speedup).member_ms("gpu_ms", p.gpu_time);
    json.member("usd_per_hour", g.usd_per_hour).member("usd_per_1k_steps", g.usd_per_1k_steps);
    json.member("steps_per_usd", g.steps_per_usd).member("fits", g.fits);
    json.member("price_source", g.price_source).member("price_age", g.price_age);
    json.member("watts", g.device.power_w).member("kwh_per_1k_steps", g.kwh_per_1k_steps);
    json.member("gpu_share", g.gpu_share).member("cpu_bound", g.cpu_bound);
    json.member("peak_bytes", p.peak_bytes);
    json.member("memory_bytes",
                g.device.reported_gb > 0 ? std::optional(std::llround(g.device.reported_gb * 1e9)) : std::nullopt);
    write_trust(json, p);
  });
  json.end_object();
  return out + "\n";
}

}  // namespace foretrace::report
