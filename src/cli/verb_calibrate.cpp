#include "cli/verbs.hpp"

namespace foretrace::cli {
namespace {

// main hands the verb over before any verb runs; who gets here embeds the program without Python.
Result<Answer> run_calibrate(const Request&) {
  return fail(ErrorCode::kUsage, "calibrate is served by the Python command",
              "pip install foretrace, then: python3 -m foretrace calibrate -o host.csv");
}

}  // namespace

const Verb& calibrate_verb() {
  static const Verb verb{
      .name = "calibrate",
      .about = "measure what the CPU of this machine costs, for --host",
      .details =
          "Times PyTorch here for a few seconds, without a profiler and with one: an operation, a launch, a recorded "
          "event. The file it writes goes with plain traces from this machine, so that the step without the profiler "
          "is "
          "worked out with this host's costs instead of the usual ones. Recordings made with foretrace.record measure "
          "that themselves.",
      .options = {{"seconds", 0, ValueType::kNumber, "S", "3", "how long to measure", {}, 0.1}},
      .examples = {{"foretrace calibrate -o host.csv", "needs PyTorch; uses the GPU where there is one"},
                   {"foretrace calibrate -o host.csv && foretrace whatif trace.json.gz amp --host host.csv",
                    "then a plain trace from this machine"}},
      .run = run_calibrate};
  return verb;
}

}  // namespace foretrace::cli
