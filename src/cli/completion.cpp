#include "cli/completion.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/verbs.hpp"

namespace foretrace::cli {
namespace {

/// Within '…' of any of the three shells.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out;
}

/// Colons and brackets end a description in zsh's _arguments.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : quoted(text)) {
    if (c == ':' || c == '[' || c == ']') out += '\\';
    out += c;
  }
  return out;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.push_back(verb.name);
  return names;
}

/// All words that may stand as arguments: the choices and suggestions of all of them.
std::vector<std::string> argument_words(const Verb& verb) {
  std::vector<std::string> words;
  for (const Argument& argument : verb.arguments) {
    words.insert(words.end(), argument.choices.begin(), argument.choices.end());
    words.insert(words.end(), argument.suggestions.begin(), argument.suggestions.end());
  }
  return words;
}

bool takes_files(const Verb& verb) {
  return std::any_of(verb.arguments.begin(), verb.arguments.end(), [](const Argument& a) { return a.choices.empty(); });
}

const std::vector<std::string>& offered(const Option& option) {
  return option.choices.empty() ? option.suggestions : option.choices;
}

std::string bash() {
  std::string out =
      "# bash completion for foretrace:  source <(foretrace completion bash)\n"
      "_foretrace() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" verb='' i\n"
      "  # bash splits amp:dtype=bf16 at : and =\n"
      "  for ((i = COMP_CWORD; i > 1; i--)); do\n"
      "    [[ ${COMP_WORDS[i]} == [:=]* || ${COMP_WORDS[i-1]} == *[:=] ]] || break\n"
      "    word=\"${COMP_WORDS[i-1]}$word\"\n"
      "  done\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"${COMP_WORDS[i]}\" in\n";
  out += fmt::format("      {}) verb=\"${{COMP_WORDS[i]}}\"; break ;;\n", fmt::join(verb_names(), "|"));
  out += "    esac\n  done\n  local words='' options='--help --version' files=''\n  case \"$verb\" in\n";
  out += fmt::format("    '') words='{}' ;;\n", joined(verb_names()));
  for (const Verb& verb : verbs()) {
    std::vector<std::string> options;
    std::string values, file_options, chosen;
    for (const Option& option : all_options(verb)) {
      options.push_back("--" + option.name);
      if (option.type == ValueType::kFlag) continue;
      const std::string pattern =
          option.letter != 0 ? fmt::format("-{}|--{}", option.letter, option.name) : "--" + option.name;
      if (!offered(option).empty()) {
        chosen += fmt::format("        {}) words='{}' options='' files={} ;;\n", pattern, joined(offered(option)),
                              option.choices.empty() ? "1" : "''");
        continue;
      }
      std::string& list = option.type == ValueType::kFile ? file_options : values;
      list += (list.empty() ? "" : "|") + pattern;
    }
    out += fmt::format("    {})\n      words='{}'\n      options='{}'\n", verb.name, joined(argument_words(verb)),
                       joined(options));
    if (takes_files(verb)) out += "      files=1\n";
    out += "      case \"$previous\" in\n";
    if (!file_options.empty()) out += fmt::format("        {}) words='' options='' files=1 ;;\n", file_options);
    if (!values.empty()) out += fmt::format("        {}) return ;;\n", values);
    out += chosen;
    out += "      esac ;;\n";
  }
  out += "  esac\n";
  out += fmt::format("  if [[ $word == *:* ]]; then words='{}' files=''; fi\n", joined(parameter_words()));
  out +=
      "  if [[ $word == -* ]]; then words=$options files=''; fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  if [[ $word == *:* ]]; then\n"
      "    COMPREPLY=(\"${COMPREPLY[@]#\"${word%\"${word##*[:=]}\"}\"}\")\n"
      "    [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null\n"
      "  fi\n"
      "  if [[ -n $files ]]; then\n"
      "    compopt -o filenames 2>/dev/null\n"
      "    COMPREPLY+=($(compgen -f -- \"$word\"))\n"
      "  fi\n"
      "}\n"
      "complete -F _foretrace foretrace\n";
  return out;
}

std::string zsh_values(const Argument& argument) {
  if (!argument.choices.empty()) return fmt::format("({})", joined(argument.choices));
  if (argument.suggestions.empty()) return "_files";
  return "_alternative \"files:file:_files\" \"names:name:(" + joined(argument.suggestions) + ")\"";
}

std::string zsh() {
  std::string out =
      "#compdef foretrace\n"
      "# zsh completion for foretrace:  foretrace completion zsh > ~/.zfunc/_foretrace\n"
      "_foretrace() {\n"
      "  local context state line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C '--help[show help]' '--version[show the version]' '1:verb:->verb' '*::argument:->rest'\n"
      "  case $state in\n"
      "    verb)\n"
      "      local -a names=(\n";
  for (const Verb& verb : verbs()) out += fmt::format("        '{}:{}'\n", verb.name, zsh_text(verb.about));
  out += "      )\n      _describe verb names ;;\n    rest)\n";
  out += fmt::format("      if [[ $words[CURRENT] == *:* ]]; then compadd -S '' -- {}; return; fi\n",
                     joined(parameter_words()));
  out += "      case $words[1] in\n";
  for (const Verb& verb : verbs()) {
    out += fmt::format("        {})\n          _arguments", verb.name);
    for (const Option& option : all_options(verb)) {
      std::string value;
      if (option.type != ValueType::kFlag) {
        value = fmt::format(":{}:{}", zsh_text(option.value_name),
                            option.type == ValueType::kFile ? "_files"
                            : offered(option).empty()       ? ""
                                                            : fmt::format("({})", joined(offered(option))));
      }
      out += fmt::format(" \\\n            '--{}[{}]{}'", option.name, zsh_text(option.about), value);
      if (option.letter != 0)
        out += fmt::format(" \\\n            '-{}[{}]{}'", option.letter, zsh_text(option.about), value);
    }
    for (std::size_t i = 0; i < verb.arguments.size(); ++i) {
      const Argument& argument = verb.arguments[i];
      const std::string place = argument.max > 1 ? "*" : fmt::format("{}", i + 1);
      out += fmt::format(" \\\n            '{}:{}:{}'", place, zsh_text(argument.name), zsh_values(argument));
    }
    out += " ;;\n";
  }
  out +=
      "      esac ;;\n"
      "  esac\n"
      "}\n"
      "if [ \"$funcstack[1]\" = \"_foretrace\" ]; then _foretrace \"$@\"; else compdef _foretrace foretrace; fi\n";
  return out;
}

std::string fish() {
  std::string out = "# fish completion for foretrace:  foretrace completion fish | source\n";
  out += fmt::format("complete -c foretrace -f -n 'string match -q \"*:*\" -- (commandline -ct)' -a '{}'\n",
                     joined(parameter_words()));
  const std::string names = joined(verb_names());
  for (const Verb& verb : verbs()) {
    out += fmt::format("complete -c foretrace -f -n 'not __fish_seen_subcommand_from {}' -a {} -d '{}'\n", names,
                       verb.name, quoted(verb.about));
    const std::string here = fmt::format("complete -c foretrace -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const std::string& word : argument_words(verb)) {
      out += fmt::format("{}{} -a {}\n", here, takes_files(verb) ? "" : " -f", word);
    }
    for (const Option& option : all_options(verb)) {
      out += fmt::format("{} -l {}", here, option.name);
      if (option.letter != 0) out += fmt::format(" -s {}", option.letter);
      if (option.type == ValueType::kFile) out += " -r -F";
      if (option.type != ValueType::kFlag && option.type != ValueType::kFile) out += " -x";
      if (!offered(option).empty()) out += fmt::format(" -a '{}'", joined(offered(option)));
      out += fmt::format(" -d '{}'\n", quoted(option.about));
    }
  }
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  return shell == "fish" ? fish() : std::string();
}

}  // namespace foretrace::cli
