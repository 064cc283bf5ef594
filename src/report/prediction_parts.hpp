#pragma once
// What all reports of predictions share: the first line, a time and its band, bytes, the baseline.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// "trace.json.gz, ProfilerStep#4, H200-SXM"
std::string headline(const std::string& file, const std::string& step, const std::string& device);

std::string short_ms(Ns time);                             ///< "71.34"
std::string band(Ns low, Ns high);                         ///< "70.48 .. 72.21"
std::string times(double factor);                          ///< "1.50 x"
std::string gigabytes(std::optional<std::int64_t> bytes);  ///< "5.96 GB", powers of 1000 as on the box; "-"

/// "71.40 ms without the profiler [70.80, 72.60], peak 5.96 GB, 6.85 GB reserved"; a measured step comes first:
/// "71.60 ms measured without the profiler (simulated 71.45 ms [70.94, 72.65])"
std::string now_text(const analysis::StepFigures& baseline);

/// (name, text) pairs grouped by text: each text once, with all its names, "batch:x=2, batch:x=4".
std::vector<std::pair<std::string, std::string>> by_text(const std::vector<std::pair<std::string, std::string>>& named);

/// What does not apply, and why. Each reason once, with all names it holds for: "    amp, tf32: no GPU work …".
std::string reasons_text(const std::vector<std::pair<std::string, std::string>>& declined, const TextStyle& style);

/// What is to be known of the baseline, each on its line: start-up work that was taken out, a measured step that is not used.
std::string baseline_notes(const analysis::StepFigures& baseline, const TextStyle& style);

/// What is not steady about the step, indented, on a line of its own; empty where nothing is.
std::string steadiness_line(const std::string& steadiness, const TextStyle& style);

/// The member "steadiness", where there is something to say.
void write_steadiness(JsonWriter& json, const std::string& steadiness);
/// The same with its times: "startup_ms", "allocator_ms".
void write_steadiness(JsonWriter& json, const analysis::StepFigures& step);

/// The member "measured_refused", where there is such a reason.
void write_refused(JsonWriter& json, const std::string& why);

/// What a peak consists of, part by part, as tables and JSON name it: ("parameters", bytes), …
std::vector<std::pair<std::string_view, std::int64_t>> peak_parts(const memory::Composition& of);
/// The member "peak_parts", bytes by part; nothing where the peak is unknown.
void write_peak_parts(JsonWriter& json, const std::optional<memory::Composition>& of);

/// One line about the job whose ranks are simulated together; empty where the step is of one trace.
std::string job_text(const std::optional<analysis::JobFigures>& job, const TextStyle& style);
/// The member "job".
void write_job(JsonWriter& json, const analysis::JobFigures& job);
/// The member "ranks": where each rank of a job spends its step.
void write_ranks(JsonWriter& json, const std::vector<whatif::RankTime>& ranks);

/// Opens the object of a report about one step: "schema", "verb", "file", "step", "device".
void begin_report(JsonWriter& json, std::string_view verb, const analysis::StepFigures& step);

/// The members "ms", "low_ms" and "high_ms".
JsonWriter& write_times(JsonWriter& json, const whatif::Prediction& p);

/// The step without this part of a strategy; nothing where it could not be predicted.
std::optional<Ns> without(const search::OptimizedPart& part);

/// A paragraph behind a blank line, indented by two columns, its further lines by four.
std::string paragraph(std::string_view text, const TextStyle& style);

/// The members of "baseline" that whatif and advise share; the object is open before and after.
void write_baseline(JsonWriter& json, const analysis::StepFigures& baseline);

/// The list "not modelled, or good to know", each note once; empty where there is none.
std::string not_modelled_text(const std::vector<const std::vector<std::string>*>& lists, const TextStyle& style);

/// What the reader of these predictions has to know of their figures: where a bound decided, what supports large gains, and what the
/// trace leaves open that makes bands wide. Empty where there is nothing of this.
std::string trust_text(const std::vector<const whatif::Prediction*>& predictions, const TextStyle& style);

/// What a prediction says about itself: "origin", "validated", "measured_rows", "measured_models", "bound_ms", "bound_source",
/// "bound_decided", "band_reasons", "not_modelled".
JsonWriter& write_trust(JsonWriter& json, const whatif::Prediction& p);

}  // namespace foretrace::report
