#pragma once
// The verdict on a step as every report shows it.

#include <string>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// What the profiler made of the step: "with the profiler, as traced: 80.56 ms, CPU-bound". The bound is named where it differs
/// from that of the step without the profiler. `cold`: the time is that of a cold step without its start-up work.
std::string with_profiler(const analysis::StepVerdict& verdict, const std::string& traced_ms, bool cold);

/// One sentence about the step without the profiler, then with_profiler(). Each on lines of its own.
std::string verdict_text(const analysis::StepVerdict& verdict, const std::string& traced_ms, bool cold,
                         const TextStyle& style, std::size_t indent);

/// "bottleneck" (as traced), "unprofiled_bottleneck", "bound_by", "traced_bound_by", "shortens_by_pct".
void write_verdict(JsonWriter& json, const analysis::StepVerdict& verdict);

/// "rank 3 of 8 alone: …", and "one_rank" in JSON; nothing and null when the step belongs to no job.
std::string one_rank_text(const std::optional<analysis::OneRank>& one, const TextStyle& style, std::size_t indent);
void write_one_rank(JsonWriter& json, const std::optional<analysis::OneRank>& one);

}  // namespace foretrace::report
