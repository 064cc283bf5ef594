#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "cli/evaluator.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/report/optimize.hpp"

namespace foretrace::cli {
namespace {

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    return tl::unexpected<Error>(Error{ErrorCode::kUsage, "cannot be written", path, Error::kNoOffset, {}});
  }
  return {};
}

Result<std::vector<std::string>> names_of(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    FORETRACE_TRY(const whatif::WhatIf* const whatif, whatif::find_whatif(one));
    names.push_back(whatif->name);
    text.remove_prefix(std::min(text.size(), one.size() + 1));
  }
  return names;
}

Result<std::vector<double>> sizes_of(std::string_view text) {
  std::vector<double> sizes;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    double mb = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), mb);
    if (error != std::errc() || end != one.data() + one.size() || !(mb > 0)) {
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not a size of buckets in MiB", one), "--bucket-mb 1,5,25");
    }
    sizes.push_back(mb);
    text.remove_prefix(std::min(text.size(), one.size() + 1));
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// Several workers, where asked for: PyTorch's DistributedDataParallel as it comes.
Result<std::optional<search::Communication>> communication_of(const Values& v) {
  const std::int64_t workers = v.integer("workers").value_or(1);
  const bool network = v.text("fabric") || v.text("collectives");
  if (workers < 2) {
    if (network) return fail(ErrorCode::kUsage, "a network between how many?", "--workers N");
    return std::nullopt;
  }
  if (!network) {
    return fail(ErrorCode::kUsage, "which network? neither --fabric nor --collectives is given",
                "`foretrace list fabrics` shows the names");
  }
  search::Communication c;
  c.workers = static_cast<int>(std::min<std::int64_t>(workers, 16384));
  c.fabric = v.text("fabric").value_or("");
  c.collectives = v.text("collectives").value_or("");
  c.collectives_tag = v.text("collectives-tag").value_or("");
  c.gpus_per_node = static_cast<int>(std::clamp<std::int64_t>(v.integer("gpus-per-node").value_or(0), 0, 16384));
  c.first_bucket_mb = 1;  // PyTorch's own, as long as bucket_cap_mb is not given
  return c;
}

Result<Answer> run_optimize(const Request& request) {
  const Values& v = request.values;
  search::OptimizeOptions options;
  FORETRACE_TRY(options.only, names_of(v.text("only").value_or("")));  // a wrong name is said before a long import
  FORETRACE_TRY(options.communication, communication_of(v));
  FORETRACE_TRY(options.bucket_sizes, sizes_of(v.text("bucket-mb").value_or("")));
  FORETRACE_TRY(const trace::Trace trace, load_one(v.argument("TRACE"), request));
  FORETRACE_TRY(report::Baseline baseline, report::make_baseline(trace, v.integer("step"), v.number("measured-ms")));
  if (const auto gb = v.number("memory-gb")) options.memory_limit = static_cast<std::int64_t>(*gb * 1e9);
  if (const auto n = v.integer("budget-evals")) options.evaluations = static_cast<std::size_t>(*n);
  if (const auto s = v.number("budget-s")) {
    options.seconds = *s;
    if (!v.integer("budget-evals")) options.evaluations = SIZE_MAX;
  }
  if (const auto seed = v.integer("seed")) options.seed = static_cast<std::uint64_t>(*seed);
  options.threads = request.load.threads;
  if (v.text("ray")) {
    if (!other_evaluator()) {
      return fail(ErrorCode::kUsage, "--ray is served by the Python command",
                  "pip install 'foretrace[ray]', then: python3 -m foretrace optimize … --ray ADDRESS");
    }
    options.evaluate = other_evaluator()(trace.path, v.integer("step"), v.number("measured-ms"));
  }
  if (request.load.progress) {
    options.progress = [&](const search::SearchProgress& p) {
      const std::uint64_t total = options.evaluations == SIZE_MAX ? 0 : options.evaluations;
      request.load.progress(fmt::format("{:.2f} ms: {}", to_ms(p.step), p.strategy), p.evaluations, total);
    };
  }
  FORETRACE_TRY(search::Optimized found, search::optimize(baseline.model, baseline.report.measured, options));
  const report::OptimizeReport result{baseline.report, std::move(found)};
  if (const auto path = v.text("strategy-out")) {
    FORETRACE_TRY_VOID(write_file(*path, report::strategy_json(result.found.best)));
  }
  if (const auto path = v.text("code-out")) {
    FORETRACE_TRY_VOID(write_file(*path, report::pytorch_script(result)));
  }
  return Answer{request.json ? to_json(result) : to_text(result, request.style), kDone};
}

}  // namespace

MakeEvaluate& other_evaluator() {
  static MakeEvaluate make;
  return make;
}

const Verb& optimize_verb() {
  static const Verb kVerb{
      .name = "optimize",
      .about = "search for the best strategy",
      .details =
          "Tries changes of the step alone and together, guided by its critical path, within the memory there is; "
          "prints what "
          "each part of the best strategy found contributes. The same trace, options, seed and budget in evaluations "
          "give the "
          "same answer on any number of threads; a budget in seconds does not.",
      .arguments = {{"TRACE",
                     "a trace file, a folder of ranks (the lowest, or --rank), or - for standard input",
                     1,
                     Argument::kAny,
                     {}}},
      .options =
          {{"memory-gb",
            0,
            ValueType::kNumber,
            "M",
            "the GPU's memory",
            "no strategy whose peak is above M GB",
            {},
            0.0},
           {"workers", 'w', ValueType::kInteger, "N", "1", "as many workers, each with the traced step", {}, 1.0},
           {"fabric", 'f', ValueType::kText, "NAME|FILE", "", "the network between them (`list fabrics`)", {}, {}},
           {"collectives", 0, ValueType::kFile, "FILE", "", "measured collectives instead of a fabric", {}, {}},
           {"collectives-tag", 0, ValueType::kText, "TAG", "", "which rows of that file", {}, {}},
           {"gpus-per-node", 0, ValueType::kInteger, "K", "the fabric's", "GPUs that share a node", {}, 1.0},
           {"bucket-mb", 0, ValueType::kText, "A,B,…", "any", "the only sizes of buckets to choose from, MiB", {}, {}},
           {"budget-evals", 0, ValueType::kInteger, "N", "1000", "strategies predicted at most", {}, 1.0},
           {"budget-s", 0, ValueType::kNumber, "S", "", "seconds at most", {}, 0.0},
           {"seed", 0, ValueType::kInteger, "K", "1", "of what is left to chance", {}, 0.0},
           {"only", 0, ValueType::kText, "NAMES", "all", "what-ifs that may be used, separated by commas", {}, {}},
           {"strategy-out", 0, ValueType::kFile, "FILE", "", "write the strategy, for whatif --strategy", {}, {}},
           {"code-out", 0, ValueType::kFile, "FILE", "", "write a PyTorch script that switches it on", {}, {}},
           {"ray", 0, ValueType::kText, "ADDRESS", "", "predict on a Ray cluster; local: start one here", {}, {}},
           {"measured-ms",
            'm',
            ValueType::kNumber,
            "X",
            "what the recorder stored, else a prior",
            "the step's time without the profiler",
            {},
            0.0}},
      .examples = {{"foretrace optimize trace.json.gz", "the best found for this GPU"},
                   {"foretrace optimize trace.json.gz --memory-gb 12 --strategy-out best.json --code-out best.py",
                    "within 12 GB; the strategy and the code to switch it on"},
                   {"foretrace optimize trace.json.gz --workers 16 --fabric 10GbE", "data parallel on sixteen GPUs"}},
      .reads_traces = true,
      .picks_step = true,
      .run = run_optimize};
  return kVerb;
}

}  // namespace foretrace::cli
