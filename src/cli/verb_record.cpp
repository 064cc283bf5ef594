#include "cli/verbs.hpp"

namespace foretrace::cli {
namespace {

// main hands the verb over before any verb runs; who gets here embeds the program without Python.
Result<Answer> run_record(const Request&) {
  return fail(ErrorCode::kUsage, "record is served by the Python command",
              "pip install foretrace, then: python3 -m foretrace record -- COMMAND");
}

}  // namespace

const Verb& record_verb() {
  static const Verb verb{
      .name = "record",
      .about = "run a training program and leave a trace of a few of its steps behind",
      .details =
          "Runs COMMAND as it is: same output, same exit code. A PyTorch program's steps are found by the optimizer's "
          "own hooks, a JAX program's by its jitted functions. The first steps warm up, the next are timed without a "
          "profiler, the last are traced; the file holds both. Under torchrun and accelerate each rank writes its "
          "own. Other CUDA programs are recorded from beginning to end where the library for them was built. "
          "What could not be had is said once, on standard error, when the program has ended; with --json as JSON.",
      .arguments = {{"COMMAND", "the program and its arguments, behind --", 1, Argument::kAny}},
      .options = {{"steps", 0, ValueType::kInteger, "N", "3", "steps to trace", {}, 1.0},
                  {"after", 0, ValueType::kInteger, "N", "5", "steps to leave alone first", {}, 1.0},
                  {"measure", 0, ValueType::kInteger, "N", "20", "steps to time without a profiler", {}, 0.0},
                  {"execution-trace", 0, ValueType::kFlag, "", "",
                   "also keep PyTorch's execution trace, the identity of every tensor"},
                  {"cuda", 0, ValueType::kFlag, "", "",
                   "record what the program asks of CUDA, whatever made it, instead of what PyTorch or JAX tell"},
                  {"quiet", 'q', ValueType::kFlag, "", "", "say nothing at the end"}},
      .examples = {{"foretrace record -- python train.py",
                    "31 steps or more; then: foretrace doctor foretrace.json.gz"},
                   {"foretrace record -o run/out.json.gz -- torchrun --nproc-per-node 8 train.py --epochs 1",
                    "one file per rank: run/out.rank0.json.gz, …"},
                   {"foretrace record --after 1 --measure 5 --steps 2 -- python short.py", "a short run"}},
      .run = run_record};
  return verb;
}

}  // namespace foretrace::cli
