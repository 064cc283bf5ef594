#pragma once
// Reports: what the verbs of the command line print, from the results of the other folders. Every report renders as text for a
// terminal and as JSON; JSON objects start with "schema": 1, and docs/ lists their keys.
//
//   const WhatIfReport report{.baseline = base.figures, .predictions = {analysis::predict(base, {})}};
//   to_text(report, style);
//   to_json(report);
//
// Nothing here computes a prediction, and nothing looks at the terminal: the caller describes it in a TextStyle.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/search/optimize.hpp"

// Include the header of what you render: analysis/{summary,doctor,replay,ranks}.hpp, compare/compare.hpp, ranks/job.hpp.
namespace foretrace::analysis {
struct DoctorReport;
struct GpusReport;
struct RanksReport;
struct SummaryReport;
struct TraceReplay;
}  // namespace foretrace::analysis
namespace foretrace::compare {
struct Comparison;
struct JobComparison;
}  // namespace foretrace::compare
namespace foretrace::ranks {
struct PipelineAnswers;
struct PipelineJob;
}  // namespace foretrace::ranks

namespace foretrace::report {

struct TextStyle {
  std::size_t width = 100;  ///< columns of the terminal; long names are shortened in the middle to fit
  bool utf8 = true;         ///< false: marks and bars in plain ASCII
  bool all_columns = true;  ///< false: tables too wide for a narrow terminal leave out their least important columns
  std::size_t top = 10;     ///< rows shown of each long table; the rest is summed up in one line
};

/// `whatif`: predictions next to the baseline they start from.
struct WhatIfReport {
  analysis::StepFigures baseline;
  std::vector<whatif::Prediction> predictions;
  std::optional<double> batch = {};  ///< samples in the traced step, where the user gave it
};
std::string to_text(const WhatIfReport& report, const TextStyle& style);
/// `plan`: a strategy that was asked for too, shown as `optimize` shows its own.
std::string to_json(const WhatIfReport& report, const search::Optimized* plan = nullptr);

/// `advise`: what to switch on, ranked by gain.
struct AdviseReport {
  analysis::StepFigures baseline;
  search::Advised advised;
};
std::string to_text(const AdviseReport& report, const TextStyle& style);
std::string to_json(const AdviseReport& report);

/// `optimize`: the best strategy found, what each part of it gains, and how to switch it on.
struct OptimizeReport {
  analysis::StepFigures base;
  search::Optimized found;
};
std::string to_text(const OptimizeReport& report, const TextStyle& style);
std::string to_json(const OptimizeReport& report);
/// The file that `whatif --strategy` reads.
std::string strategy_json(const search::Strategy& strategy);
/// A short PyTorch script that switches the strategy on; a comment on every line gives its predicted gain.
std::string pytorch_script(const OptimizeReport& report);
/// The script for what the step of the baseline does: one that trains, or one that runs a model without training it.
std::string script_for(const analysis::Baseline& baseline, const OptimizeReport& report);

/// `gpus`: the same step on other GPUs.
std::string to_text(const analysis::GpusReport& report, const TextStyle& style);
std::string to_json(const analysis::GpusReport& report);

/// `summary`: where the time of one step goes.
std::string to_text(const analysis::SummaryReport& report, const TextStyle& style = {});
std::string to_json(const analysis::SummaryReport& report);

/// `doctor`: what a trace holds and lacks.
std::string to_text(const analysis::DoctorReport& report, const TextStyle& style = {});
std::string to_json(const analysis::DoctorReport& report);

/// `replay`: how well simulating the unchanged steps reproduces their measured length.
std::string to_text(const analysis::TraceReplay& replay, const TextStyle& style = {});
std::string to_json(const analysis::TraceReplay& replay);

/// `compare`: two runs of one program.
std::string to_text(const compare::Comparison& comparison, const TextStyle& style = {});
std::string to_json(const compare::Comparison& comparison);
/// For a comment under a pull request: sentences, then folded tables.
std::string to_markdown(const compare::Comparison& comparison, std::size_t top = 10);
/// The findings, the answer first: one sentence each, without a line break.
std::vector<std::string> sentences(const compare::Comparison& comparison);

/// `compare` of two recordings of a job.
std::string to_text(const compare::JobComparison& comparison, const TextStyle& style = {});
std::string to_json(const compare::JobComparison& comparison);
std::string to_markdown(const compare::JobComparison& comparison, std::size_t top = 10);
std::vector<std::string> sentences(const compare::JobComparison& comparison);

/// `ranks`: all ranks of one job.
std::string to_text(const analysis::RanksReport& report, const TextStyle& style = {});
std::string to_json(const analysis::RanksReport& report);
/// `ranks` on an operation trace: a pipeline-parallel job.
std::string to_text(const ranks::PipelineJob& job, const ranks::PipelineAnswers& answers, const TextStyle& style = {});
std::string to_json(const ranks::PipelineJob& job, const ranks::PipelineAnswers& answers);

/// What the builder of a graph left out or could not explain: one sentence each, empty when nothing.
std::vector<std::string> sentences(const graph::Graph::Notes& notes);

}  // namespace foretrace::report
