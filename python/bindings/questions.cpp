// advise, optimize and scale of one step.

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "answers.hpp"
#include "bindings.hpp"
#include "foretrace/analysis/gpus.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "text_style.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

using analysis::Baseline;

nb::object advice_dict(search::Advice&& a) {
  nb::dict d;
  d["code"] = text_tuple(a.code);
  d["effort"] = to_str(to_string(a.effort));
  d["gain"] = a.gain;
  d["samples"] = a.prediction.samples;
  d["fits"] = a.fits;
  d["prediction"] = prediction_dict(std::move(a.prediction));
  return d;
}

nb::dict advise(const Baseline& base, std::optional<std::int64_t> memory_limit) {
  auto advised = [&] {
    nb::gil_scoped_release unlocked;
    return search::advise(base, {.memory_limit = memory_limit});
  }();
  const auto optional = [](std::optional<search::Advice>& a) { return a ? advice_dict(std::move(*a)) : nb::none(); };
  nb::dict d;
  nb::list alone;
  for (search::Advice& a : advised.alone) alone.append(advice_dict(std::move(a)));
  d["advice"] = alone;
  d["combined"] = optional(advised.together);
  d["larger_batch"] = optional(advised.larger_batch);
  d["memory_limit"] = or_none(advised.memory_limit);
  d["tried"] = advised.tried;
  return d;
}

void check_workers(int workers, int gpus_per_node) {
  const auto within = [](int value, int least) { return value >= least && value <= whatif::kMostWorkers; };
  if (!within(workers, 1)) {
    raise({.code = ErrorCode::kUsage,
           .message = fmt::format("the number of workers must be from 1 to {}", whatif::kMostWorkers)});
  }
  if (!within(gpus_per_node, 0)) {
    raise({.code = ErrorCode::kUsage,
           .message = fmt::format("gpus_per_node must be from 1 to {}", whatif::kMostWorkers)});
  }
  if (const Status full = whatif::check_nodes(workers, gpus_per_node); !full) raise(full.error());
}

nb::dict part_dict(const search::OptimizedPart& part) {
  nb::dict d;
  d["whatif"] = to_str(part.text);
  d["gain"] = part.gain;
  d["without"] = part.without;
  d["saved_bytes"] = or_none(part.saved_bytes);
  d["why"] = to_str(part.why);
  d["may_break"] = to_str(part.may_break);
  d["code"] = to_str(part.code);
  return d;
}

nb::dict optimize(const Baseline& base, int workers, const std::string& fabric, const std::string& collectives,
                  const std::string& collectives_tag, int gpus_per_node, const std::vector<std::string>& only,
                  std::optional<std::int64_t> memory_limit, const std::vector<double>& bucket_mb,
                  std::size_t evaluations, double seconds, std::uint64_t seed, std::size_t width) {
  check_workers(workers, gpus_per_node);
  search::OptimizeOptions o;
  for (const std::string& name : only) o.only.push_back(value_or_raise(whatif::find_whatif(name))->name);
  o.memory_limit = memory_limit;
  for (const double mb : bucket_mb) {
    if (!(mb > 0)) raise({.code = ErrorCode::kUsage, .message = fmt::format("{} is not a size of buckets in MiB", mb)});
    o.bucket_sizes.push_back(mb);
  }
  std::sort(o.bucket_sizes.begin(), o.bucket_sizes.end());
  if (evaluations == 0 && !(seconds > 0)) {
    raise({.code = ErrorCode::kUsage, .message = "a search needs a budget: evaluations or seconds above 0"});
  }
  o.evaluations = evaluations == 0 ? SIZE_MAX : evaluations;
  o.seconds = seconds;
  o.seed = seed;
  if (base.figures.job && (workers > 1 || !fabric.empty() || !collectives.empty())) {
    raise(
        {.code = ErrorCode::kDeclined, .message = "workers copies the step of one rank, and this is a job of several"});
  }
  if (workers > 1) {
    search::Communication c;
    c.workers = workers;
    c.fabric = fabric;
    c.collectives = collectives;
    c.collectives_tag = collectives_tag;
    c.gpus_per_node = gpus_per_node;
    static_cast<void>(
        value_or_raise(whatif::network_of({fabric, collectives, collectives_tag, gpus_per_node}, base.model.device)));
    o.communication = search::plain_communication(c);
  } else if (!fabric.empty() || !collectives.empty()) {
    raise({.code = ErrorCode::kUsage, .message = "how many workers does the network connect?"});
  }
  auto found = [&] {
    nb::gil_scoped_release unlocked;
    return search::optimize(base, o);
  }();
  report::OptimizeReport r{base.figures, value_or_raise(std::move(found))};
  nb::dict d;
  d["text"] = to_str(report::to_text(r, text_style(width)));
  d["strategy"] = to_str(report::strategy_json(r.found.best));
  d["script"] = to_str(report::script_for(base, r));
  nb::list parts;
  for (const search::OptimizedPart& part : r.found.parts) parts.append(part_dict(part));
  d["parts"] = parts;
  d["baseline"] = r.found.baseline;
  d["baseline_peak"] = or_none(r.found.baseline_peak);
  d["memory_limit"] = or_none(r.found.memory_limit);
  d["evaluations"] = r.found.evaluations;
  d["converged"] = r.found.converged;
  d["declined"] = text_tuple(r.found.declined);
  d["prediction"] = prediction_dict(std::move(r.found.prediction));
  return d;
}

/// The step on several workers, all with these changes: what `foretrace scale` says of one number of them.
nb::dict scale(const Baseline& base, int workers, const nb::list& whatifs, const std::string& fabric,
               const std::string& collectives, const std::string& collectives_tag, int gpus_per_node,
               const std::string& parallel, const std::string& compress, std::optional<double> bucket_mb,
               std::optional<std::int64_t> servers, std::optional<double> slice_mb, std::optional<double> slow_worker,
               std::optional<double> cycle_ms, std::optional<double> send_us, bool ring_steps) {
  check_workers(workers, gpus_per_node);
  const whatif::Parallelism how = value_or_raise(whatif::make_parallelism({.parallel = parallel,
                                                                           .compress = compress,
                                                                           .bucket_mb = bucket_mb,
                                                                           .slice_mb = slice_mb,
                                                                           .slow_worker = slow_worker,
                                                                           .cycle_ms = cycle_ms,
                                                                           .send_us = send_us,
                                                                           .servers = servers,
                                                                           .ring_steps = ring_steps}));
  const whatif::Network network =
      value_or_raise(whatif::network_of({fabric, collectives, collectives_tag, gpus_per_node}, base.model.device));
  const std::vector<whatif::Use> changes = parse_uses(whatifs);
  std::vector<whatif::Use> uses = changes;
  if (workers > 1 || how.slow_worker != 1) {
    uses.push_back(whatif::parallel_use(how, network.collectives, workers, network.gpus_per_node));
  }
  double one_worker = 1;
  auto p = [&] {
    nb::gil_scoped_release unlocked;
    if (!changes.empty()) {
      const auto one = analysis::predict(base, changes, whatif::Detail::kStepOnly);
      if (one.declined.empty()) one_worker = one.speedup;
    }
    return analysis::predict(base, uses);
  }();
  if (!p.declined.empty()) raise({.code = ErrorCode::kDeclined, .message = p.declined});
  nb::dict d;
  d["workers"] = workers;
  d["network"] = to_str(network.name);
  d["communication"] = p.communication;
  d["exposed_communication"] = p.exposed_communication;
  d["efficiency"] = p.speedup / one_worker;
  d["buckets"] = p.buckets;
  const nb::dict all = prediction_dict(std::move(p));
  for (const char* key : {"step", "low", "high", "peak_bytes", "origin", "validated", "not_modelled", "graph"}) {
    d[key] = all[key];
  }
  return d;
}

/// The step on other GPUs: what `foretrace gpus` says, as text and as JSON.
nb::tuple gpus(const Baseline& base, const std::vector<std::string>& to, const std::vector<std::string>& whatifs,
               std::optional<double> cpu, const std::string& host, const std::map<std::string, double>& prices,
               const std::string& sort, std::size_t width) {
  analysis::GpusOptions options;
  options.targets = to;
  options.whatifs = whatifs;
  options.cpu = cpu;
  options.to_host = host;
  options.prices = prices;
  options.order = sort == "cost"    ? analysis::GpuOrder::kCost
                  : sort == "value" ? analysis::GpuOrder::kValue
                                    : analysis::GpuOrder::kTime;
  options.threads = 0;
  auto compared = [&]() -> Result<analysis::GpusReport> {
    nb::gil_scoped_release unlocked;
    FORETRACE_TRY_VOID(analysis::check(options));
    return analysis::compare_gpus(base, options);
  }();
  const analysis::GpusReport r = value_or_raise(std::move(compared));
  return nb::make_tuple(to_str(report::to_text(r, text_style(width))), to_str(report::to_json(r)));
}

}  // namespace

void bind_questions(nb::class_<Baseline>& model) {
  model.def("advise", advise, nb::arg("memory_limit").none());
  model.def("optimize", optimize, nb::arg("workers"), nb::arg("fabric"), nb::arg("collectives"),
            nb::arg("collectives_tag"), nb::arg("gpus_per_node"), nb::arg("only"), nb::arg("memory_limit").none(),
            nb::arg("bucket_mb"), nb::arg("evaluations"), nb::arg("seconds"), nb::arg("seed"), nb::arg("width"));
  model.def("scale", scale, nb::arg("workers"), nb::arg("whatifs"), nb::arg("fabric"), nb::arg("collectives"),
            nb::arg("collectives_tag"), nb::arg("gpus_per_node"), nb::arg("parallel"), nb::arg("compress"),
            nb::arg("bucket_mb").none(), nb::arg("servers").none(), nb::arg("slice_mb").none(),
            nb::arg("slow_worker").none(), nb::arg("cycle_ms").none(), nb::arg("send_us").none(),
            nb::arg("ring_steps"));
  model.def("gpus", gpus, nb::arg("to"), nb::arg("whatifs"), nb::arg("cpu").none(), nb::arg("host"), nb::arg("prices"),
            nb::arg("sort"), nb::arg("width"));
}

}  // namespace foretrace::python
