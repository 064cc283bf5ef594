#include "whatif/compiled.hpp"

#include "foretrace/trace/trace.hpp"

namespace foretrace::whatif {

bool is_compiled(const Model& model) {
  return model.trace != nullptr && (model.trace->format == "xplane" || model.trace->format == "xla-json");
}

}  // namespace foretrace::whatif
