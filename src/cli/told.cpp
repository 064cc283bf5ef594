#include "cli/told.hpp"

namespace foretrace::cli {

Result<analysis::Told> told(const Values& values) {
  analysis::Told out(values.number("measured-ms"));
  if (const auto file = values.text("host")) {
    FORETRACE_TRY(out.host, whatif::HostCosts::read(*file));
  }
  return out;
}

}  // namespace foretrace::cli
