#include <fmt/format.h>

#include "base/decimal.hpp"
#include "base/text.hpp"
#include "cli/inputs.hpp"
#include "cli/plans.hpp"
#include "cli/verbs.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "report/scale.hpp"
#include "search/communication.hpp"

namespace foretrace::cli {
namespace {

using whatif::kMostWorkers;

Result<std::vector<int>> parse_workers(std::string_view text) {
  std::vector<int> workers;
  for (const std::string_view one : split(text, ',')) {
    const std::int64_t n = parse_int64(one).value_or(0);
    if (n < 1 || n > kMostWorkers) {
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not a number of workers", one),
                  fmt::format("--workers takes whole numbers from 1 to {}, separated by commas: --workers 2,4,8",
                              kMostWorkers));
    }
    workers.push_back(static_cast<int>(n));
  }
  return workers;
}

whatif::ParallelChoice choice_of(const Values& values) {
  whatif::ParallelChoice c;
  c.parallel = values.text("parallel").value_or(c.parallel);
  c.compress = values.text("compress").value_or(c.compress);
  c.bucket_mb = values.number("bucket-mb");
  c.slice_mb = values.number("slice-mb");
  c.slow_worker = values.number("slow-worker");
  c.cycle_ms = values.number("cycle-ms");
  c.send_us = values.number("send-us");
  c.servers = values.integer("servers");
  c.ring_steps = values.flag("ring-steps");
  return c;
}

// Options of only one of the two questions: refused with the other, where they would have no effect.
Status of_the_other(const Values& values, bool plans) {
  const std::vector<std::string_view> of_workers{"workers",  "parallel", "bucket-mb",   "compress", "servers",
                                                 "slice-mb", "cycle-ms", "slow-worker", "send-us"};
  const std::vector<std::string_view> of_plans{"layers",    "batch",        "global-batch", "gpu",
                                               "memory-gb", "usd-per-hour", "plan-out"};
  for (const std::string_view name : plans ? of_workers : of_plans) {
    if (!values.text(name)) continue;
    return plans ? fail(ErrorCode::kUsage, fmt::format("--{} has no effect on --plan", name),
                        "the plan says how GPUs share the work: tp=2,pp=4,dp=8")
                 : fail(ErrorCode::kUsage, fmt::format("--{} is of plans", name), "--plan tp=2,pp=4,dp=8 gives one");
  }
  return {};
}

Result<Answer> run_scale(const Request& request) {
  const Values& values = request.values;
  FORETRACE_TRY_VOID(of_the_other(values, !values.all("plan").empty()));
  if (!values.all("plan").empty()) return answer_plans(request, values.all("plan"));
  FORETRACE_TRY(const std::vector<int> workers, parse_workers(values.text("workers").value_or("2,4,8,16")));
  FORETRACE_TRY(const whatif::Parallelism how, whatif::make_parallelism(choice_of(values)));
  FORETRACE_TRY(const search::Communication asked, network_asked(values, 1));
  for (const int n : workers) {
    FORETRACE_TRY_VOID(whatif::check_nodes(n, asked.gpus_per_node));
  }
  FORETRACE_TRY_VOID(search::network_of(asked, {}));
  FORETRACE_TRY(const std::vector<whatif::Use> changes, analysis::parse_uses(values.argument("WHATIF")));
  FORETRACE_TRY(const OpenBaseline open, open_baseline(request, request.values.argument("TRACE")));
  if (open.baseline.figures.job) return asks_one_rank("`scale` copies the step of one rank");
  FORETRACE_TRY(const whatif::Network network, search::network_of(asked, open.baseline.model.device));
  const analysis::ScaleReport r =
      analysis::scale_report(open.baseline, how, network.collectives, network.gpus_per_node, workers, changes);
  return Answer{request.json ? report::to_json(r) : report::to_text(r, request.style),
                r.predictions.empty() ? kDeclined : kDone};
}

std::vector<Option> scheme_options() {
  using enum ValueType;
  return {
      option(kText, "parallel", "SCHEME", "ddp", "how the workers share the work").one_of(whatif::scheme_names()),
      option(kNumber, "bucket-mb", "X", "25, the first 1", "gradients reduced at once, MiB").at_least(0.001),
      option(kText, "compress", "METHOD", "none", "gradient compression").one_of(whatif::compression_names()),
      option(kInteger, "servers", "M", "0", "ps, p3: servers on separate machines; 0: one next to each worker")
          .at_least(0),
      option(kNumber, "slice-mb", "X", "p3: 4, else whole buckets", "ps, p3, blueconnect: amount sent at once, MiB")
          .at_least(0.001),
      option(kNumber, "cycle-ms", "X", "1", "horovod: how often its buffer is flushed").at_least(0.001),
      option(kNumber, "send-us", "X", "25", "p3: CPU time to send one slice").at_least(0.001),
      flag("ring-steps", "simulate every step of a ring as a separate task"),
      option(kNumber, "slow-worker", "X", "1", "the slowest worker computes X times as long").at_least(1),
  };
}

}  // namespace

Verb scale_verb() {
  return {
      .name = "scale",
      .about = "the same step on N workers",
      .details =
          "Every worker does the traced step on its own data; gradients are reduced over the network. --collectives "
          "takes "
          "measured collectives (JSON lines, CSV, or the output of nccl-tests) instead of the fabric's model. Further "
          "changes are made by every worker.",
      .arguments = {{"TRACE", "a trace file of one worker, or - for standard input"},
                    {"WHATIF", "changes every worker makes", 0, Argument::kAny, {}, whatif_names()}},
      .options =
          std::vector<Option>{
              option(ValueType::kText, "workers", "N,…", "2,4,8,16", "numbers of workers, 1 to 16384").letter_is('w'),
              option(ValueType::kText, "plan", "PLAN", "",
                     "tp=2,pp=4,dp=8,…: GPUs that divide the model; may be repeated")
                  .repeated()} +
          network_options() + scheme_options() + plan_model_options(),
      .examples = {{"foretrace scale trace.json.gz --workers 8,64,512 --fabric DGX-H100", "up to 64 nodes"},
                   {"foretrace scale trace.json.gz --workers 4 --collectives nccl.log -m 67.1", "measured collectives"},
                   {"foretrace scale trace.json.gz --workers 16 --fabric 25GbE --bucket-mb 100", "another bucket size"},
                   {"foretrace scale trace.json.gz --workers 16 --fabric 100GbE --parallel ps --servers 4",
                    "parameter servers"},
                   {"foretrace scale trace.json.gz amp --workers 16 --fabric 25GbE", "in mixed precision"}},
      .shares = kPrediction,
      .run = run_scale};
}

}  // namespace foretrace::cli
