#include "cli/completion.hpp"

#include <fmt/format.h>

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

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.push_back(verb.name);
  return names;
}

std::vector<std::string> argument_choices(const Verb& verb) {
  return verb.arguments.empty() ? std::vector<std::string>{} : verb.arguments.front().choices;
}

std::string bash() {
  std::string out =
      "# bash completion for foretrace:  source <(foretrace completion bash)\n"
      "_foretrace() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" verb='' i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"${COMP_WORDS[i]}\" in\n";
  out += fmt::format("      {}) verb=\"${{COMP_WORDS[i]}}\"; break ;;\n", [] {
    std::string pattern;
    for (const std::string& name : verb_names()) pattern += (pattern.empty() ? "" : "|") + name;
    return pattern;
  }());
  out += "    esac\n  done\n  local words='' files=''\n  case \"$verb\" in\n";
  out += fmt::format("    '') words='{} --help --version' ;;\n", joined(verb_names()));
  for (const Verb& verb : verbs()) {
    std::vector<std::string> words = argument_choices(verb);
    std::string values, file_options, chosen;
    for (const Option& option : all_options(verb)) {
      words.push_back("--" + option.name);
      if (option.type == ValueType::kFlag) continue;
      const std::string pattern =
          option.letter != 0 ? fmt::format("-{}|--{}", option.letter, option.name) : "--" + option.name;
      if (!option.choices.empty()) {
        chosen += fmt::format("        {}) words='{}' files='' ;;\n", pattern, joined(option.choices));
        continue;
      }
      std::string& list = option.type == ValueType::kFile ? file_options : values;
      list += (list.empty() ? "" : "|") + pattern;
    }
    out += fmt::format("    {})\n      words='{}'\n", verb.name, joined(words));
    if (argument_choices(verb).empty()) out += "      files=1\n";
    out += "      case \"$previous\" in\n";
    if (!file_options.empty()) out += fmt::format("        {}) words='' files=1 ;;\n", file_options);
    if (!values.empty()) out += fmt::format("        {}) return ;;\n", values);
    out += chosen;
    out += "      esac ;;\n";
  }
  out +=
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  if [[ -n $files && $word != -* ]]; then\n"
      "    compopt -o filenames 2>/dev/null\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "  fi\n"
      "}\n"
      "complete -F _foretrace foretrace\n";
  return out;
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
  out += "      )\n      _describe verb names ;;\n    rest)\n      case $words[1] in\n";
  for (const Verb& verb : verbs()) {
    out += fmt::format("        {})\n          _arguments", verb.name);
    for (const Option& option : all_options(verb)) {
      std::string value;
      if (option.type != ValueType::kFlag) {
        value = fmt::format(":{}:{}", zsh_text(option.value_name),
                            option.type == ValueType::kFile ? "_files"
                            : option.choices.empty()        ? ""
                                                            : fmt::format("({})", joined(option.choices)));
      }
      out += fmt::format(" \\\n            '--{}[{}]{}'", option.name, zsh_text(option.about), value);
      if (option.letter != 0)
        out += fmt::format(" \\\n            '-{}[{}]{}'", option.letter, zsh_text(option.about), value);
    }
    const std::vector<std::string> choices = argument_choices(verb);
    if (!verb.arguments.empty()) {
      out += fmt::format(" \\\n            '*:{}:{}'", zsh_text(verb.arguments.front().name),
                         choices.empty() ? "_files" : fmt::format("({})", joined(choices)));
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
  const std::string names = joined(verb_names());
  for (const Verb& verb : verbs()) {
    out += fmt::format("complete -c foretrace -f -n 'not __fish_seen_subcommand_from {}' -a {} -d '{}'\n", names,
                       verb.name, quoted(verb.about));
    const std::string here = fmt::format("complete -c foretrace -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const std::string& choice : argument_choices(verb)) out += fmt::format("{} -f -a {}\n", here, choice);
    for (const Option& option : all_options(verb)) {
      out += fmt::format("{} -l {}", here, option.name);
      if (option.letter != 0) out += fmt::format(" -s {}", option.letter);
      if (option.type == ValueType::kFile) out += " -r -F";
      if (option.type != ValueType::kFlag && option.type != ValueType::kFile) out += " -x";
      if (!option.choices.empty()) out += fmt::format(" -a '{}'", joined(option.choices));
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
