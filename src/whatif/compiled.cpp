#include "whatif/compiled.hpp"

#include "foretrace/trace/trace.hpp"

namespace foretrace::whatif {

bool is_compiled(const Model& model) {
  return model.trace != nullptr && (model.trace->format == "xplane" || model.trace->format == "xla-json");
}

std::string not_for_compiled(const Model& model, std::string_view whatif) {
  if (!is_compiled(model)) return {};
  struct Row {
    std::string_view whatif, why;
  };
  static constexpr Row kRows[] = {
      {"compile", "the step is a compiled program already: XLA has fused it"},
      {"cuda-graph",
       "XLA decides itself what runs as a CUDA graph (its command buffers): --xla_gpu_enable_command_buffer"},
      {"fused-optimizer", "XLA fuses the update itself; there is no list of optimizer kernels to join"},
      {"foreach-optimizer", "XLA fuses the update itself; there is no list of optimizer kernels to join"},
      {"channels-last", "XLA chooses the layout of every tensor itself"},
      {"batchnorm", "XLA has fused batch norms with their neighbours already"},
      {"flash-attention",
       "in a compiled program attention is what the model calls: jax.nn.dot_product_attention(…, "
       "implementation=\"cudnn\")"},
      {"checkpoint",
       "which tensors a compiled program keeps is not in its trace; jax.checkpoint changes it, and the "
       "compiler the rest"},
      {"compress-activations", "which tensors a compiled program keeps is not in its trace"},
      {"offload", "which tensors a compiled program keeps is not in its trace"},
      {"sequence", "a compiled program's kernels do not tell which of their sizes is a sequence"},
      {"fp8", "in a compiled program FP8 is what the model computes in: float8 operands of jax.lax.dot_general"},
      {"dataloader", "loading is not marked in XLA's profiles"},
  };
  for (const Row& row : kRows) {
    if (row.whatif == whatif) return std::string(row.why);
  }
  return {};
}

}  // namespace foretrace::whatif
