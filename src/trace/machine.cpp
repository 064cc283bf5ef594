#include "trace/machine.hpp"

#include "trace/compiled_op.hpp"

namespace foretrace::trace {

std::string_view other_accelerator(const Trace& trace) {
  std::string_view name = trace.metadata_value(kAcceleratorKey);
  if (name.size() >= 2 && name.front() == '"') name = name.substr(1, name.size() - 2);
  return name;
}

Framework framework_of(const Trace& trace) {
  if (trace.format != "xplane" && trace.format != "xla-json") return Framework::kPyTorch;
  // Names of the executor's own ranges; JAX runs no such executor unless tf.data feeds it.
  bool executor = false;
  for (const std::string_view name : {"ExecutorState::Process", "EagerLocalExecute", "EagerKernelExecute"}) {
    executor = executor || trace.strings.find(name).valid();
  }
  if (!executor) return Framework::kXla;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (is_gpu_work(trace.kind(e)) && compiled_op(trace, trace.events.args[e])) return Framework::kXla;
  }
  return Framework::kTensorFlow;
}

}  // namespace foretrace::trace
