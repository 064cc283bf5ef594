#pragma once
// A verb of the command line: one file, verb_<name>.cpp, that describes itself and answers a request. Parsing, help,
// shell completion and "did you mean" all come from the description. A new verb is one file and one line in verbs.cpp.
//
//   Verb hello_verb() {
//     return {.name = "hello", .about = "greet a trace",
//             .arguments = {{"TRACE", "a trace file"}},
//             .options = {flag("loud", "in capitals").letter_is('l')},
//             .examples = {{"foretrace hello trace.json.gz", "greets politely"}},
//             .shares = kReading,
//             .run = [](const Request& r) -> Result<Answer> { return Answer{"hello\n"}; }};
//   }

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::cli {

enum class ValueType : std::uint8_t { kFlag, kInteger, kNumber, kText, kFile };

struct Option {
  std::string name;  ///< "step", written --step
  ValueType type = ValueType::kFlag;
  std::string value_name = {};    ///< "N", "FILE"; empty for flags
  std::string default_text = {};  ///< for the help: "the median step"
  std::string about = {};
  char letter = 0;                               ///< 'o' for -o; 0 when there is none
  std::vector<std::string> choices = {};         ///< the only values allowed, when not empty
  std::optional<double> minimum = std::nullopt;  ///< of numbers
  std::optional<double> maximum = std::nullopt;
  std::vector<std::string> suggestions = {};  ///< values the shell offers; others are allowed
  bool repeats = false;                       ///< may be given several times

  Option letter_is(char c) && {
    letter = c;
    return std::move(*this);
  }
  Option at_least(double least) && {
    minimum = least;
    return std::move(*this);
  }
  Option at_most(double most) && {
    maximum = most;
    return std::move(*this);
  }
  Option one_of(std::vector<std::string> all) && {
    choices = std::move(all);
    return std::move(*this);
  }
  Option suggesting(std::vector<std::string> some) && {
    suggestions = std::move(some);
    return std::move(*this);
  }
  Option repeated() && {
    repeats = true;
    return std::move(*this);
  }
};
inline Option flag(std::string name, std::string about) { return {.name = std::move(name), .about = std::move(about)}; }
/// An option with a value: its type, name, the value's name, the default as the help words it, and what it is.
inline Option option(ValueType type, std::string name, std::string value, std::string otherwise, std::string about) {
  return {std::move(name), type, std::move(value), std::move(otherwise), std::move(about)};
}

struct Argument {
  std::string name;  ///< "TRACE"
  std::string about;
  std::size_t min = 1;
  std::size_t max = 1;                    ///< kAny: no limit
  std::vector<std::string> choices = {};  ///< the only values allowed, when not empty; else the shell completes files
  std::vector<std::string> suggestions = {};  ///< words the shell offers in addition to files
  static constexpr std::size_t kAny = SIZE_MAX;
};

struct Example {
  std::string command;
  std::string about;
};

/// What was asked for, checked against the description: numbers are numbers, choices are among the choices.
class Values {
 public:
  [[nodiscard]] bool flag(std::string_view option) const { return given_.find(option) != given_.end(); }
  [[nodiscard]] std::optional<std::string> text(std::string_view option) const;  ///< the first, of one that repeats
  [[nodiscard]] const std::vector<std::string>& all(std::string_view option) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view option) const;
  [[nodiscard]] std::optional<double> number(std::string_view option) const;
  [[nodiscard]] const std::vector<std::string>& argument(std::string_view name) const;

  void add_option(std::string name, std::string value) { given_[std::move(name)].push_back(std::move(value)); }
  void set_argument(std::string name, std::vector<std::string> values) {
    arguments_[std::move(name)] = std::move(values);
  }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> given_;
  std::map<std::string, std::vector<std::string>, std::less<>> arguments_;
};

struct Request {
  Values values;
  bool json = false;
  report::TextStyle style;
  Extensions extensions;                         ///< of the embedding program
  trace::LoadOptions load;                       ///< --threads, --strict, --partial, and the progress bar
  std::function<void(const std::string&)> note;  ///< one line for people, on stderr; silent with --quiet
};

struct Answer {
  std::string body;  ///< text or JSON, as asked, ending with a newline
  int exit_code = kDone;
  bool wrote_output = false;  ///< the verb wrote -o FILE itself; the body goes to standard output
};

/// Groups of options that several verbs share.
enum SharedOptions : unsigned {
  kCalibration = 1,  ///< --measured-ms, --host
  kPlugins = 2,      ///< --plugin: the user's own what-ifs, loaded before the verb runs
  kStep = 4,         ///< --step, --rank
  kReading = 8,      ///< --max-memory, --partial, --steps-by, --strict, --threads, --quiet
  kPrediction = kCalibration | kPlugins | kStep | kReading,
};

struct Verb {
  std::string name;
  std::string about;         ///< one line, no period
  std::string details = {};  ///< a paragraph for --help; may be empty
  std::vector<Argument> arguments = {};
  std::vector<Option> options = {};
  std::vector<Example> examples = {};
  unsigned shares = 0;                                      ///< a sum of SharedOptions
  Result<Answer> (*run)(const Request& request) = nullptr;  ///< null: only the Python command has this verb
};

/// All options a verb takes, its own first, then those it shares with others.
std::vector<Option> all_options(const Verb& verb);
/// Every option any verb shares; they may stand before the verb's name.
const std::vector<Option>& shared_options();

/// The entries of an option that takes a list separated by commas; empty when it is not given. A list of nothing but commas is an
/// error.
Result<std::vector<std::string>> entries_of(const Values& values, std::string_view option);

/// Options some verbs take, with one meaning: each is described here and nowhere else.
Option step_option();
Option memory_option();
Option top_option();
Option batch_option();
Option residuals_option();
Option code_option();
Option ray_option(std::string about);
/// --fabric, --collectives, --collectives-tag, --gpus-per-node: the network between workers.
std::vector<Option> network_options();
/// Names for the shell to offer.
std::vector<std::string> whatif_names();
/// What may follow the name of a what-if: "amp:dtype=bf16", "batch:x=".
std::vector<std::string> parameter_words();
/// -o of a verb that writes something other than its answer, or has a default.
Option output_option(std::string otherwise, std::string about);
std::vector<std::string> device_names();
std::vector<Option> operator+(std::vector<Option> some, const std::vector<Option>& more);

/// Splits `args` (without the verb's name) into options and arguments, and checks them. Errors are kUsage.
Result<Values> parse(const Verb& verb, const std::vector<std::string>& args);

}  // namespace foretrace::cli
