#include "cli/completion.hpp"
#include "cli/verbs.hpp"
#include "report/json_writer.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> run_completion(const Request& request) {
  const std::string& shell = request.values.argument("SHELL").front();
  const std::string script = completion_script(shell);
  if (!request.json) return Answer{script};
  return Answer{report::json_text([&](report::JsonWriter& json) {
    json.begin_object().member("schema", 1).member("shell", shell).member("script", script).end_object();
  })};
}

}  // namespace

Verb completion_verb() {
  return {.name = "completion",
          .about = "a script that lets the shell complete verbs, options and files",
          .arguments = {{"SHELL", "the shell", 1, 1, {"bash", "zsh", "fish"}}},
          .examples = {{"source <(foretrace completion bash)", "for this shell; in ~/.bashrc for all"},
                       {"foretrace completion zsh > ~/.zfunc/_foretrace", "with ~/.zfunc in fpath"},
                       {"foretrace completion fish > ~/.config/fish/completions/foretrace.fish", "for fish"}},
          .run = run_completion};
}

}  // namespace foretrace::cli
