#include "foretrace/cli/run.hpp"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <new>

#include "base/install_hint.hpp"
#include "base/readable.hpp"
#include "base/suggest.hpp"
#include "cli/colour.hpp"
#include "cli/errors.hpp"
#include "cli/help.hpp"
#include "cli/inputs.hpp"
#include "cli/memory_bound.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verb.hpp"
#include "cli/verbs.hpp"
#include "foretrace/version.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::cli {
namespace {

bool looks_like_option(const std::string& arg) { return arg.size() > 1 && arg[0] == '-'; }

/// "--step=3" and "--step" -> "step"; "-o" -> "o".
std::string option_name(const std::string& arg) {
  const std::size_t start = arg.starts_with("--") ? 2 : 1;
  return arg.substr(start, arg.find('=') - start);
}

const Option* find_option(const std::vector<Option>& options, const std::string& arg) {
  const std::string name = option_name(arg);
  const bool letter = !arg.starts_with("--");
  const auto at = std::find_if(options.begin(), options.end(), [&](const Option& option) {
    return letter ? option.letter != 0 && name[0] == option.letter : option.name == name;
  });
  return at == options.end() ? nullptr : &*at;
}

tl::unexpected<Error> unknown_option(const std::string& arg, const Verb* verb) {
  std::vector<std::string> names{"--help", "--version"};
  for (const Option& option : verb != nullptr ? all_options(*verb) : shared_options())
    names.push_back("--" + option.name);
  const std::string written = arg.substr(0, arg.find('='));
  // Known elsewhere: say where rather than guessing another.
  std::string hint;
  for (const Verb& other : verbs()) {
    if (verb == nullptr || other.name == verb->name || find_option(all_options(other), arg) == nullptr) continue;
    hint = fmt::format("`foretrace {}` has it", other.name);
    break;
  }
  if (hint.empty()) hint = did_you_mean(written, names);
  if (hint.empty()) {
    hint = verb != nullptr ? fmt::format("`foretrace {} --help` lists the options", verb->name)
                           : std::string("`foretrace --help` lists the verbs");
  }
  return fail(ErrorCode::kUsage,
              verb != nullptr ? fmt::format("{} has no option {}", verb->name, written)
                              : fmt::format("unknown option {}", written),
              hint);
}

Status check_value(const Option& option, const std::string& value) {
  const auto wrong = [&](std::string_view wanted, std::string hint = {}) -> Status {
    if (hint.empty()) hint = fmt::format("--{} {}: {}", option.name, option.value_name, option.about);
    return fail(ErrorCode::kUsage, fmt::format("--{} expects {}, not '{}'", option.name, wanted, value),
                std::move(hint));
  };
  if (value.empty()) {
    return fail(ErrorCode::kUsage, fmt::format("--{} has an empty value", option.name),
                fmt::format("--{} {}: {}; default: {}", option.name, option.value_name, option.about,
                            option.default_text.empty() ? "none" : option.default_text));
  }
  double number = 0;
  if (option.type == ValueType::kInteger) {
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), whole);
    if (error != std::errc() || end != value.data() + value.size()) return wrong("a whole number");
    number = static_cast<double>(whole);
  } else if (option.type == ValueType::kNumber) {
    char* end = nullptr;
    number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !std::isfinite(number)) return wrong("a number");
  }
  if (option.minimum && number < *option.minimum) return wrong(fmt::format("at least {}", *option.minimum));
  if (option.maximum && number > *option.maximum) return wrong(fmt::format("at most {:.0f}", *option.maximum));
  if (!option.choices.empty() &&
      std::find(option.choices.begin(), option.choices.end(), value) == option.choices.end()) {
    return wrong(fmt::format("one of {}", fmt::join(option.choices, ", ")), did_you_mean(value, option.choices));
  }
  return {};
}

const char* article(std::string_view name) {
  return !name.empty() && std::string_view("AEIOaeio").find(name.front()) != std::string_view::npos ? "an" : "a";
}

/// Gives each argument of the description its share, left to right, leaving enough for those after it.
Status distribute(const Verb& verb, const std::vector<std::string>& words, Values& values) {
  std::size_t needed = 0, at = 0;
  for (const Argument& argument : verb.arguments) needed += argument.min;
  for (const Argument& argument : verb.arguments) {
    needed -= argument.min;
    const std::size_t left = words.size() - at;
    if (left < argument.min) {
      return fail(
          ErrorCode::kUsage,
          fmt::format("{} needs {} {}", verb.name, argument.min > 1 ? "more" : article(argument.name), argument.name),
          argument.choices.empty() ? fmt::format("usage: foretrace {}", usage_line(verb))
                                   : fmt::format("one of: {}", fmt::join(argument.choices, ", ")));
    }
    const std::size_t take = std::min(argument.max, left > needed ? left - needed : argument.min);
    std::vector<std::string> share(words.begin() + static_cast<std::ptrdiff_t>(at),
                                   words.begin() + static_cast<std::ptrdiff_t>(at + take));
    at += take;
    for (const std::string& word : share) {
      const auto& choices = argument.choices;
      if (choices.empty() || std::find(choices.begin(), choices.end(), word) != choices.end()) continue;
      std::string hint = did_you_mean(word, choices);
      if (hint.empty()) hint = fmt::format("one of: {}", fmt::join(choices, ", "));
      return fail(ErrorCode::kUsage, fmt::format("{} does not know '{}'", verb.name, word), hint);
    }
    values.set_argument(argument.name, std::move(share));
  }
  if (at < words.size()) {
    return fail(ErrorCode::kUsage, fmt::format("{} takes no further argument '{}'", verb.name, words[at]),
                fmt::format("usage: foretrace {}", usage_line(verb)));
  }
  return {};
}

/// The place of the verb's name among the arguments: the first that is neither an option nor an option's value.
Result<std::size_t> verb_position(const std::vector<std::string>& args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (!looks_like_option(arg)) return i;
    if (arg == "--version") continue;
    const Option* option = find_option(shared_options(), arg);
    if (option == nullptr) return unknown_option(arg, nullptr);
    const bool value_follows =
        arg.starts_with("--") ? arg.find('=') == std::string::npos : arg.size() == 2;  // -oFILE holds its value
    if (option->type != ValueType::kFlag && value_follows) ++i;
  }
  return args.size();
}

tl::unexpected<Error> unknown_verb(const std::string& word) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.push_back(verb.name);
  std::string hint = did_you_mean(word, names);
  if (hint.empty() && word.find(".json") != std::string::npos) {
    hint = fmt::format("a verb comes first: `foretrace summary {}`", word);
  }
  if (hint.empty()) hint = fmt::format("verbs: {}", fmt::join(names, ", "));
  return fail(ErrorCode::kUsage, fmt::format("there is no verb '{}'", word), hint);
}

// Whether the answer is a text to read, not a file for a program.
bool for_people(const Verb& verb, const Values& values) {
  const bool writes_data = verb.name == "export" || verb.name == "report" || verb.name == "graph";
  return (verb.shares & kReading) != 0 && !writes_data && !values.flag("json") && !values.flag("markdown");
}

Result<Answer> answer_of(const Verb& verb, const Values& values, const Terminal& terminal,
                         const Extensions& extensions) {
  Request request;
  request.extensions = extensions;
  request.load.parquet = extensions.parquet;
  request.values = values;
  request.json = values.flag("json");
  request.style.width = terminal.width;
  request.style.all_columns = !terminal.width_known;
  request.style.utf8 = terminal.utf8;
  request.load.strict = values.flag("strict");
  request.load.partial = values.flag("partial");
  request.load.steps_by = values.text("steps-by").value_or("");
  request.load.threads = static_cast<unsigned>(std::min<std::int64_t>(values.integer("threads").value_or(0), 1024));
  if (const auto top = values.integer("top")) request.style.top = static_cast<std::size_t>(*top);
  const bool quiet = values.flag("quiet");
  ProgressBar bar(terminal.err, terminal.width);
  if (terminal.err_is_terminal && !quiet) {
    request.load.progress = [&bar](std::string_view what, std::uint64_t done, std::uint64_t total,
                                   std::string_view unit) { bar.update(what, done, total, unit); };
  }
  request.note = [&](const std::string& text) {
    bar.erase();
    if (!quiet) fmt::print(terminal.err, "{}\n", message_text("note: " + printable(text), terminal));
  };
  for (const std::string& file : values.all("plugin")) {
    if (!extensions.load_plugin) {
      return served_by_python("--plugin", "`python3 -m foretrace …`");
    }
    FORETRACE_TRY_VOID(extensions.load_plugin(file));
  }
  // main hands such verbs to Python before any verb runs; a program that embeds this one without Python gets here.
  if (verb.run == nullptr) {
    return served_by_python(verb.name,
                            fmt::format("{}, then: python3 -m foretrace {}", kInstallModule, usage_line(verb)));
  }
  const MemoryBound bound(values.number("max-memory"));
  try {
    return verb.run(request);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnreadable, fmt::format("this input needs more memory than {}", bound.text()),
                "--max-memory GB sets the bound; a trace needs about 100 bytes per event, a step about 600 per task");
  }
}

Answer help_answer(std::string text, bool json) {
  if (!json) return Answer{std::move(text)};
  return Answer{report::json_text([&](report::JsonWriter& writer) {
    writer.begin_object().member("schema", 1).member("help", text).end_object();
  })};
}

Result<Answer> dispatch(const std::vector<std::string>& args, const Terminal& terminal, const Extensions& extensions,
                        std::optional<std::string>& output) {
  const bool json = std::find(args.begin(), args.end(), "--json") != args.end();
  FORETRACE_TRY(const std::size_t at, verb_position(args));
  const auto before_verb = args.begin() + static_cast<std::ptrdiff_t>(at);
  if (std::find(args.begin(), before_verb, "--version") != before_verb) {
    return Answer{json ? fmt::format("{{\"schema\": 1, \"version\": \"{}\"}}\n", FORETRACE_VERSION)
                       : fmt::format("foretrace {}\n", FORETRACE_VERSION)};
  }
  std::vector<std::string> rest = args;
  if (at == args.size()) {
    const bool asked = std::any_of(args.begin(), args.end(), [](const auto& a) { return a == "--help" || a == "-h"; });
    if (asked) return help_answer(overview_help(terminal.width), json);
    return fail(ErrorCode::kUsage, "a verb is missing", "`foretrace --help` lists the verbs");
  }
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
  std::string name = args[at];
  if (name == "help") {  // as people type it
    std::erase_if(rest, looks_like_option);
    if (rest.empty()) return help_answer(overview_help(terminal.width), json);
    name = rest.front();
    rest = {"--help"};
    if (find_verb(name) == nullptr && whatif::find_whatif(name)) {
      rest = {"whatifs", name};
      if (json) rest.emplace_back("--json");
      name = "list";
    }
  }
  const Verb* verb = find_verb(name);
  if (verb == nullptr) return unknown_verb(name);
  const bool help = std::any_of(rest.begin(), rest.end(), [](const auto& a) { return a == "--help" || a == "-h"; });
  if (help) return help_answer(verb_help(*verb, terminal.width), json);
  FORETRACE_TRY(const Values values, parse(*verb, rest));
  output = values.text("output");
  FORETRACE_TRY(Answer answer, answer_of(*verb, values, terminal, extensions));
  const bool to_terminal = terminal.colour && (!output || *output == "-");
  if (for_people(*verb, values) && wants_colour(values.text("color").value_or("auto"), to_terminal)) {
    answer.body = coloured(answer.body);
  }
  return answer;
}

int print_error(const Error& error, bool json, const Terminal& terminal) {
  if (json) {
    const std::string out = report::json_text([&](report::JsonWriter& writer) { write_error(writer, error); });
    static_cast<void>(write_output(std::nullopt, terminal.out, out));
  } else {
    fmt::print(terminal.err, "{}\n", message_text("foretrace: error: " + error_text(error), terminal));
  }
  return exit_code(error);
}

}  // namespace

Result<Values> parse(const Verb& verb, const std::vector<std::string>& args) {
  const std::vector<Option> options = all_options(verb);
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::map<std::string, std::vector<std::string>> texts;
  std::map<std::string, bool> flags;
  std::vector<std::string> words;
  for (const Option& option : options) {
    const std::string names =
        option.letter != 0 ? fmt::format("-{},--{}", option.letter, option.name) : "--" + option.name;
    if (option.type == ValueType::kFlag) {
      app.add_flag(names, flags[option.name]);
    } else {
      app.add_option(names, texts[option.name])->expected(1)->allow_extra_args(false)->take_all();
    }
  }
  app.add_option("arguments", words)->expected(0, -1);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    const bool mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
    if (mismatch) what = fmt::format("{} needs a value", what.substr(0, what.find(':')));
    return fail(ErrorCode::kUsage, what, fmt::format("`foretrace {} --help` shows its options", verb.name));
  }
  for (const std::string& extra : app.remaining()) {
    if (looks_like_option(extra) && extra != "--") return unknown_option(extra, &verb);
  }
  Values values;
  for (const Option& option : options) {
    if (option.type == ValueType::kFlag) {
      if (flags[option.name]) values.add_option(option.name, "1");
      continue;
    }
    const std::vector<std::string>& given = texts[option.name];
    if (given.size() > 1 && !option.repeats)
      return fail(ErrorCode::kUsage, fmt::format("--{} is given {} times", option.name, given.size()), "give it once");
    for (const std::string& value : given) {
      FORETRACE_TRY_VOID(check_value(option, value));
      values.add_option(option.name, value);
    }
  }
  FORETRACE_TRY_VOID(distribute(verb, words, values));
  return values;
}

int report_error(const Error& error, const std::vector<std::string>& args, const Terminal& terminal) {
  return print_error(error, std::find(args.begin(), args.end(), "--json") != args.end(), terminal);
}

int run(const std::vector<std::string>& args, const Terminal& terminal, const Extensions& extensions) {
  const bool json = std::find(args.begin(), args.end(), "--json") != args.end();
  try {
    if (args.empty()) {
      static_cast<void>(write_output(std::nullopt, terminal.err, overview_help(terminal.width)));
      return kWrongUsage;
    }
    std::optional<std::string> output;
    Result<Answer> answer = dispatch(args, terminal, extensions, output);
    if (!answer) return print_error(answer.error(), json, terminal);
    if (answer->wrote_output) output.reset();
    const Status written = write_output(output, terminal.out, answer->body);
    if (!written) return print_error(written.error(), json && output.has_value(), terminal);
    return answer->exit_code;
  } catch (const std::bad_alloc&) {
    return print_error({ErrorCode::kUnreadable,
                        "not enough memory for this input",
                        {},
                        Error::kNoOffset,
                        "--max-memory GB sets the bound; a trace needs about 100 bytes per event"},
                       json, terminal);
  } catch (const std::exception& bug) {
    return print_error({ErrorCode::kInternal,
                        fmt::format("internal error: {}", bug.what()),
                        {},
                        Error::kNoOffset,
                        "please report this with the command you ran"},
                       json, terminal);
  }
}

}  // namespace foretrace::cli
