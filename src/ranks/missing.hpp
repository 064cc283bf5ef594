#pragma once
// Ranks of a job without a trace, in words.

#include <string>

#include "foretrace/ranks/job.hpp"

namespace foretrace::ranks {

/// What Job::notes says of them, as long as nothing stands for them.
std::string note_of_missing(const Job& job);

}  // namespace foretrace::ranks
