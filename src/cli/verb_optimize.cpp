#include <fmt/format.h>

#include <algorithm>

#include "base/decimal.hpp"
#include "cli/network.hpp"
#include "cli/output.hpp"
#include "cli/script_output.hpp"
#include "cli/told.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

Result<std::vector<std::string>> names_of(const std::vector<std::string>& entries) {
  std::vector<std::string> names;
  for (const std::string& one : entries) {
    FORETRACE_TRY(const whatif::WhatIf* const whatif, whatif::find_whatif(one));
    names.push_back(whatif->name);
  }
  return names;
}

Result<std::vector<double>> sizes_of(const std::vector<std::string>& entries) {
  std::vector<double> sizes;
  for (const std::string& one : entries) {
    const double mb = parse_double(one).value_or(0);
    if (!(mb > 0)) {
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not a size of buckets in MiB", one), "--bucket-mb 1,5,25");
    }
    sizes.push_back(mb);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// Several workers, where asked for: PyTorch's DistributedDataParallel as it comes.
Result<std::optional<search::Communication>> communication_of(const Values& v) {
  const std::int64_t workers = v.integer("workers").value_or(1);
  if (workers < 2) {
    if (names_network(v)) return fail(ErrorCode::kUsage, "a network between how many?", "--workers N");
    return std::nullopt;
  }
  FORETRACE_TRY(const search::Communication c, network_asked(v, workers));
  return search::plain_communication(c);
}

Result<Answer> run_optimize(const Request& request) {
  const Values& v = request.values;
  search::OptimizeOptions options;
  FORETRACE_TRY(const std::vector<std::string> only, entries_of(v, "only"));
  FORETRACE_TRY(const std::vector<std::string> sizes, entries_of(v, "bucket-mb"));
  FORETRACE_TRY(options.only, names_of(only));  // a wrong name is said before a long import
  FORETRACE_TRY(options.communication, communication_of(v));
  FORETRACE_TRY(options.bucket_sizes, sizes_of(sizes));
  FORETRACE_TRY(const host::UserMeasurements known, told(v));
  FORETRACE_TRY(const trace::Trace trace, load_one(v.argument("TRACE"), request));
  FORETRACE_TRY(const analysis::Baseline baseline, analysis::make_baseline(trace, v.integer("step"), known));
  FORETRACE_TRY_VOID(can_write_code(request, baseline));
  if (const auto gb = v.number("memory-gb")) options.memory_limit = static_cast<std::int64_t>(*gb * 1e9);
  if (const auto n = v.integer("budget-evals")) options.evaluations = static_cast<std::size_t>(*n);
  if (const auto s = v.number("budget-s")) {
    options.seconds = *s;
    if (!v.integer("budget-evals")) options.evaluations = SIZE_MAX;
  }
  if (const auto seed = v.integer("seed")) options.seed = static_cast<std::uint64_t>(*seed);
  options.threads = request.load.threads;
  if (v.text("ray")) {
    if (!request.extensions.make_evaluate) {
      return fail(ErrorCode::kUsage, "--ray is served by the Python command",
                  "pip install 'foretrace[ray]', then: python3 -m foretrace optimize … --ray ADDRESS");
    }
    if (known.host) {
      return fail(ErrorCode::kUsage,
                  "the workers of a Ray cluster know nothing of a host's file: --ray goes without --host",
                  "leave one of them out");
    }
    if (!trace.steps_by.empty()) {
      return fail(ErrorCode::kUsage,
                  "the workers of a Ray cluster find the steps themselves: --ray goes without --steps-by",
                  "leave one of them out");
    }
    options.evaluate = request.extensions.make_evaluate(trace.path, v.integer("step"), v.number("measured-ms"));
  }
  if (request.load.progress) {
    options.progress = [&](const search::SearchProgress& p) {
      const std::uint64_t total = options.evaluations == SIZE_MAX ? 0 : options.evaluations;
      request.load.progress(fmt::format("{:.2f} ms: {}", to_ms(p.step), p.strategy), p.evaluations, total,
                            "strategies");
    };
  }
  FORETRACE_TRY(search::Optimized found, search::optimize(baseline, options));
  const report::OptimizeReport result{baseline.figures, std::move(found)};
  if (const auto path = v.text("strategy-out")) {
    FORETRACE_TRY_VOID(write_output(path, nullptr, report::strategy_json(result.found.best)));
  }
  if (const auto path = v.text("code-out")) {
    FORETRACE_TRY_VOID(write_output(path, nullptr, report::pytorch_script(result)));
  }
  return Answer{request.json ? to_json(result) : to_text(result, request.style), kDone};
}

std::vector<Option> search_options() {
  const std::vector<Option> workers{
      memory_option(),
      {"workers", 'w', ValueType::kInteger, "N", "1", "as many workers, each with the traced step", {}, 1.0},
  };
  const std::vector<Option> search{
      {"bucket-mb", 0, ValueType::kText, "A,B,…", "any", "the only sizes of buckets to choose from, MiB"},
      {"budget-evals", 0, ValueType::kInteger, "N", "1000", "strategies predicted at most", {}, 1.0},
      {"budget-s", 0, ValueType::kNumber, "S", "", "seconds at most", {}, 0.001},
      {"seed", 0, ValueType::kInteger, "K", "1", "of what is left to chance", {}, 0.0},
      {"only",
       0,
       ValueType::kText,
       "NAMES",
       "all",
       "what-ifs that may be used, separated by commas",
       {},
       {},
       whatif_names()},
      {"strategy-out", 0, ValueType::kFile, "FILE", "", "write the strategy, for whatif --strategy"},
      {"code-out", 0, ValueType::kFile, "FILE", "", "write a PyTorch script that switches it on"},
      {"ray", 0, ValueType::kText, "ADDRESS", "", "predict on a Ray cluster; local: start one here"},
  };
  return workers + network_options() + search;
}

}  // namespace

const Verb& optimize_verb() {
  static const Verb kVerb{
      .name = "optimize",
      .about = "search for the best strategy",
      .details =
          "Tries changes of the step alone and together, guided by its critical path, within the memory there is; "
          "prints what each part of the best strategy found contributes. The same trace, options, seed and budget in "
          "evaluations give the same answer on any number of threads; a budget in seconds does not.",
      .arguments = {{"TRACE", "a trace file, a folder of ranks (the lowest, or --rank), or - for standard input", 1,
                     Argument::kAny}},
      .options = search_options(),
      .examples = {{"foretrace optimize trace.json.gz", "the best found for this GPU"},
                   {"foretrace optimize trace.json.gz --memory-gb 12 --strategy-out best.json --code-out best.py",
                    "within 12 GB; the strategy and the code to switch it on"},
                   {"foretrace optimize trace.json.gz --workers 16 --fabric 10GbE", "data parallel on sixteen GPUs"}},
      .reads_traces = true,
      .picks_step = true,
      .calibrates = true,
      .takes_plugins = true,
      .run = run_optimize};
  return kVerb;
}

}  // namespace foretrace::cli
