#include <fmt/format.h>

#include "base/decimal.hpp"
#include "base/text.hpp"
#include "cli/network.hpp"
#include "cli/told.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "report/scale.hpp"
#include "search/communication.hpp"

namespace foretrace::cli {
namespace {

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

Result<Answer> run_scale(const Request& request) {
  FORETRACE_TRY(const std::vector<int> workers, parse_workers(request.values.text("workers").value_or("2,4,8,16")));
  FORETRACE_TRY(const whatif::Parallelism how, whatif::make_parallelism(choice_of(request.values)));
  FORETRACE_TRY(const search::Communication asked, network_asked(request.values, 1));
  for (const int n : workers) {
    FORETRACE_TRY_VOID(whatif::check_nodes(n, asked.gpus_per_node));
  }
  FORETRACE_TRY_VOID(search::network_of(asked, {}));  // a wrong name is said before a long import
  FORETRACE_TRY(const host::UserMeasurements known, told(request.values));
  std::vector<whatif::Use> changes;
  for (const std::string& text : request.values.argument("WHATIF")) {
    FORETRACE_TRY(whatif::Use use, whatif::parse_use(text));
    changes.push_back(std::move(use));
  }
  FORETRACE_TRY(const trace::Trace trace, load_one(request.values.argument("TRACE"), request));
  FORETRACE_TRY(const analysis::Baseline baseline,
                analysis::make_baseline(trace, request.values.integer("step"), known));
  FORETRACE_TRY(const whatif::Network network, search::network_of(asked, baseline.model.device));
  const analysis::ScaleReport r =
      analysis::scale_report(baseline, how, network.collectives, network.gpus_per_node, workers, changes);
  return Answer{request.json ? report::to_json(r) : report::to_text(r, request.style),
                r.predictions.empty() ? kDeclined : kDone};
}

std::vector<Option> scheme_options() {
  return {
      {"parallel", 0, ValueType::kText, "SCHEME", "ddp", "how workers share the work", whatif::scheme_names()},
      {"bucket-mb", 0, ValueType::kNumber, "X", "25, the first 1", "gradients reduced at once, MiB", {}, 0.001},
      {"compress",
       0,
       ValueType::kText,
       "METHOD",
       "none",
       "gradient compression",
       {"none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"}},
      {"servers",
       0,
       ValueType::kInteger,
       "M",
       "0",
       "ps, p3: servers on machines of their own; 0: one beside each worker",
       {},
       0.0},
      {"slice-mb",
       0,
       ValueType::kNumber,
       "X",
       "p3: 4, else whole buckets",
       "ps, p3, blueconnect: what is sent at once, MiB",
       {},
       0.001},
      {"cycle-ms", 0, ValueType::kNumber, "X", "1", "horovod: how often its buffer is looked at", {}, 0.001},
      {"send-us", 0, ValueType::kNumber, "X", "25", "p3: CPU time of sending a slice", {}, 0.001},
      {"ring-steps", 0, ValueType::kFlag, "", "", "every step of a ring as a task of its own"},
      {"slow-worker", 0, ValueType::kNumber, "X", "1", "the slowest worker computes X times as long", {}, 0.001},
  };
}

}  // namespace

const Verb& scale_verb() {
  static const Verb kVerb{
      .name = "scale",
      .about = "the same step on N workers",
      .details =
          "Every worker does the traced step on its own data; gradients are reduced over the network. --collectives "
          "takes measured collectives (JSON lines, CSV, or what nccl-tests prints), which override the fabric's model. "
          "Further changes are made by every worker.",
      .arguments = {{"TRACE", "a trace file of one worker, or - for standard input", 1, 1},
                    {"WHATIF", "changes every worker makes", 0, Argument::kAny, {}, whatif_names()}},
      .options =
          std::vector<Option>{{"workers", 'w', ValueType::kText, "N,…", "2,4,8,16", "numbers of workers, 1 to 16384"}} +
          network_options() + scheme_options(),
      .examples = {{"foretrace scale trace.json.gz --workers 8,64,512 --fabric DGX-H100", "up to 64 nodes"},
                   {"foretrace scale trace.json.gz --workers 4 --collectives nccl.log -m 67.1", "measured collectives"},
                   {"foretrace scale trace.json.gz --workers 16 --fabric 25GbE --bucket-mb 100", "another bucket size"},
                   {"foretrace scale trace.json.gz --workers 16 --fabric 100GbE --parallel ps --servers 4",
                    "parameter servers"},
                   {"foretrace scale trace.json.gz amp --workers 16 --fabric 25GbE", "in mixed precision"}},
      .reads_traces = true,
      .picks_step = true,
      .calibrates = true,
      .takes_plugins = true,
      .run = run_scale};
  return kVerb;
}

}  // namespace foretrace::cli
