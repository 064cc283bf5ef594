#pragma once
// The kind of a job, and what its process groups move, as text and JSON.

#include <string>

#include "analysis/ranks_step.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/report/report.hpp"
#include "ranks/group_traffic.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// Empty where nothing is known.
std::string kind_text(const analysis::RanksReport& report, const TextStyle& style);
/// Members of the object that is open.
void write_kind(JsonWriter& json, const ranks::JobKind& kind);

/// "dp all-reduce": what a collective is there for, and which it is.
std::string purpose_of(const analysis::RanksStep& step, const ranks::Rendezvous& meeting);
/// Traffic::bubble on the clock of the job's graph. `rank` is an index into the job.
ranks::Intervals bubble_of(const ranks::Job& job, const analysis::RanksStep& step, const ranks::Traffic& traffic,
                           std::uint32_t rank);

}  // namespace foretrace::report
