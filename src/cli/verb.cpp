#include "cli/verb.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "base/text.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::cli {
namespace {

const std::vector<Option>& output_options() {
  static const std::vector<Option> options{
      {"json", 0, ValueType::kFlag, "", "", "print JSON instead of text, whatever the exit code"},
      {"output", 'o', ValueType::kFile, "FILE", "", "write to FILE instead of standard output"},
      {"help", 'h', ValueType::kFlag, "", "", "show this help"},
  };
  return options;
}

const std::vector<Option>& step_options() {
  static const std::vector<Option> options{
      step_option(),
      {"rank", 0, ValueType::kInteger, "R", "the lowest", "the rank to look at when several are given", {}, 0.0},
  };
  return options;
}

const std::vector<Option>& calibration_options() {
  static const std::vector<Option> options{
      {"measured-ms",
       'm',
       ValueType::kNumber,
       "X",
       "what the recorder stored, else a prior",
       "the step's time without the profiler",
       {},
       0.001},
      {"host", 0, ValueType::kFile, "FILE", "those of the project's own measurements",
       "what the CPU costs on the trace's host, as `foretrace calibrate` wrote it"},
  };
  return options;
}

const std::vector<Option>& plugin_options() {
  static const std::vector<Option> options{
      {"plugin",
       0,
       ValueType::kFile,
       "FILE.py",
       "",
       "what-ifs of your own, made with @foretrace.whatif; may be repeated",
       {},
       {},
       {},
       true},
  };
  return options;
}

const std::vector<Option>& reading_options() {
  static const std::vector<Option> options{
      {"partial", 0, ValueType::kFlag, "", "", "read a file that is cut off up to the cut"},
      {"steps-by", 0, ValueType::kText, "NAME", "ranges that mark steps, see `doctor`",
       "the range a step lies in: its name, a pattern with *"},
      {"strict", 0, ValueType::kFlag, "", "", "fail on any record that cannot be used, instead of counting it"},
      {"threads", 0, ValueType::kInteger, "N", "all cores", "threads to read with; the result is the same", {}, 0.0},
      {"quiet", 'q', ValueType::kFlag, "", "", "no progress bar and no notes on standard error"},
  };
  return options;
}

}  // namespace

std::vector<Option> operator+(std::vector<Option> some, const std::vector<Option>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

Option step_option() {
  return {"step", 0, ValueType::kInteger, "N", "the median step", "the step named ProfilerStep#N"};
}

Option memory_option() {
  return {"memory-gb",
          0,
          ValueType::kNumber,
          "M",
          "the GPU's memory less 1 GB for the driver",
          "the most the allocator may hold, in 10^9 bytes",
          {},
          0.0};
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
      {"fabric",
       'f',
       ValueType::kText,
       "NAME|FILE",
       "",
       "the network: a name of `list fabrics`, or a file",
       {},
       {},
       fabrics},
      {"collectives", 0, ValueType::kFile, "FILE", "", "measured collectives instead of a fabric"},
      {"collectives-tag", 0, ValueType::kText, "TAG", "", "which rows of that file"},
      {"gpus-per-node", 0, ValueType::kInteger, "K", "the fabric's", "GPUs that share a node", {}, 1.0},
  };
}

std::vector<Option> all_options(const Verb& verb) {
  std::vector<Option> options = verb.options;
  if (verb.calibrates) options = options + calibration_options();
  if (verb.takes_plugins) options = options + plugin_options();
  if (verb.picks_step) options = options + step_options();
  if (verb.reads_traces) options = options + reading_options();
  return options + output_options();
}

const std::vector<Option>& shared_options() {
  static const std::vector<Option> options =
      step_options() + calibration_options() + plugin_options() + reading_options() + output_options();
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

const std::vector<std::string>& Values::argument(std::string_view name) const {
  static const std::vector<std::string> empty;
  const auto at = arguments_.find(name);
  return at == arguments_.end() ? empty : at->second;
}

}  // namespace foretrace::cli
