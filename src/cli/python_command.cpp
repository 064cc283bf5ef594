#include "cli/python_command.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/install_hint.hpp"

namespace foretrace::cli {

namespace {

constexpr int kNotFound = 127;  // as shells say it

// A folder of that name in the working directory is a namespace without an origin, not the module.
constexpr const char* kIsInstalled =
    "import importlib.util, sys; s = importlib.util.find_spec('foretrace'); sys.exit(0 if s and s.origin else 1)";

constexpr std::string_view kVerbs[] = {"calibrate", "record"};  // both need PyTorch
constexpr std::string_view kOptions[] = {"--plugin", "--ray"};
constexpr std::string_view kPacked = "parquet", kAsked = "=parquet";  // a format that pyarrow writes

/// The first option among the arguments that needs Python; empty when there is none.
std::string_view python_option(const std::vector<std::string>& args) {
  for (const std::string_view verb : kVerbs) {
    if (!args.empty() && args.front() == verb) return verb;
  }
  for (const std::string& arg : args) {
    if (arg == "--") break;
    for (const std::string_view option : kOptions) {
      if (arg.substr(0, arg.find('=')) == option) return option;
    }
    // What an option that takes formats asks for: as a word of its own or behind '='.
    if (args.front() == "export" && (arg == kPacked || arg.ends_with(kAsked))) return kPacked;
  }
  return {};
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

/// The exit status of a command, kNotFound when there is no such program.
int status_of(std::vector<std::string> words) {
  std::vector<char*> argv = pointers(words);
  const pid_t child = fork();
  if (child < 0) return kNotFound;
  if (child == 0) {
    execvp(argv[0], argv.data());
    _exit(kNotFound);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return kNotFound;
  return WEXITSTATUS(status);
}

}  // namespace

bool needs_python(const std::vector<std::string>& args) {
  const auto end = std::find(args.begin(), args.end(), "--");  // behind it stands someone else's command
  const bool help = std::any_of(args.begin(), end, [](const auto& a) { return a == "--help" || a == "-h"; });
  return !help && !python_option(args).empty();
}

Error hand_to_python(const std::vector<std::string>& args) {
  Error error;
  error.code = ErrorCode::kUsage;
  const int found = status_of({"python3", "-c", kIsInstalled});
  if (found == kNotFound) {
    error.message = fmt::format("{} needs Python, and there is no python3 on the PATH", python_option(args));
    error.hint = fmt::format("install Python 3.10 or later, then {}", kInstallModule);
    return error;
  }
  if (found == 0) {
    std::vector<std::string> words{"python3", "-m", "foretrace"};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv = pointers(words);
    execvp(argv[0], argv.data());
  }
  error.message =
      fmt::format("{} needs foretrace's Python module, which this python3 does not have", python_option(args));
  error.hint = fmt::format("{}, for the python3 on the PATH", kInstallModule);
  return error;
}

}  // namespace foretrace::cli
