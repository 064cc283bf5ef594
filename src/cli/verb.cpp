#include "cli/verb.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/text.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::cli {
namespace {

using enum ValueType;

const std::vector<Option> kOutputOptions{
    flag("json", "print JSON instead of text, whatever the exit code"),
    output_option("", "write to FILE instead of standard output"),
    flag("help", "show this help").letter_is('h'),
};

struct Group {
  SharedOptions bit;
  std::vector<Option> options;
};

// In the order the help shows them.
const std::vector<Group>& groups() {
  static const std::vector<Group> all{
      {kCalibration,
       {option(kNumber, "measured-ms", "X", "what the recorder stored, else an estimate",
               "the time of a step without the profiler")
            .letter_is('m')
            .at_least(0.001),
        option(kFile, "host", "FILE", "the host foretrace was calibrated on",
               "CPU costs of the machine the trace is from, as `foretrace calibrate` wrote them")}},
      {kPlugins,
       {option(kFile, "plugin", "FILE.py", "", "your own what-ifs, made with @foretrace.whatif; may be repeated")
            .repeated()}},
      {kStep,
       {step_option(),
        option(kInteger, "rank", "R", "the lowest", "the rank to look at, or to change, when several are given")
            .at_least(0)}},
      {kReading,
       {option(kNumber, "max-memory", "GB", "the machine's free memory",
               "the most memory to use, in 10^9 bytes; more is an error")
            .at_least(0.1),
        flag("partial", "read a truncated file up to the point where it ends"),
        option(kText, "steps-by", "NAME", "ranges that mark steps, see `doctor`",
               "the range that encloses one step: its name, or a pattern with *"),
        flag("strict", "fail on any record that cannot be used, instead of counting it"),
        option(kInteger, "threads", "N", "all cores", "threads to read with; the result is the same").at_least(0),
        flag("quiet", "no progress bar and no notes on standard error").letter_is('q'),
        option(kText, "color", "WHEN", "auto",
               "colour headings and verdicts; auto: on a terminal, unless NO_COLOR is set")
            .one_of({"auto", "always", "never"})}},
  };
  return all;
}

}  // namespace

std::vector<Option> operator+(std::vector<Option> some, const std::vector<Option>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

Option step_option() { return option(kInteger, "step", "N", "the median step", "the step named ProfilerStep#N"); }

Option memory_option() {
  return option(kNumber, "memory-gb", "M", "the GPU's memory less 1 GB for the driver",
                "the most the allocator may reserve, in 10^9 bytes")
      .at_least(0);
}

Option top_option() {
  return option(kInteger, "top", "N", "10", "rows of each table; JSON always holds all").letter_is('n').at_least(1);
}

Option batch_option() {
  return option(kNumber, "batch", "N", "", "samples in the traced step, to print samples per second")
      .at_least(1)
      .at_most(1e9);  // as for batch:x= and other numbers of what-ifs
}

Option residuals_option() {
  return option(kFile, "residuals", "FILE", "those of foretrace's own measurements",
                "errors of past predictions, which set the width of the bands");
}

Option code_option() {
  return option(kFile, "code-out", "FILE", "", "write a PyTorch script that applies the strategy");
}

Option ray_option(std::string about) {
  return option(kText, "ray", "ADDRESS", "", std::move(about) + " on a Ray cluster; `local` starts one here");
}

std::vector<std::string> whatif_names() {
  std::vector<std::string> names;
  for (const whatif::WhatIf* w : whatif::all_whatifs()) names.push_back(w->name);
  return names;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const hardware::Device& d : hardware::devices()) names.push_back(d.name);
  return names;
}

std::vector<Option> network_options() {
  std::vector<std::string> fabrics;
  for (const hardware::Fabric& f : hardware::fabrics()) fabrics.push_back(f.name);
  return {
      option(kText, "fabric", "NAME|FILE", "", "the network: a name from `list fabrics`, or a file")
          .letter_is('f')
          .suggesting(fabrics),
      option(kFile, "collectives", "FILE", "", "measured collectives instead of a fabric"),
      option(kText, "collectives-tag", "TAG", "", "which rows of that file"),
      option(kInteger, "gpus-per-node", "K", "the fabric's", "GPUs in one node").at_least(1),
  };
}

std::vector<Option> all_options(const Verb& verb) {
  std::vector<Option> options = verb.options;
  for (const Group& group : groups()) {
    if ((verb.shares & group.bit) != 0) options = options + group.options;
  }
  // A verb may describe one of these itself: -o of `report` has a default.
  for (const Option& shared : kOutputOptions) {
    const bool own = std::any_of(verb.options.begin(), verb.options.end(),
                                 [&](const Option& option) { return option.name == shared.name; });
    if (!own) options.push_back(shared);
  }
  return options;
}

Option output_option(std::string otherwise, std::string about) {
  return option(kFile, "output", "FILE", std::move(otherwise), std::move(about)).letter_is('o');
}

std::vector<std::string> parameter_words() {
  std::vector<std::string> words;
  for (const whatif::WhatIf* w : whatif::all_whatifs()) {
    for (const whatif::Parameter& p : w->parameters) {
      const std::string begin = fmt::format("{}:{}=", w->name, p.name);
      if (p.choices.empty()) words.push_back(begin);
      for (const std::string& choice : p.choices) words.push_back(begin + choice);
    }
  }
  return words;
}

const std::vector<Option>& shared_options() {
  static const std::vector<Option> options = all_options({.name = "", .about = "", .shares = kPrediction});
  return options;
}

const std::vector<std::string>& Values::all(std::string_view option) const {
  static const std::vector<std::string> empty;
  const auto at = given_.find(option);
  return at == given_.end() ? empty : at->second;
}

std::optional<std::string> Values::text(std::string_view option) const {
  const std::vector<std::string>& given = all(option);
  return given.empty() ? std::nullopt : std::optional(given.front());
}

std::optional<std::int64_t> Values::integer(std::string_view option) const {
  const std::optional<std::string> given = text(option);
  if (!given) return std::nullopt;
  std::int64_t value = 0;
  std::from_chars(given->data(), given->data() + given->size(), value);
  return value;
}

std::optional<double> Values::number(std::string_view option) const {
  const std::optional<std::string> given = text(option);
  return given ? std::optional(std::strtod(given->c_str(), nullptr)) : std::nullopt;
}

const std::vector<std::string>& Values::argument(std::string_view name) const {
  static const std::vector<std::string> empty;
  const auto at = arguments_.find(name);
  return at == arguments_.end() ? empty : at->second;
}

Result<std::vector<std::string>> entries_of(const Values& values, std::string_view option) {
  std::vector<std::string> out;
  const std::optional<std::string> list = values.text(option);
  if (!list) return out;
  for (const std::string_view one : split(*list, ',')) {
    if (!one.empty()) out.emplace_back(one);
  }
  if (out.empty()) {
    return fail(ErrorCode::kUsage, fmt::format("--{} '{}' names nothing", option, *list),
                "entries are separated by commas: A,B");
  }
  return out;
}

}  // namespace foretrace::cli
