#pragma once
// The options --measured-ms and --host, for the verbs that calibrate.

#include "cli/verb.hpp"
#include "foretrace/host/measured_step.hpp"

namespace foretrace::cli {

/// An error when the file of --host cannot be read.
Result<host::UserMeasurements> user_measurements(const Values& values);

}  // namespace foretrace::cli
