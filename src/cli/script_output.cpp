#include "cli/script_output.hpp"

#include "whatif/model/compiled.hpp"

namespace foretrace::cli {

Status can_write_code(const Request& request, const analysis::Baseline& baseline) {
  if (!request.values.text("code-out") || !whatif::is_compiled(baseline.model)) return {};
  return fail(ErrorCode::kUsage, "--code-out writes PyTorch scripts, and this step is a program of XLA",
              "`foretrace advise` shows the lines for JAX");
}

}  // namespace foretrace::cli
