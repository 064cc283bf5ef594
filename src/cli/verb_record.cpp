#include "cli/verbs.hpp"

namespace foretrace::cli {

Verb record_verb() {
  using enum ValueType;
  return {
      .name = "record",
      .about = "run a training program and record a trace of a few of its steps",
      .details =
          "Runs COMMAND unchanged: same output, same exit code. Steps of a PyTorch program are found through the "
          "optimizer's hooks, those of a JAX program through its jitted functions. The first steps warm up, the next "
          "are timed without a profiler, the last are traced; the file holds both. Under torchrun and accelerate "
          "each rank writes its own file. Other CUDA programs are recorded from beginning to end, where the library "
          "for that was built. What could not be recorded is reported once, on standard error, when the program has "
          "ended; with --json as JSON.",
      .arguments = {{"COMMAND", "the program and its arguments, after --", 1, Argument::kAny}},
      .options = {option(kInteger, "steps", "N", "3", "steps to trace").at_least(1),
                  option(kInteger, "after", "N", "5", "warm-up steps to skip first").at_least(1),
                  option(kInteger, "measure", "N", "20", "steps to time without a profiler").at_least(0),
                  flag("execution-trace", "also keep PyTorch's execution trace, the identity of every tensor"),
                  flag("cuda",
                       "record the program's CUDA calls, whatever made them, instead of PyTorch's or JAX's events"),
                  flag("quiet", "print nothing at the end").letter_is('q'),
                  output_option("foretrace.json.gz", "the trace to write; with several ranks, one file for each")},
      .examples = {
          {"foretrace record -- python train.py", "31 steps or more; then: foretrace doctor foretrace.json.gz"},
          {"foretrace record -o run/out.json.gz -- torchrun --nproc-per-node 8 train.py --epochs 1",
           "one file per rank: run/out.rank0.json.gz, …"},
          {"foretrace record --after 1 --measure 5 --steps 2 -- python short.py", "a short run"}}};
}

}  // namespace foretrace::cli
