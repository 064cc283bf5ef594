#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/readable.hpp"
#include "base/statistics.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_writer.hpp"
#include "report/text_table.hpp"

namespace foretrace::report {
namespace {

using ranks::PipelineAnswers;
using ranks::PipelineJob;

// The median step by length; of an even count the lower one.
const PipelineAnswers::Step& median(const PipelineAnswers& a) {
  std::vector<const PipelineAnswers::Step*> order;
  for (const auto& s : a.steps) order.push_back(&s);
  std::stable_sort(order.begin(), order.end(), [](const auto* x, const auto* y) { return x->traced < y->traced; });
  return *order[(order.size() - 1) / 2];
}

// Groups that cost a hundredth of the step or more; below that workers differ by chance.
constexpr double kNotable = 1.01;

std::string share_table(std::string_view title, const std::vector<PipelineAnswers::Share>& shares,
                        const TextStyle& style) {
  TextTable table({{std::string(title), Align::kLeft, true}, {"slowdown"}}, 0);
  constexpr std::size_t kMostRows = 8;
  for (std::size_t i = 0; i < std::min(shares.size(), kMostRows); ++i) {
    table.row({"  " + shares[i].name, fmt::format("{:.3f}", shares[i].slowdown)});
  }
  if (shares.size() > kMostRows) table.note(fmt::format("  and {} more", shares.size() - kMostRows));
  return "\n" + table.render(style);
}

// Of one step where it is given, else of all together.
void write_shares(JsonWriter& json, std::string_view key, const std::vector<PipelineAnswers::Share>& shares,
                  std::optional<std::size_t> step = std::nullopt) {
  json.key(key).begin_object();
  for (const auto& s : shares) {
    json.member(s.number >= 0 ? fmt::format("{}", s.number) : s.name, step ? s.per_step[*step] : s.slowdown);
  }
  json.end_object();
}

}  // namespace

std::string to_text(const PipelineJob& job, const PipelineAnswers& a, const TextStyle& style) {
  std::string out;
  const auto line = [&](const std::string& text) { out += text_line(text, style); };
  const ranks::LoggedKind kind = ranks::kind_of(job);
  if (!kind.parallel.empty()) line(fmt::format("{}: {}", kind.parallel, kind.text));
  line(fmt::format("pipeline of {} x {} ranks, {}, {} tasks simulated", plural(job.stages, "stage"), job.dp_size,
                   plural(a.steps.size(), "step"), format_count(a.tasks)));
  out += "\n";
  line(fmt::format("mean step: {:.3f} ms traced, {:.3f} ms replayed ({:+.2f}%), {:.3f} ms with typical operations",
                   a.traced_ms, a.replayed_ms, 100 * (a.replayed_ms / a.traced_ms - 1), a.ideal_ms));
  line(fmt::format("slowdown from stragglers {:.3f}; from delays that no operation explains {:.3f}", a.slowdown,
                   a.launch_slowdown));
  line(fmt::format("{:.1f} % of it comes from the slowest 3 % of the workers, {:.1f} % from the last stage",
                   100 * a.slow_workers, 100 * a.last_stage));
  out += share_table("Operation", a.by_type, style) + share_table("Stage", a.by_stage, style) +
         share_table("Data-parallel rank", a.by_dp, style);
  TextTable steps({{"Step", Align::kLeft}, {"traced ms"}, {"replayed"}, {"error"}, {"ideal"}, {"slowdown"}}, 0);
  constexpr std::size_t kMostRows = 10;
  std::vector<const PipelineAnswers::Step*> worst;
  for (const auto& s : a.steps) worst.push_back(&s);
  std::stable_sort(worst.begin(), worst.end(), [](const auto* x, const auto* y) { return x->replayed > y->replayed; });
  for (std::size_t i = 0; i < std::min(worst.size(), kMostRows); ++i) {
    const PipelineAnswers::Step& s = *worst[i];
    steps.row(
        {fmt::format("  {}", s.number), format_ms(s.traced), format_ms(s.replayed),
         fmt::format("{:+.2f}%", percent_off(s.replayed, s.traced)), format_ms(s.ideal),
         fmt::format("{:.3f}", s.ideal > 0 ? static_cast<double>(s.replayed) / static_cast<double>(s.ideal) : 1)});
  }
  if (worst.size() > kMostRows) steps.note(fmt::format("  and {} shorter ones", worst.size() - kMostRows));
  out += "\n" + steps.render(style);
  constexpr std::string_view kColumns =
      "slowdown: a job that is ideal except for this group, over the ideal job. ideal: every kind of operation takes "
      "its mean time, every kind of transfer its median.";
  out += "  " + wrap(kColumns, style.width, 2, 2) + "\n";
  if (!a.notes.empty()) out += "\nNotes\n";
  for (const std::string& n : a.notes) out += "  - " + wrap(printable(n), style.width, 4, 4) + "\n";
  return out;
}

std::string to_json(const PipelineJob& job, const PipelineAnswers& a) {
  std::string out;
  JsonWriter json(out);
  const PipelineAnswers::Step& typical = median(a);
  json.begin_object().member("schema", 1).member("verb", "ranks").member("format", "operations-csv");
  const ranks::LoggedKind kind = ranks::kind_of(job);
  json.member("parallel", kind.parallel).member("parallel_text", kind.text);
  json.member("micro_batches", kind.shape.micro_batches).member("chunks", kind.shape.chunks);
  json.member("schedule", to_string(kind.shape.schedule)).member("ranks_per_worker", kind.ranks_per_worker);
  json.member("dp_size", job.dp_size).member("stages", job.stages).member("step_number", typical.number);
  json.member_ms("traced_ms", typical.traced).member_ms("replayed_ms", typical.replayed);
  json.member("error_pct", percent_off(typical.replayed, typical.traced)).member_ms("ideal_ms", typical.ideal);
  json.member_ms("without_stragglers_ms", typical.ideal).member("tasks", a.tasks);
  json.objects("ranks", a.workers, [&](const PipelineAnswers::Worker& w) {
    json.member("rank", w.rank).member("dp_rank", w.dp).member("stage", w.stage).member("offset_ns", 0);
    json.member_ms("step_ms", w.step).member_ms("wait_ms", w.wait).member_ms("transfer_ms", w.transfer);
    json.member("slowdown", w.slowdown);
  });
  json.key("stragglers").begin_array();
  for (const std::int64_t i : a.slowest) {
    const PipelineAnswers::Worker& w = a.workers[static_cast<std::size_t>(i)];
    if (w.slowdown < kNotable) continue;
    json.begin_object().member("rank", w.rank).member("dp_rank", w.dp).member("stage", w.stage);
    json.member("cause", a.by_type.front().name).member("slowdown", w.slowdown);
    json.member("cost_ms", (w.slowdown - 1) * a.ideal_ms).end_object();
  }
  json.end_array().key("mean").begin_object().member("traced_ms", a.traced_ms).member("replayed_ms", a.replayed_ms);
  json.member("ideal_ms", a.ideal_ms).member("launch_slowdown", a.launch_slowdown).member("slowdown", a.slowdown);
  json.member("explained_by_slowest_workers", a.slow_workers)
      .member("explained_by_last_stage", a.last_stage)
      .end_object();
  json.key("slowdown_by").begin_object();
  write_shares(json, "dp_rank", a.by_dp);
  write_shares(json, "stage", a.by_stage);
  write_shares(json, "optype", a.by_type);
  json.end_object().key("steps").begin_array();
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const PipelineAnswers::Step& s = a.steps[i];
    json.begin_object().member("step", s.number).member_ms("traced_ms", s.traced);
    json.member_ms("replayed_ms", s.replayed).member_ms("ideal_ms", s.ideal);
    json.key("slowdown_by").begin_object();
    write_shares(json, "dp_rank", a.by_dp, i);
    write_shares(json, "stage", a.by_stage, i);
    write_shares(json, "optype", a.by_type, i);
    json.end_object().end_object();
  }
  json.end_array().member("notes", a.notes).key("not_modelled").begin_array();
  json.value("tensor-parallel peers, which the trace does not show").value("delays between operations").end_array();
  json.end_object();
  return out + "\n";
}

}  // namespace foretrace::report
