#include "whatif/model/compiled.hpp"

#include "foretrace/trace/trace.hpp"

namespace foretrace::whatif {

bool is_compiled(const Model& model) {
  return model.trace != nullptr && (model.trace->format == "xplane" || model.trace->format == "xla-json");
}

std::string code_of(const WhatIf& whatif, const Model& model) {
  if (!is_compiled(model)) return whatif.code;
  constexpr std::pair<std::string_view, std::string_view> kLines[] = {
      {"amp",
       "loss(jax.tree.map(lambda p: p.astype(jnp.bfloat16), params), …)  # inside jax.value_and_grad; the update stays "
       "FP32"},
      {"tf32", "jax.config.update(\"jax_default_matmul_precision\", \"tensorfloat32\")"},
      {"batch", "step(state, batch)  # with a larger batch: another program is compiled"},
      {"no-sync", "if i % 50 == 0: jax.block_until_ready(loss)  # and read nothing in between"},
      {"ddp", "jax.device_put(batch, NamedSharding(mesh, P(\"data\")))  # parameters on every device"},
      {"fsdp", "jax.device_put(params, NamedSharding(mesh, P(\"data\")))  # and the batch"},
      {"zero3", "jax.device_put(params, NamedSharding(mesh, P(\"data\")))  # and the batch"},
  };
  for (const auto& [name, line] : kLines) {
    if (name == whatif.name) return std::string(line);
  }
  return {};
}

}  // namespace foretrace::whatif
