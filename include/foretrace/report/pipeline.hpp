#pragma once
// ranks on an operation trace: the pipeline job's answers as text and JSON.

#include <string>

#include "foretrace/ranks/pipeline.hpp"
#include "foretrace/report/text_style.hpp"

namespace foretrace::report {

std::string to_text(const ranks::PipelineJob& job, const ranks::PipelineAnswers& answers, const TextStyle& style = {});
/// An object that starts with "schema": 1.
std::string to_json(const ranks::PipelineJob& job, const ranks::PipelineAnswers& answers);

}  // namespace foretrace::report
