#include "report/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/readable.hpp"
#include "report/prediction_parts.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {
namespace {

using plan::PlanPrediction;
using plan::PlanReport;

// "one GPU" of a plan without entries.
std::string name_of(const PlanPrediction& p) { return p.text.empty() ? "one GPU" : p.text; }

std::string shown(std::optional<double> value, double times, std::string_view format) {
  return value ? fmt::format(fmt::runtime(format), *value * times) : "-";
}

std::string head(const PlanReport& r, const TextStyle& style) {
  const plan::Planner::Figures& f = r.figures;
  std::string out = text_line(headline(f.file, f.step_name, f.device), style);
  std::string now = fmt::format("one GPU {} ms {}the profiler", short_ms(f.measured.value_or(f.unprofiled)),
                                f.measured ? "measured without " : "without ");
  if (f.samples) now += fmt::format(" for {:g} {}", *f.samples, *f.samples == 1 ? "sample" : "samples");
  now += fmt::format("; {}", plural(static_cast<std::size_t>(f.traced_layers), "block"));
  if (f.layers != f.traced_layers) now += fmt::format(", {} in the model asked about", f.layers);
  now += fmt::format("; over {}, {} in a node", f.network, plural(static_cast<std::size_t>(f.gpus_per_node), "GPU"));
  return out + text_line(now, style, 2);
}

std::string table_of(const PlanReport& r, std::size_t most, const TextStyle& style) {
  TextTable table({{"plan", Align::kLeft},
                   {.header = "GPUs", .drop = 5},
                   {"ms"},
                   {.header = "10 % .. 90 %", .drop = 2},
                   {.header = "bubble", .drop = 4},
                   {.header = "exposed", .drop = 3},
                   {"peak"},
                   {"MFU"},
                   {.header = "tokens/s", .drop = 6},
                   {.header = "USD/M", .drop = 1}});
  for (std::size_t i = 0; i < std::min(most, r.plans.size()); ++i) {
    const PlanPrediction& p = r.plans[i];
    const std::string rate = p.tokens_per_s ? format_count(static_cast<std::uint64_t>(*p.tokens_per_s)) : "-";
    table.row({name_of(p), fmt::format("{}", p.workers), short_ms(p.step), band(p.low, p.high), short_ms(p.bubble),
               short_ms(p.exposed_communication), gigabytes(p.peak_bytes) + (p.fits == false ? " !" : ""),
               shown(p.mfu, 100, "{:.1f} %"), rate, shown(p.usd_per_million_tokens, 1, "{:.3f}")});
  }
  if (r.plans.size() > most) table.note(fmt::format("  and {} more that fit", r.plans.size() - most));
  return table.rows() > 0 ? "\n" + table.render(style) : std::string();
}

// Where the fastest plan's time goes, and that of one plan asked for.
std::string details(const PlanPrediction& p, const TextStyle& style) {
  std::string first = fmt::format("{}: {}", name_of(p),
                                  plural(static_cast<std::size_t>(p.microbatches), "micro-batch", "micro-batches"));
  if (p.tokens)
    first += fmt::format(", {} tokens in a step of the job", format_count(static_cast<std::uint64_t>(*p.tokens)));
  std::string out = "\n" + text_line(first, style, 2);
  out += text_line(fmt::format("exposed communication: inside layers {} ms, between stages {} ms, gradients "
                               "and parameters {} ms",
                               short_ms(p.exposed_groups), short_ms(p.exposed_stages), short_ms(p.exposed_gradients)),
                   style, 2);
  if (p.ranks.size() < 2) return out;
  TextTable table({{"GPU of the pipeline"},
                   {"blocks"},
                   {"busy ms"},
                   {.header = "waits", .drop = 2},
                   {.header = "in flight", .drop = 1},
                   {"states"},
                   {"activations"},
                   {"peak"}});
  constexpr std::size_t kMostRanks = 16;
  for (std::size_t i = 0; i < std::min(kMostRanks, p.ranks.size()); ++i) {
    const plan::PlanRank& k = p.ranks[i];
    table.row({fmt::format("{}", i), fmt::format("{}", k.blocks), short_ms(k.busy), short_ms(k.bubble),
               fmt::format("{:g}", k.in_flight), gigabytes(k.states_bytes), gigabytes(k.activation_bytes),
               gigabytes(k.peak_bytes)});
  }
  return out + "\n" + table.render(style);
}

// Why a plan that lost is slower than the best: the largest part in which it takes more of its step.
std::string why_slower(const PlanPrediction& best, const PlanPrediction& p) {
  const auto share = [](const PlanPrediction& of, Ns part) {
    return static_cast<double>(part) / static_cast<double>(std::max<Ns>(1, of.step));
  };
  const std::vector<std::pair<std::string_view, double>> parts{
      {"the bubble", share(p, p.bubble) - share(best, best.bubble)},
      {"communication inside layers", share(p, p.exposed_groups) - share(best, best.exposed_groups)},
      {"sends between stages", share(p, p.exposed_stages) - share(best, best.exposed_stages)},
      {"gradients and parameters", share(p, p.exposed_gradients) - share(best, best.exposed_gradients)}};
  const auto most =
      std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->second < 0.01)
    return p.plan.recompute == best.plan.recompute ? "smaller or less efficient work" : "recomputation";
  return std::string(most->first);
}

std::string losers(const PlanReport& r, const TextStyle& style) {
  std::vector<std::pair<std::string, std::size_t>> reasons;
  const auto count = [&](const std::string& why) {
    auto at = std::find_if(reasons.begin(), reasons.end(), [&](const auto& x) { return x.first == why; });
    if (at == reasons.end()) at = reasons.insert(at, {why, 0});
    ++at->second;
  };
  for (std::size_t i = 1; i < r.plans.size(); ++i) count("slower: " + why_slower(r.plans.front(), r.plans[i]));
  for (const PlanPrediction& p : r.declined) count(p.declined);
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out = fmt::format("\n  {} plans tried; why the others lose:\n", r.tried);
  constexpr std::size_t kMostReasons = 8;
  for (std::size_t i = 0; i < std::min(kMostReasons, reasons.size()); ++i) {
    out += text_line(fmt::format("{}: {}", reasons[i].second, reasons[i].first), style, 4);
  }
  return out;
}

void write_plan(JsonWriter& json, const PlanPrediction& p) {
  json.begin_object().member("plan", p.text).member("workers", p.workers);
  if (!p.declined.empty()) {
    json.member("declined", p.declined).end_object();
    return;
  }
  json.member_ms("ms", p.step).member_ms("low_ms", p.low).member_ms("high_ms", p.high);
  json.member("peak_bytes", p.peak_bytes).member("fits", p.fits).member_ms("bubble_ms", p.bubble);
  json.member_ms("exposed_comm_ms", p.exposed_communication)
      .member("mfu", p.mfu)
      .member("tokens_per_s", p.tokens_per_s);
  json.member("samples_per_s", p.samples_per_s).member("global_batch", p.global_batch).member("tokens", p.tokens);
  json.member("microbatches", p.microbatches).member("usd_per_million_tokens", p.usd_per_million_tokens);
  json.key("exposed").begin_object().member_ms("groups_ms", p.exposed_groups);
  json.member_ms("stages_ms", p.exposed_stages).member_ms("gradients_ms", p.exposed_gradients).end_object();
  json.key("ranks").begin_array();
  for (const plan::PlanRank& k : p.ranks) {
    json.begin_object().member("stages", k.stages).member("blocks", k.blocks).member_ms("busy_ms", k.busy);
    json.member_ms("bubble_ms", k.bubble).member_ms("gradients_ms", k.gradients).member_ms("update_ms", k.update);
    json.member("in_flight", k.in_flight).member("states_bytes", k.states_bytes);
    json.member("activation_bytes", k.activation_bytes).member("peak_bytes", k.peak_bytes).end_object();
  }
  json.end_array();
  json.objects("actions", p.actions, [&](const plan::PlanAction& a) {
    const auto rank = static_cast<std::size_t>(a.rank);
    json.member("rank", a.rank).member("stage", p.ranks[rank].stages[static_cast<std::size_t>(a.chunk)]);
    json.member("kind", std::string(1, a.kind)).member("microbatch", a.microbatch).member("chunk", a.chunk);
    json.member_ms("begin_ms", a.start).member_ms("end_ms", a.end);
  });
  json.member("origin", p.origin).member("not_modelled", p.not_modelled).end_object();
}

}  // namespace

std::string to_text(const PlanReport& r, const TextStyle& style) {
  constexpr std::size_t kMostPlans = 10;
  const bool search = r.verb == "plan";
  std::string out = head(r, style) + table_of(r, search ? kMostPlans : r.plans.size(), style);
  if (!r.plans.empty()) out += details(r.plans.front(), style);
  if (!r.plans.empty() && r.tokens_wanted && r.plans.front().tokens_per_s) {
    out += text_line(fmt::format("{:g} tokens take {:.1f} days", *r.tokens_wanted,
                                 *r.tokens_wanted / *r.plans.front().tokens_per_s / 86400),
                     style, 2);
  }
  if (search) return out + losers(r, style);
  for (const PlanPrediction& p : r.declined) {
    out += paragraph(fmt::format("{}: declined. {}", name_of(p), p.declined), style);
  }
  std::vector<const std::vector<std::string>*> notes;
  for (const PlanPrediction& p : r.plans) notes.push_back(&p.not_modelled);
  return out + not_modelled_text(notes, style);
}

std::string to_json(const PlanReport& r) {
  const plan::Planner::Figures& f = r.figures;
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("schema", 1).member("verb", r.verb).member("file", f.file).member("step", f.step_name);
  json.member("device", f.device).member("network", f.network).member("gpus_per_node", f.gpus_per_node);
  json.member("memory_gb", f.memory_gb > 0 ? std::optional(f.memory_gb) : std::nullopt);
  json.member("layers", f.layers).member("traced_layers", f.traced_layers);
  json.key("baseline").begin_object().member_ms("unprofiled_ms", f.unprofiled).member_ms("measured_ms", f.measured);
  json.member("samples", f.samples).member("tokens", f.tokens).end_object();
  const bool search = r.verb == "plan";
  json.key(search ? "plans" : "predictions").begin_array();
  for (const PlanPrediction& p : r.plans) write_plan(json, p);
  if (!search) {
    for (const PlanPrediction& p : r.declined) write_plan(json, p);
  }
  json.end_array();
  if (search) {
    json.member("gpus", r.gpus).member("tried", r.tried).key("declined").begin_array();
    for (const PlanPrediction& p : r.declined) {
      json.begin_object().member("plan", p.text).member("why", p.declined).end_object();
    }
    json.end_array();
  }
  json.end_object();
  return out + "\n";
}

}  // namespace foretrace::report
