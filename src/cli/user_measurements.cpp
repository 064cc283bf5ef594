#include "cli/user_measurements.hpp"

namespace foretrace::cli {

Result<host::UserMeasurements> user_measurements(const Values& values) {
  host::UserMeasurements out(values.number("measured-ms"));
  if (const auto file = values.text("host")) {
    FORETRACE_TRY(out.host, host::HostCosts::read(*file));
  }
  return out;
}

}  // namespace foretrace::cli
