#include <fmt/format.h>

#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "base/install_hint.hpp"
#include "base/text.hpp"
#include "cli/inputs.hpp"
#include "cli/plans.hpp"
#include "cli/verbs.hpp"
#include "report/plan.hpp"
#include "report/plan_reader.hpp"
#include "report/plan_settings.hpp"
#include "search/communication.hpp"

namespace foretrace::cli {

Result<plan::PlanOptions> plan_options(const Values& values) {
  FORETRACE_TRY(const search::Communication asked, network_asked(values, 1));
  plan::PlanOptions o;
  o.network = {asked.fabric, asked.collectives, asked.collectives_tag, asked.gpus_per_node};
  if (const auto layers = values.integer("layers")) o.layers = static_cast<int>(*layers);
  o.samples = values.number("batch");
  o.global_batch = values.number("global-batch");
  o.memory_gb = values.number("memory-gb");
  o.gpu = values.text("gpu").value_or("");
  o.usd_per_hour = values.number("usd-per-hour");
  if (!o.gpu.empty()) {
    FORETRACE_TRY_VOID(hardware::device_or_file(o.gpu));
  }
  return o;
}

namespace {

// The report, a page of it, or the best plan as settings of the trainer that --plan-out names.
Result<Answer> answer_of(const Request& request, const plan::PlanReport& r) {
  const int code = r.plans.empty() ? kDeclined : kDone;
  const std::optional<std::string> trainer = request.values.text("plan-out");
  if (trainer && !r.plans.empty()) {
    FORETRACE_TRY(std::string settings, report::settings_for(*trainer, r.plans.front(), r.figures));
    return Answer{std::move(settings), code};
  }
  const bool page = !request.json && request.values.text("output").value_or("").ends_with(".html");
  if (page) return Answer{report::to_page(r), code};
  return Answer{request.json ? report::to_json(r) : report::to_text(r, request.style), code};
}

}  // namespace

Result<Answer> answer_plans(const Request& request, const std::vector<std::string>& texts) {
  std::vector<plan::Plan> plans;
  for (const std::string& text : texts) {
    FORETRACE_TRY(plan::Plan p, plan::parse_plan(text));
    plans.push_back(std::move(p));
  }
  FORETRACE_TRY(plan::PlanOptions options, plan_options(request.values));
  FORETRACE_TRY(options.changes, analysis::parse_uses(request.values.argument("WHATIF")));
  FORETRACE_TRY(const OpenBaseline open, open_baseline(request, request.values.argument("TRACE")));
  if (open.baseline.figures.job) return asks_one_rank("a plan starts from one GPU");
  FORETRACE_TRY(plan::Planner planner, plan::Planner::make(open.baseline, options));
  plan::PlanReport r;
  r.verb = "scale";
  r.figures = planner.figures();
  constexpr std::size_t kMostDrawn = 16;  // passes of all of many plans would take more room than everything else
  const auto actions = plans.size() <= kMostDrawn ? plan::Planner::Actions::kKept : plan::Planner::Actions::kDropped;
  for (const plan::Plan& p : plans) {
    plan::PlanPrediction made = planner.predict(p, actions);
    (made.declined.empty() ? r.plans : r.declined).push_back(std::move(made));
  }
  r.tried = plans.size();
  return answer_of(request, r);
}

std::vector<Option> plan_model_options() {
  using enum ValueType;
  return {
      option(kInteger, "layers", "L", "as many as the trace has", "blocks of the real model").at_least(1).at_most(4096),
      batch_option(),
      option(kNumber, "global-batch", "B", "the trace's on every replica", "samples in a step of the whole job")
          .at_least(1),
      option(kText, "gpu", "NAME|FILE", "the trace's", "another GPU").suggesting(device_names()),
      memory_option(),
      option(kNumber, "usd-per-hour", "X", "the GPU's usual price", "of one GPU").at_least(0),
      option(kText, "plan-out", "TRAINER", "", "the best plan as this trainer's settings instead of the answer")
          .one_of(report::trainers()),
      output_option("standard output", "where to write; a name that ends in .html gets a page with pictures"),
  };
}

namespace {

constexpr std::int64_t kGpusOfANode = 8;

// The options that predictions rest on, as `scale --plan` takes them.
std::vector<std::string> words_of(const Values& values) {
  const std::set<std::string_view> of_the_search{"gpus",  "json",   "max-memory", "output",  "plan-out",
                                                 "quiet", "plugin", "ray",        "threads", "tokens"};
  std::vector<std::string> words;
  for (const Option& o : all_options(plan_verb())) {
    if (of_the_search.contains(o.name)) continue;
    for (const std::string& value : values.all(o.name)) {
      words.push_back(o.type == ValueType::kFlag ? "--" + o.name : fmt::format("--{}={}", o.name, value));
    }
  }
  return words;
}

// Commands of other processes, one for all plans that have one GPU's share in common: what it does is predicted once for them.
Result<plan::PredictAll> ray_predictions(const Request& request, const std::string& trace) {
  if (!request.extensions.answer_all) {
    return served_by_python(
        "--ray",
        fmt::format("{}, and `pip install ray`, then: python3 -m foretrace plan … --ray ADDRESS", kInstallModule));
  }
  return plan::PredictAll(
      [&request, trace](const std::vector<plan::Plan>& plans) -> Result<std::vector<plan::PlanPrediction>> {
        std::map<std::tuple<int, int, int>, std::vector<std::string>> commands;
        for (const plan::Plan& p : plans) {
          std::vector<std::string>& words = commands[{p.tp, p.cp, p.ep}];
          if (words.empty()) {
            words = {"scale", trace, "--json", "--quiet"};
            for (std::string& word : words_of(request.values)) words.push_back(std::move(word));
          }
          const std::string text = plan::to_text(p);
          words.push_back("--plan=" + (text.empty() ? "dp=1" : text));
        }
        std::vector<std::vector<std::string>> all;
        for (auto& [share, words] : commands) all.push_back(std::move(words));
        std::vector<plan::PlanPrediction> out;
        for (const std::string& answer : request.extensions.answer_all(all)) {
          FORETRACE_TRY(std::vector<plan::PlanPrediction> some, report::read_plans(answer));
          out.insert(out.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
        }
        return out;
      });
}

Result<Answer> run_plan(const Request& request) {
  const Values& values = request.values;
  plan::SearchOptions search{.gpus = values.integer("gpus").value_or(kGpusOfANode), .progress = request.load.progress};
  if (search.gpus > whatif::kMostWorkers) {
    return fail(ErrorCode::kUsage,
                fmt::format("{} GPUs are more than the limit of {}", search.gpus, whatif::kMostWorkers));
  }
  FORETRACE_TRY(const plan::PlanOptions options, plan_options(values));
  FORETRACE_TRY(const OpenBaseline open, open_baseline(request, values.argument("TRACE")));
  if (open.baseline.figures.job) return asks_one_rank("a plan starts from one GPU");
  FORETRACE_TRY(plan::Planner planner, plan::Planner::make(open.baseline, options));
  if (values.text("ray")) {
    FORETRACE_TRY(search.predict_all, ray_predictions(request, open.trace().path));
  }
  FORETRACE_TRY(plan::PlanReport r, plan::search_plans(planner, search));
  r.tokens_wanted = values.number("tokens");
  return answer_of(request, r);
}

}  // namespace

Verb plan_verb() {
  using enum ValueType;
  return {
      .name = "plan",
      .about = "how to train on many GPUs: the fastest plan that fits",
      .details =
          "Tries tensor, pipeline, context, expert and data parallel with schedules, recomputation, micro-batches "
          "and ZeRO stages "
          "on a job of N GPUs, from the step of one. `scale --plan` predicts one of them.",
      .arguments = {{"TRACE", "a trace file of one GPU, or - for standard input"}},
      .options =
          std::vector<Option>{
              option(kInteger, "gpus", "N", fmt::format("{}", kGpusOfANode), "GPUs of the job").at_least(1)} +
          network_options() + plan_model_options() +
          std::vector<Option>{option(kNumber, "tokens", "N", "", "training ends after this many tokens").at_least(1),
                              ray_option("predict the plans")},
      .examples = {{"foretrace plan trace.json.gz --gpus 512 --fabric DGX-H100 --layers 80 --global-batch 1024",
                    "the real model has 80 blocks"},
                   {"foretrace plan trace.json.gz --gpus 64 --fabric DGX-H100 --memory-gb 40 --tokens 1e12",
                    "with less memory, and days to a trillion tokens"}},
      .shares = kPrediction,
      .run = run_plan};
}

}  // namespace foretrace::cli
