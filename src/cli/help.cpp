#include "cli/help.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/readable.hpp"
#include "cli/verbs.hpp"
#include "foretrace/version.hpp"

namespace foretrace::cli {
namespace {

std::string option_label(const Option& option) {
  std::string label =
      option.letter != 0 ? fmt::format("-{}, --{}", option.letter, option.name) : fmt::format("    --{}", option.name);
  if (!option.value_name.empty()) label += " " + option.value_name;
  return label;
}

std::string option_text(const Option& option) {
  std::string text = option.about;
  if (!option.choices.empty()) text += fmt::format(": {}", fmt::join(option.choices, ", "));
  if (!option.default_text.empty()) text += fmt::format(" (default: {})", option.default_text);
  return text;
}

struct Row {
  std::string label, text;
};

std::string rows(const std::vector<Row>& list, std::size_t width) {
  std::size_t column = 0;
  for (const Row& row : list) column = std::max(column, row.label.size());
  std::string out;
  for (const Row& row : list) {
    out += fmt::format("  {:<{}}  ", row.label, column) + wrap(row.text, width, column + 4, column + 4) + "\n";
  }
  return out;
}

/// ": formats" for a verb whose first argument is one of a few words.
std::string choices_text(const Verb& verb) {
  if (verb.arguments.empty() || verb.arguments.front().choices.empty()) return {};
  return fmt::format(": {}", fmt::join(verb.arguments.front().choices, ", "));
}

// Commands are never broken: they are there to be copied.
std::string examples(const std::vector<Example>& list, std::size_t width) {
  std::string out;
  for (const Example& example : list)
    out += fmt::format("  {}\n      {}\n", example.command, wrap(example.about, width, 6, 6));
  return out;
}

}  // namespace

std::string usage_line(const Verb& verb) {
  std::string out = verb.name;
  for (const Argument& argument : verb.arguments) {
    const std::string name = argument.max > 1 ? argument.name + "..." : argument.name;
    out += argument.min == 0 ? fmt::format(" [{}]", name) : " " + name;
  }
  return out;
}

std::string overview_help(std::size_t width) {
  std::string out =
      wrap(fmt::format("foretrace {} - predicts from a trace what a training step would cost after a change",
                       FORETRACE_VERSION),
           width, 2, 0) +
      "\n\n";
  out += "usage: foretrace VERB [ARGUMENTS] [OPTIONS]\n\nverbs\n";
  std::vector<Row> list;
  for (const Verb& verb : verbs()) list.push_back({usage_line(verb), verb.about + choices_text(verb)});
  out += rows(list, width);
  out += "\nexamples\n";
  for (const Verb& verb : verbs()) {
    if (!verb.examples.empty()) out += examples({verb.examples.front()}, width);
  }
  const auto line = [&](std::string_view text, std::size_t indent) { out += wrap(text, width, indent, 0) + "\n"; };
  out += "\n";
  line("`foretrace VERB --help` shows a verb's options and more examples.", 0);
  line(
      "A trace is a profiler's file (`foretrace list formats`), plain or compressed, a folder with one file per "
      "rank, or - for standard input.",
      0);
  line(
      "exit codes: 0 done, 1 a gate failed, 2 wrong usage, 3 unreadable input, 4 declined, 5 a gate is inconclusive, "
      "74 cannot write the output",
      2);
  return out;
}

std::string verb_help(const Verb& verb, std::size_t width) {
  std::string out = wrap(fmt::format("foretrace {} - {}", verb.name, verb.about), width, 2, 0) +
                    fmt::format("\n\nusage: foretrace {} [OPTIONS]\n", usage_line(verb));
  if (!verb.details.empty()) out += fmt::format("\n{}\n", wrap(verb.details, width, 0, 0));
  std::vector<Row> list;
  for (const Argument& argument : verb.arguments) {
    const bool any = !argument.choices.empty();
    list.push_back(
        {argument.name, argument.about + (any ? fmt::format(": {}", fmt::join(argument.choices, ", ")) : "")});
  }
  if (!list.empty()) out += "\narguments\n" + rows(list, width);
  list.clear();
  for (const Option& option : all_options(verb)) list.push_back({option_label(option), option_text(option)});
  out += "\noptions\n" + rows(list, width);
  if (!verb.examples.empty()) out += "\nexamples\n" + examples(verb.examples, width);
  return out;
}

}  // namespace foretrace::cli
