#pragma once
// The list of verbs, in the order the help shows them.

#include <vector>

#include "cli/verb.hpp"

namespace foretrace::cli {

const std::vector<Verb>& verbs();
/// nullptr when there is none of that name.
const Verb* find_verb(std::string_view name);

const Verb& doctor_verb();
const Verb& summary_verb();
const Verb& replay_verb();
const Verb& ranks_verb();
const Verb& whatif_verb();
const Verb& advise_verb();
const Verb& gpus_verb();
const Verb& scale_verb();
const Verb& export_verb();
const Verb& graph_verb();
const Verb& list_verb();
const Verb& optimize_verb();
const Verb& completion_verb();
const Verb& calibrate_verb();
const Verb& record_verb();
const Verb& compare_verb();
const Verb& report_verb();

}  // namespace foretrace::cli
