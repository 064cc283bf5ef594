#pragma once
// The findings of doctor. Each check is one small function over Facts; a new one is one function and one line in the
// list at the end of the source.

#include <vector>

#include "foretrace/report/doctor.hpp"
#include "report/doctor_facts.hpp"

namespace foretrace::report {

/// All findings, heaviest first.
std::vector<Finding> check_all(const Facts& facts);

}  // namespace foretrace::report
