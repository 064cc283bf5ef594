#include "cli/verbs.hpp"

#include <algorithm>

namespace foretrace::cli {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> list{
      doctor_verb(),     summary_verb(),   replay_verb(),   whatif_verb(),  advise_verb(), gpus_verb(),
      scale_verb(),      ranks_verb(),     optimize_verb(), export_verb(),  graph_verb(),  list_verb(),
      completion_verb(), calibrate_verb(), record_verb(),   compare_verb(), report_verb(), plan_verb(),
  };
  return list;
}

const Verb* find_verb(std::string_view name) {
  const auto at = std::find_if(verbs().begin(), verbs().end(), [&](const Verb& verb) { return verb.name == name; });
  return at == verbs().end() ? nullptr : &*at;
}

}  // namespace foretrace::cli
