#include "cli/told.hpp"

namespace foretrace::cli {

Result<host::UserMeasurements> told(const Values& values) {
  host::UserMeasurements out(values.number("measured-ms"));
  if (const auto file = values.text("host")) {
    FORETRACE_TRY(out.host, host::HostCosts::read(*file));
  }
  return out;
}

}  // namespace foretrace::cli
