#include "foretrace/whatif/whatif.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <limits>
#include <memory>
#include <optional>

#include "answers.hpp"
#include "bindings.hpp"
#include "foretrace/search/optimize.hpp"
#include "named.hpp"
#include "open_draft.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

using analysis::Baseline;
using whatif::Changes;
using whatif::Effort;
using whatif::Need;
using whatif::Part;
using whatif::Stage;

constexpr std::size_t kNeeds = static_cast<std::size_t>(Need::kLoader) + 1;
constexpr std::size_t kChanges = static_cast<std::size_t>(Changes::kDepth) + 1;
constexpr std::size_t kParts = static_cast<std::size_t>(Part::kNotModelled) + 1;
constexpr std::size_t kEfforts = static_cast<std::size_t>(Effort::kWork) + 1;
constexpr std::array<std::string_view, 6> kStages = {"batch", "precision", "kernels", "memory", "optimizer", "runtime"};
std::string_view stage_name(Stage stage) { return kStages[static_cast<std::size_t>(stage)]; }

template <class Enum>
nb::tuple names_of(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.emplace_back(to_string(static_cast<Enum>(i)));
  return text_tuple(names);
}

// -- predictions

Baseline* make_step_model(const LoadedTrace& loaded, const analysis::StepGraphs& graphs, std::size_t index,
                          const graph::Graph& g, std::optional<Ns> measured) {
  auto made = [&] {
    nb::gil_scoped_release unlocked;
    const std::optional<double> measured_ms = measured ? std::optional(to_ms(*measured)) : std::nullopt;
    return analysis::make_baseline(loaded.trace, graphs.steps().steps[index], g, measured_ms);
  }();
  return new Baseline(value_or_raise(std::move(made)));
}

nb::dict predict(const Baseline& base, const nb::list& given) {
  const std::vector<whatif::Use> uses = parse_uses(given);
  auto predicted = [&] {
    nb::gil_scoped_release unlocked;
    return search::predict_stack(base, uses);
  }();
  return prediction_dict(std::move(predicted));
}

/// The step that predictions start from, of all ranks where there are several.
nb::dict figures(const Baseline& base) {
  const analysis::StepFigures& f = base.figures;
  nb::dict d;
  d["name"] = to_str(f.step_name);
  d["traced"] = f.traced;
  d["replayed"] = f.replayed;
  d["unprofiled"] = f.unprofiled;
  d["low"] = f.unprofiled_low;
  d["high"] = f.unprofiled_high;
  d["peak_bytes"] = or_none(f.peak_bytes);
  d["ranks"] = f.job ? rank_rows(f.job->ranks) : nb::list();
  d["fullest_rank"] = f.job ? nb::object(nb::int_(f.job->fullest_rank)) : nb::none();
  d["notes"] = text_tuple(f.job ? f.job->notes : std::vector<std::string>());
  return d;
}

// -- a user's own

/// A user's function that raises foretrace.DeclinedError says that it does not apply; any other exception goes on to
/// the caller of the prediction. The caller holds the interpreter's lock.
Status apply_python(whatif::Model& model, whatif::Draft& draft, std::size_t id, const nb::dict& values) {
  auto* open = new OpenDraft(model, draft);
  const nb::object held = nb::cast(open, nb::rv_policy::take_ownership);
  try {
    nb::module_::import_("foretrace._whatifs").attr("apply_own")(id, held, values);
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

Status check_whole(const std::string& value) {
  const bool digits = value.find_first_not_of("0123456789", value.starts_with('-') ? 1 : 0) == std::string::npos;
  if (!digits || value.empty() || value == "-") {
    return fail(ErrorCode::kUsage, fmt::format("a whole number is needed, not '{}'", value));
  }
  return {};
}

/// name, about, default, required, choices, and "text", "number" or "whole".
using GivenParameter = std::tuple<std::string, std::string, std::string, bool, std::vector<std::string>, std::string>;

whatif::Parameter parameter_of(const GivenParameter& given) {
  const auto& [name, about, default_value, required, choices, type] = given;
  return {.name = name,
          .about = about,
          .default_value = default_value,
          .choices = choices,
          .type = type == "text" ? whatif::ParameterType::kText : whatif::ParameterType::kNumber,
          .required = required,
          .minimum = -std::numeric_limits<double>::infinity(),
          .check = type == "whole" ? check_whole : nullptr};
}

/// What a user's own says it leaves out, by its parts.
void note_parts(whatif::Model& model, const std::string& name, const whatif::Parts& parts) {
  const auto note = [&](Part part, std::string_view of) {
    if (part == Part::kNotModelled) model.not_modelled.push_back(fmt::format("what {} changes of {}", name, of));
  };
  note(parts.cpu, "the CPU's time");
  note(parts.gpu, "the GPU's time");
  note(parts.memory, "memory");
}

/// Every what-if a user made, also those whose name another has since. Only with the interpreter's lock.
std::vector<std::shared_ptr<const whatif::WhatIf>>& made() {
  static auto* const all = new std::vector<std::shared_ptr<const whatif::WhatIf>>();  // ends with the program
  return *all;
}

/// Known to the whole library from now on: to the command line's uses, its lists and its advice. Gives its place in made().
std::size_t add_own(std::string name, std::string about, const std::vector<GivenParameter>& parameters,
                    std::string assumes, std::string source, std::string not_modelled,
                    const std::vector<std::string>& needs, const std::string& changes,
                    const std::tuple<std::string, std::string, std::string>& parts, std::string code,
                    const std::string& effort, const std::string& stage, std::vector<std::string> advise) {
  whatif::WhatIf own{.name = std::move(name),
                     .about = std::move(about),
                     .parameters = {},
                     .assumes = std::move(assumes),
                     .source = std::move(source),
                     .not_modelled = std::move(not_modelled),
                     .needs = {},
                     .code = std::move(code),
                     .advise = std::move(advise),
                     .validated = false,
                     .apply = {}};
  for (const std::string& need : needs) own.needs.push_back(named<Need>("need", need, kNeeds));
  own.changes = named<Changes>("kind of change", changes, kChanges);
  const auto part = [](const std::string& text) { return named<Part>("answer for a part", text, kParts); };
  own.parts = {part(std::get<0>(parts)), part(std::get<1>(parts)), part(std::get<2>(parts))};
  own.effort = named<Effort>("effort", effort, kEfforts);
  own.stage = named<Stage>("stage", stage, kStages.size(), stage_name);
  for (const GivenParameter& given : parameters) own.parameters.push_back(parameter_of(given));
  // What is added stays until the program ends, after the interpreter's end. So the function itself stays in Python and is
  // found by its id: a reference from here would keep the whole module alive.
  own.apply = [names = own.parameters, called = own.name, said = own.parts, id = made().size()](
                  whatif::Model& model, whatif::Draft& draft, const whatif::Parameters& given) -> Status {
    nb::gil_scoped_acquire locked;
    nb::dict values;
    for (const whatif::Parameter& p : names) {
      if (given.given(p.name)) values[p.name.c_str()] = to_str(given.text(p.name));
    }
    FORETRACE_TRY_VOID(apply_python(model, draft, id, values));
    note_parts(model, called, said);
    return {};
  };
  if (Status added = whatif::add_whatif(own); !added) raise(added.error());
  made().push_back(std::make_shared<const whatif::WhatIf>(std::move(own)));
  return made().size() - 1;
}

/// One of the user's as an object: the function it was made of, whatever goes by its name since.
whatif::Use use_of(std::size_t id) {
  const std::shared_ptr<const whatif::WhatIf> own = made().at(id);
  whatif::Use use{.whatif = own.get(), .text = own->name, .own = own};
  for (const whatif::Parameter& p : own->parameters) {
    if (p.required) {
      raise({.code = ErrorCode::kUsage, .message = fmt::format("{} needs {}=…", own->name, p.name)});
    }
    use.parameters.set(p.name, p.default_value, false);
  }
  return use;
}

// -- lists

nb::dict parameter_dict(const whatif::Parameter& p) {
  nb::dict d;
  d["name"] = to_str(p.name);
  d["about"] = to_str(p.about);
  d["required"] = p.required;
  d["default"] = p.required ? nb::none() : nb::object(to_str(p.default_value));
  d["choices"] = text_tuple(p.choices);
  d["type"] = to_str(p.type == whatif::ParameterType::kNumber ? "number" : "text");
  return d;
}

nb::dict whatif_dict(const whatif::WhatIf& w) {
  nb::list parameters;
  for (const whatif::Parameter& p : w.parameters) parameters.append(parameter_dict(p));
  std::vector<std::string> needs;
  for (const Need need : w.needs) needs.emplace_back(to_string(need));
  nb::dict d;
  d["name"] = to_str(w.name);
  d["about"] = to_str(w.about);
  d["parameters"] = parameters;
  d["assumes"] = to_str(w.assumes);
  d["source"] = to_str(w.source);
  d["not_modelled"] = to_str(w.not_modelled);
  d["needs"] = text_tuple(needs);
  d["changes"] = to_str(to_string(w.changes));
  d["parts"] =
      nb::make_tuple(to_str(to_string(w.parts.cpu)), to_str(to_string(w.parts.gpu)), to_str(to_string(w.parts.memory)));
  d["code"] = to_str(w.code);
  d["effort"] = to_str(to_string(w.effort));
  d["stage"] = to_str(stage_name(w.stage));
  d["advise"] = text_tuple(w.advise);
  d["validated"] = w.validated;
  d["measured_rows"] = w.evidence.rows;
  d["measured_models"] = w.evidence.models;
  return d;
}

nb::list all_whatifs() {
  nb::list list;
  for (const whatif::WhatIf* w : whatif::all_whatifs()) list.append(whatif_dict(*w));
  return list;
}

}  // namespace

nb::tuple text_tuple(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(to_str(text));
  return nb::tuple(list);
}

std::vector<whatif::Use> parse_uses(const nb::list& given) {
  std::vector<whatif::Use> uses;
  for (const nb::handle one : given) {
    uses.push_back(nb::isinstance<nb::str>(one) ? value_or_raise(whatif::parse_use(nb::cast<std::string>(one)))
                                                : use_of(nb::cast<std::size_t>(one)));
  }
  return uses;
}

namespace {

// What a peak consists of, as JSON names it.
nb::object parts_of(const std::optional<memory::Composition>& of) {
  if (!of) return nb::none();
  nb::dict d;
  d["parameters"] = of->parameters;
  d["gradients"] = of->gradients;
  d["optimizer_states"] = of->optimizer_states;
  d["activations"] = of->activations;
  d["workspaces"] = of->workspaces;
  d["other"] = of->other;
  d["fragmentation"] = of->fragmentation;
  return std::move(d);
}

nb::object pipeline_dict(const std::optional<whatif::PipelineFigures>& of) {
  if (!of) return nb::none();
  nb::dict d;
  d["gpus"] = of->gpus;
  d["microbatches"] = of->microbatches;
  d["bubble_ms"] = to_ms(of->bubble);
  d["tokens"] = or_none(of->tokens);
  d["tokens_per_s"] = or_none(of->tokens_per_s);
  return std::move(d);
}

}  // namespace

nb::list rank_rows(const std::vector<whatif::RankTime>& ranks) {
  nb::list out;
  for (const whatif::RankTime& r : ranks) {
    nb::dict d;
    d["rank"] = r.rank;
    d["wait_ms"] = to_ms(r.wait);
    d["transfer_ms"] = to_ms(r.transfer);
    d["gpu_ms"] = to_ms(r.gpu_time);
    d["waited_for"] = r.waited_for;
    d["peak_bytes"] = or_none(r.peak_bytes);
    out.append(d);
  }
  return out;
}

nb::dict prediction_dict(whatif::Prediction&& p) {
  nb::dict d;
  d["whatif"] = to_str(p.whatif);
  d["declined"] = p.declined.empty() ? nb::none() : nb::object(to_str(p.declined));
  d["step"] = p.step;
  d["low"] = p.low;
  d["high"] = p.high;
  d["speedup"] = p.speedup;
  d["gpu_time"] = p.gpu_time;
  d["largest_batch"] = or_none(p.largest_batch);
  d["fits"] = or_none(p.fits);
  d["samples"] = p.samples;
  d["peak_bytes"] = or_none(p.peak_bytes);
  d["reserved_bytes"] = or_none(p.reserved_bytes);
  d["peak_parts"] = parts_of(p.peak_parts);
  d["origin"] = to_str(p.origin);
  d["validated"] = p.validated;
  d["bound"] = p.bound.step > 0 ? nb::object(nb::int_(p.bound.step)) : nb::none();
  d["bound_source"] = to_str(p.bound.step > 0 ? p.bound.by : std::string_view());
  d["bound_decided"] = p.bound.decided;
  d["band_reasons"] = text_tuple(p.band_reasons());
  d["not_modelled"] = text_tuple(p.not_modelled);
  d["ranks"] = rank_rows(p.ranks);
  d["fullest_rank"] = or_none(p.fullest_rank);
  nb::list applied;
  for (const auto& step : p.applied) applied.append(nb::make_tuple(to_str(step.text), step.changed, step.seconds));
  d["applied"] = applied;
  d["pipeline"] = pipeline_dict(p.pipeline);
  const bool one_graph = p.declined.empty() && !p.pipeline;
  d["graph"] = one_graph ? nb::cast(new graph::Graph(std::move(p.graph)), nb::rv_policy::take_ownership)
                         : nb::object(nb::none());
  return d;
}

void bind_whatif(nb::module_& m) {
  m.attr("NEEDS") = names_of<Need>(kNeeds);
  m.attr("CHANGES") = names_of<Changes>(kChanges);
  m.attr("PARTS") = names_of<Part>(kParts);
  m.attr("EFFORTS") = names_of<Effort>(kEfforts);
  m.attr("STAGES") = text_tuple({kStages.begin(), kStages.end()});
  nb::class_<Baseline> model(m, "Model");
  model.def("predict", predict, nb::arg("uses"));
  model.def("figures", figures);
  bind_questions(model);
  m.def("step_model", make_step_model, nb::arg("trace"), nb::arg("graphs"), nb::arg("index"), nb::arg("graph"),
        nb::arg("measured").none(), nb::keep_alive<0, 1>());
  m.def("whatifs", all_whatifs);
  m.def("add_whatif", add_own, nb::arg("name"), nb::arg("about"), nb::arg("parameters"), nb::arg("assumes"),
        nb::arg("source"), nb::arg("not_modelled"), nb::arg("needs"), nb::arg("changes"), nb::arg("parts"),
        nb::arg("code"), nb::arg("effort"), nb::arg("stage"), nb::arg("advise"));
  m.def("check_uses", [](const nb::list& uses) { static_cast<void>(parse_uses(uses)); }, nb::arg("uses"));
}

}  // namespace foretrace::python
