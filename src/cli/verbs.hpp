#pragma once
// The list of verbs, in the order the help shows them.

#include <vector>

#include "cli/verb.hpp"

namespace foretrace::cli {

const std::vector<Verb>& verbs();
/// nullptr when there is none of that name.
const Verb* find_verb(std::string_view name);

Verb doctor_verb();
Verb summary_verb();
Verb replay_verb();
Verb ranks_verb();
Verb whatif_verb();
Verb advise_verb();
Verb gpus_verb();
Verb scale_verb();
Verb plan_verb();
Verb export_verb();
Verb graph_verb();
Verb list_verb();
Verb optimize_verb();
Verb completion_verb();
Verb calibrate_verb();
Verb record_verb();
Verb compare_verb();
Verb report_verb();

/// `foretrace list whatifs`: the catalogue and what plugins added, as a table, in full, for the documentation or as JSON.
Result<Answer> list_whatifs(const Request& request);

}  // namespace foretrace::cli
