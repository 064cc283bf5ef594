#include "cli/residuals.hpp"

#include "base/byte_source.hpp"

namespace foretrace::cli {

Result<std::shared_ptr<const whatif::Residuals>> read_residuals(const Request& request) {
  const std::optional<std::string> path = request.values.text("residuals");
  if (!path) return std::shared_ptr<const whatif::Residuals>();
  FORETRACE_TRY(const std::string text, read_file(*path, kLargestResiduals));
  FORETRACE_TRY(whatif::Residuals table, whatif::Residuals::parse(text, *path));
  return std::make_shared<const whatif::Residuals>(std::move(table));
}

}  // namespace foretrace::cli
