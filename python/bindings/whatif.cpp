#include "foretrace/whatif/whatif.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <limits>
#include <memory>
#include <optional>

#include "bindings.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/search/advise.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/network.hpp"
#include "foretrace/whatif/parallel_choice.hpp"
#include "open_draft.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

using analysis::Baseline;

/// A user's function that raises foretrace.Error with the code "declined" says that it does not apply; any other
/// exception goes on to whoever asked for the prediction. The caller holds the interpreter's lock.
template <class Call>
Status apply_python(whatif::Model& model, whatif::Draft& draft, Call call) {
  auto* open = new OpenDraft(model, draft);
  const nb::object held = nb::cast(open, nb::rv_policy::take_ownership);
  try {
    call(held);
    open->finish();
  } catch (nb::python_error& error) {
    open->close();
    const nb::object type = nb::module_::import_("foretrace._errors").attr("Error");
    if (!error.matches(type) || nb::cast<std::string>(error.value().attr("code")) != "declined") throw;
    return fail(ErrorCode::kDeclined, nb::cast<std::string>(error.value().attr("message")));
  } catch (...) {
    open->close();
    throw;
  }
  return {};
}

Baseline* make_step_model(const LoadedTrace& loaded, const analysis::StepGraphs& graphs, std::size_t index,
                          const graph::Graph& g, std::optional<Ns> measured) {
  auto made = [&] {
    nb::gil_scoped_release unlocked;
    const std::optional<double> told = measured ? std::optional(to_ms(*measured)) : std::nullopt;
    return analysis::make_baseline(loaded.trace, graphs.steps().steps[index], g, told);
  }();
  return new Baseline(value_or_raise(std::move(made)));
}

/// One use as Python gives it: as it was written, and for a user's own its name, what it leaves out and its function.
using GivenUse = std::tuple<std::string, std::string, std::string, nb::object>;

std::vector<whatif::Use> uses_of(const std::vector<GivenUse>& given, std::deque<whatif::WhatIf>& own) {
  std::vector<whatif::Use> uses;
  for (const auto& [text, name, not_modelled, function] : given) {
    if (function.is_none()) {
      uses.push_back(value_or_raise(whatif::parse_use(text)));
      continue;
    }
    own.push_back(
        {.name = name,
         .about = {},
         .parameters = {},
         .assumes = {},
         .source = {},
         .not_modelled = not_modelled,
         .needs = {},
         .code = {},
         .validated = false,
         // `given` outlives the prediction and keeps the function alive.
         .apply = [call = nb::handle(function)](whatif::Model& model, whatif::Draft& draft, const whatif::Parameters&) {
           nb::gil_scoped_acquire locked;
           return apply_python(model, draft, call);
         }});
    uses.push_back({&own.back(), {}, text});
  }
  return uses;
}

nb::dict to_dict(whatif::Prediction&& p) {
  nb::dict d;
  d["whatif"] = to_str(p.whatif);
  d["declined"] = p.declined.empty() ? nb::none() : nb::object(to_str(p.declined));
  d["step"] = p.step;
  d["low"] = p.low;
  d["high"] = p.high;
  d["speedup"] = p.speedup;
  d["gpu_time"] = p.gpu_time;
  d["largest_batch"] = p.largest_batch ? nb::object(nb::float_(*p.largest_batch)) : nb::none();
  d["fits"] = p.fits ? nb::object(nb::bool_(*p.fits)) : nb::none();
  d["samples"] = p.samples;
  d["peak_bytes"] = p.peak_bytes ? nb::object(nb::int_(*p.peak_bytes)) : nb::none();
  d["origin"] = to_str(p.origin);
  d["validated"] = p.validated;
  nb::list missing;
  for (const std::string& text : p.not_modelled) missing.append(to_str(text));
  d["not_modelled"] = nb::tuple(missing);
  nb::list applied;
  for (const auto& step : p.applied) applied.append(nb::make_tuple(to_str(step.text), step.changed, step.seconds));
  d["applied"] = applied;
  d["graph"] = p.declined.empty() ? nb::cast(new graph::Graph(std::move(p.graph)), nb::rv_policy::take_ownership)
                                  : nb::object(nb::none());
  return d;
}

nb::dict predict(const Baseline& base, const std::vector<GivenUse>& given) {
  std::deque<whatif::WhatIf> own;
  const std::vector<whatif::Use> uses = uses_of(given, own);
  auto predicted = [&] {
    nb::gil_scoped_release unlocked;
    return analysis::predict(base, uses);
  }();
  return to_dict(std::move(predicted));
}

nb::object to_dict(search::Advice&& a) {
  nb::dict d;
  nb::list code;
  for (const whatif::Use& use : a.uses) code.append(to_str(use.whatif->code));
  d["code"] = nb::tuple(code);
  d["effort"] = to_str(to_string(a.effort));
  d["gain"] = a.gain;
  d["samples"] = a.prediction.samples;
  d["fits"] = a.fits;
  d["prediction"] = to_dict(std::move(a.prediction));
  return d;
}

nb::dict advise(const Baseline& base, std::optional<std::int64_t> memory_limit) {
  auto advised = [&] {
    nb::gil_scoped_release unlocked;
    return search::advise(base, {.memory_limit = memory_limit});
  }();
  const auto optional = [](std::optional<search::Advice>& a) { return a ? to_dict(std::move(*a)) : nb::none(); };
  nb::dict d;
  nb::list alone;
  for (search::Advice& a : advised.alone) alone.append(to_dict(std::move(a)));
  d["advice"] = alone;
  d["combined"] = optional(advised.together);
  d["larger_batch"] = optional(advised.larger_batch);
  d["memory_limit"] = advised.memory_limit ? nb::object(nb::int_(*advised.memory_limit)) : nb::none();
  d["tried"] = advised.tried;
  return d;
}

/// The step on several workers: what `foretrace scale` says of one number of them.
nb::dict scale(const Baseline& base, int workers, const std::string& fabric, const std::string& collectives,
               const std::string& collectives_tag, int gpus_per_node, const std::string& parallel,
               const std::string& compress, std::optional<double> bucket_mb, std::optional<std::int64_t> servers,
               std::optional<double> slice_mb, std::optional<double> slow_worker, std::optional<double> cycle_ms,
               std::optional<double> send_us, bool ring_steps) {
  using whatif::kMostWorkers;
  if (workers < 1 || workers > kMostWorkers) {
    raise({.code = ErrorCode::kUsage, .message = "the number of workers must be from 1 to 16384"});
  }
  if (gpus_per_node < 0 || gpus_per_node > kMostWorkers) {
    raise({.code = ErrorCode::kUsage, .message = "gpus_per_node must be from 1 to 16384"});
  }
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
  std::vector<whatif::Use> uses;
  if (workers > 1 || how.slow_worker != 1) {
    uses.push_back(whatif::parallel_use(how, network.collectives, workers, network.gpus_per_node));
  }
  auto p = [&] {
    nb::gil_scoped_release unlocked;
    return analysis::predict(base, uses);
  }();
  if (!p.declined.empty()) raise({.code = ErrorCode::kDeclined, .message = p.declined});
  nb::dict d;
  d["workers"] = workers;
  d["network"] = to_str(network.collectives->name());
  d["step"] = p.step;
  d["low"] = p.low;
  d["high"] = p.high;
  d["communication"] = p.communication;
  d["exposed_communication"] = p.exposed_communication;
  d["efficiency"] = p.speedup;
  d["buckets"] = p.buckets;
  d["peak_bytes"] = p.peak_bytes ? nb::object(nb::int_(*p.peak_bytes)) : nb::none();
  d["origin"] = to_str(p.origin);
  d["validated"] = p.validated;
  nb::list missing;
  for (const std::string& text : p.not_modelled) missing.append(to_str(text));
  d["not_modelled"] = nb::tuple(missing);
  d["graph"] = nb::cast(new graph::Graph(std::move(p.graph)), nb::rv_policy::take_ownership);
  return d;
}

/// A user's own, known to the whole library from now on: to the command line's uses, its lists and its advice.
void add_own(std::string name, std::string about,
             const std::vector<std::tuple<std::string, std::string, bool, bool>>& parameters, std::string assumes,
             std::string source, std::string not_modelled, nb::object function) {
  whatif::WhatIf own{.name = std::move(name),
                     .about = std::move(about),
                     .parameters = {},
                     .assumes = std::move(assumes),
                     .source = std::move(source),
                     .not_modelled = std::move(not_modelled),
                     .needs = {},
                     .code = {},
                     .validated = false,
                     .apply = {}};
  std::vector<std::string> names;
  for (const auto& [parameter, default_value, required, number] : parameters) {
    names.push_back(parameter);
    own.parameters.push_back({.name = parameter,
                              .about = {},
                              .default_value = default_value,
                              .choices = {},
                              .type = number ? whatif::ParameterType::kNumber : whatif::ParameterType::kText,
                              .required = required,
                              .minimum = -std::numeric_limits<double>::infinity()});
  }
  // What is added stays until the program ends, which may be after the interpreter's end: the function is never let go.
  own.apply = [names, call = function.release()](whatif::Model& model, whatif::Draft& draft,
                                                 const whatif::Parameters& given) {
    nb::gil_scoped_acquire locked;
    nb::dict values;
    for (const std::string& parameter : names) {
      if (given.given(parameter)) values[parameter.c_str()] = to_str(given.text(parameter));
    }
    return apply_python(model, draft, [&](const nb::object& open) { call(open, values); });
  };
  if (Status added = whatif::add_whatif(std::move(own)); !added) raise(added.error());
}

nb::list catalogue() {
  nb::list list;
  for (const whatif::WhatIf& w : whatif::catalogue()) {
    nb::list parameters;
    for (const whatif::Parameter& p : w.parameters) {
      nb::list choices;
      for (const std::string& choice : p.choices) choices.append(to_str(choice));
      nb::dict d;
      d["name"] = to_str(p.name);
      d["about"] = to_str(p.about);
      d["required"] = p.required;
      d["default"] = p.required ? nb::none() : nb::object(to_str(p.default_value));
      d["choices"] = nb::tuple(choices);
      parameters.append(d);
    }
    nb::dict d;
    d["name"] = to_str(w.name);
    d["about"] = to_str(w.about);
    d["parameters"] = parameters;
    d["assumes"] = to_str(w.assumes);
    d["source"] = to_str(w.source);
    d["not_modelled"] = to_str(w.not_modelled);
    d["needs"] = to_str(to_string(w.needs));
    d["code"] = to_str(w.code);
    d["effort"] = to_str(to_string(w.effort));
    d["validated"] = w.validated;
    list.append(d);
  }
  return list;
}

}  // namespace

void bind_whatif(nb::module_& m) {
  nb::class_<Baseline>(m, "Model")
      .def("predict", predict, nb::arg("uses"))
      .def("advise", advise, nb::arg("memory_limit").none())
      .def("scale", scale, nb::arg("workers"), nb::arg("fabric"), nb::arg("collectives"), nb::arg("collectives_tag"),
           nb::arg("gpus_per_node"), nb::arg("parallel"), nb::arg("compress"), nb::arg("bucket_mb").none(),
           nb::arg("servers").none(), nb::arg("slice_mb").none(), nb::arg("slow_worker").none(),
           nb::arg("cycle_ms").none(), nb::arg("send_us").none(), nb::arg("ring_steps"));
  m.def("step_model", make_step_model, nb::arg("trace"), nb::arg("graphs"), nb::arg("index"), nb::arg("graph"),
        nb::arg("measured").none(), nb::keep_alive<0, 1>());
  m.def("whatifs", catalogue);
  m.def("add_whatif", add_own, nb::arg("name"), nb::arg("about"), nb::arg("parameters"), nb::arg("assumes"),
        nb::arg("source"), nb::arg("not_modelled"), nb::arg("function"));
  m.def(
      "check_use", [](const std::string& text) { static_cast<void>(value_or_raise(whatif::parse_use(text))); },
      nb::arg("text"));
}

}  // namespace foretrace::python
