#include "cli/verbs.hpp"

namespace foretrace::cli {

Verb calibrate_verb() {
  return {.name = "calibrate",
          .about = "measure the CPU costs of this machine, for --host",
          .details =
              "Times PyTorch on this machine for a few seconds, with and without a profiler: an operation, a launch, a "
              "recorded event. Use the file it writes with plain traces from this machine: the step without the "
              "profiler is then estimated from this host's costs instead of the default host's. Recordings made with "
              "foretrace.record include these measurements.",
          .options = {option(ValueType::kNumber, "seconds", "S", "3", "how long to measure").at_least(0.1),
                      output_option("standard output", "the file of CPU costs to write, for --host")},
          .examples = {{"foretrace calibrate -o host.csv", "needs PyTorch; uses the GPU where there is one"},
                       {"foretrace calibrate -o host.csv && foretrace whatif trace.json.gz amp --host host.csv",
                        "then a plain trace from this machine"}}};
}

}  // namespace foretrace::cli
