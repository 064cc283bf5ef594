#include <fmt/format.h>

#include <algorithm>

#include "base/decimal.hpp"
#include "base/install_hint.hpp"
#include "cli/inputs.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/report/report.hpp"
#include "report/inference_script.hpp"
#include "whatif/model/fitting.hpp"

namespace foretrace::cli {
namespace {

Result<std::vector<std::string>> known_whatifs(const std::vector<std::string>& entries) {
  std::vector<std::string> names;
  for (const std::string& one : entries) {
    FORETRACE_TRY(const whatif::WhatIf* const whatif, whatif::find_whatif(one));
    names.push_back(whatif->name);
  }
  return names;
}

Result<std::vector<double>> bucket_sizes(const std::vector<std::string>& entries) {
  std::vector<double> sizes;
  for (const std::string& one : entries) {
    const double mb = parse_double(one).value_or(0);
    if (!(mb > 0)) {
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not a bucket size in MiB", one), "--bucket-mb 1,5,25");
    }
    sizes.push_back(mb);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// Several workers, where asked for: PyTorch's DistributedDataParallel with its defaults.
Result<std::optional<search::Communication>> communication(const Values& values) {
  const std::int64_t workers = values.integer("workers").value_or(1);
  if (workers < 2) {
    if (names_network(values))
      return fail(ErrorCode::kUsage, "how many workers does the network connect?", "--workers N");
    return std::nullopt;
  }
  FORETRACE_TRY(const search::Communication c, network_asked(values, workers));
  return search::plain_communication(c);
}

// Predicts on a Ray cluster. Its workers load the trace themselves and know the file, the step and the measured time only.
Result<search::Evaluate> ray_evaluator(const Request& request, const trace::Trace& trace) {
  const Values& values = request.values;
  if (!request.extensions.make_evaluate) {
    return served_by_python(
        "--ray",
        fmt::format("{}, and `pip install ray`, then: python3 -m foretrace optimize … --ray ADDRESS", kInstallModule));
  }
  for (const auto& [other, given] :
       {std::pair("--host", values.text("host").has_value()), std::pair("--steps-by", !trace.steps_by.empty())}) {
    if (given) {
      return fail(ErrorCode::kUsage, fmt::format("--ray cannot be combined with {}", other), "leave one of them out");
    }
  }
  return request.extensions.make_evaluate(trace.path, values.integer("step"), values.number("measured-ms"));
}

Result<Answer> run_optimize(const Request& request) {
  const Values& v = request.values;
  search::OptimizeOptions options;
  FORETRACE_TRY(const std::vector<std::string> only, entries_of(v, "only"));
  FORETRACE_TRY(const std::vector<std::string> sizes, entries_of(v, "bucket-mb"));
  FORETRACE_TRY(options.only, known_whatifs(only));
  FORETRACE_TRY(options.communication, communication(v));
  FORETRACE_TRY(options.bucket_sizes, bucket_sizes(sizes));
  FORETRACE_TRY(const OpenBaseline open, open_baseline(request, request.values.argument("TRACE")));
  FORETRACE_TRY_VOID(can_write_code(v, open.baseline));
  options.memory_limit = memory_limit(v);
  if (const auto n = v.integer("budget-evals")) options.evaluations = static_cast<std::size_t>(*n);
  if (const auto s = v.number("budget-s")) {
    options.seconds = *s;
    if (!v.integer("budget-evals")) options.evaluations = SIZE_MAX;
  }
  if (const auto seed = v.integer("seed")) options.seed = static_cast<std::uint64_t>(*seed);
  options.threads = request.load.threads;
  if (v.text("ray") && open.baseline.figures.job) return asks_one_rank("--ray searches the step of one rank");
  if (options.communication && open.baseline.figures.job) {
    return asks_one_rank("--workers copies the step of one rank");
  }
  if (v.text("ray")) {
    FORETRACE_TRY(options.evaluate, ray_evaluator(request, open.trace()));
  }
  if (request.load.progress) {
    options.progress = [&](const search::SearchProgress& p) {
      const std::uint64_t total = options.evaluations == SIZE_MAX ? 0 : options.evaluations;
      request.load.progress(fmt::format("{:.2f} ms: {}", to_ms(p.step), p.strategy), p.evaluations, total,
                            "strategies");
    };
  }
  FORETRACE_TRY(search::Optimized found, search::optimize(open.baseline, options));
  const report::OptimizeReport result{open.baseline.figures, std::move(found)};
  if (const auto path = v.text("strategy-out")) {
    FORETRACE_TRY_VOID(write_output(path, nullptr, report::strategy_json(result.found.best)));
  }
  if (const auto path = v.text("code-out")) {
    FORETRACE_TRY_VOID(write_output(path, nullptr, report::script_for(whatif::nature_of(open.baseline.model), result)));
  }
  return Answer{request.json ? to_json(result) : to_text(result, request.style)};
}

std::vector<Option> search_options() {
  using enum ValueType;
  return std::vector<Option>{memory_option(),
                             option(kInteger, "workers", "N", "1", "this many workers, each with the traced step")
                                 .letter_is('w')
                                 .at_least(1)} +
         network_options() +
         std::vector<Option>{option(kText, "bucket-mb", "A,B,…", "any", "the only bucket sizes to choose from, MiB"),
                             option(kInteger, "budget-evals", "N", "1000", "strategies to predict at most").at_least(1),
                             option(kNumber, "budget-s", "S", "", "seconds to search at most").at_least(0.001),
                             option(kInteger, "seed", "K", "1", "of the random choices").at_least(0),
                             option(kText, "only", "NAMES", "all", "what-ifs that may be used, separated by commas")
                                 .suggesting(whatif_names()),
                             option(kFile, "strategy-out", "FILE", "", "write the strategy, for whatif --strategy"),
                             code_option(),
                             ray_option("predict")};
}

}  // namespace

Verb optimize_verb() {
  return {
      .name = "optimize",
      .about = "search for the best strategy",
      .details =
          "Tries changes of the step alone and together, guided by its critical path, within the available memory, and "
          "prints what each part of the best strategy contributes. The same trace, options, seed and budget in "
          "evaluations give the same answer on any number of threads; a budget in seconds does not.",
      .arguments = {{"TRACE", "a trace file, a folder with one file per rank, or - for standard input", 1,
                     Argument::kAny}},
      .options = search_options(),
      .examples = {{"foretrace optimize trace.json.gz", "the best strategy found for this GPU"},
                   {"foretrace optimize trace.json.gz --memory-gb 12 --strategy-out best.json --code-out best.py",
                    "within 12 GB; the strategy and the code that applies it"},
                   {"foretrace optimize trace.json.gz --workers 16 --fabric 10GbE", "data parallel on sixteen GPUs"}},
      .shares = kPrediction,
      .run = run_optimize};
}

}  // namespace foretrace::cli
