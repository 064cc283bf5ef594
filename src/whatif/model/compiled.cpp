#include "whatif/model/compiled.hpp"

#include "foretrace/trace/trace.hpp"

namespace foretrace::whatif {

bool is_compiled(const Model& model) {
  return model.trace != nullptr && (model.trace->format == "xplane" || model.trace->format == "xla-json");
}

std::string code_of(const WhatIf& whatif, const Model& model) {
  return is_compiled(model) ? whatif.jax_code : whatif.code;
}

}  // namespace foretrace::whatif
