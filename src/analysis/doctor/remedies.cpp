#include <string_view>

#include "analysis/doctor/checks.hpp"
#include "trace/machine.hpp"

namespace foretrace::analysis {

namespace {

struct Remedy {
  std::string_view finding, text;
};

constexpr Remedy kNsight[] = {
    {"cold_step",
     "run a few steps first: nsys profile --capture-range=cudaProfilerApi, with cudaProfilerStart() after ten steps"},
    {"no_kernels",
     "nsys profile --trace=cuda,nvtx …, then nsys export --type sqlite REPORT.nsys-rep; if that was done, the process "
     "lacks the permission to profile: see `nsys status --environment`"},
    {"no_cpu", "nsys profile --trace=cuda,nvtx …, and export without --tables"},
    {"partial", "nsys export --type sqlite --force-overwrite=true REPORT.nsys-rep again; a full disk cuts files too"},
    {"no_profiler_step",
     "put each iteration into a range: with torch.cuda.nvtx.range(f\"step {i}\"): … (or nvtxRangePush), and "
     "record NVTX: nsys profile --trace=cuda,nvtx; or name the range that encloses a step with --steps-by"},
    {"waited_for_missing_work",
     "record several steps in a row: nsys profile --capture-range=cudaProfilerApi, with "
     "torch.cuda.cudart().cudaProfilerStart() before them"},
    {"steps_cut_off", "torch.cuda.synchronize() before cudaProfilerStop(), and export without --times"},
    {"steps_vary",
     "skip ramp-up: nsys profile --capture-range=cudaProfilerApi, with cudaProfilerStart() after ten steps"},
    {"one_step", "record three steps or more between cudaProfilerStart() and cudaProfilerStop()"},
    {"no_shapes",
     "run the steps inside torch.autograd.profiler.emit_nvtx(record_shapes=True), or nsys profile "
     "--pytorch=autograd-shapes-nvtx"},
    {"no_layers",
     "wrap each leaf module's forward in torch.cuda.nvtx.range(f\"layer:{name}|{type(m).__name__}\") and record "
     "NVTX: nsys profile --trace=cuda,nvtx"},
    {"no_memory",
     "Nsight records the driver's allocations (--cuda-memory-usage=true), not those of the framework's allocator, "
     "which foretrace's recorder records: with foretrace.record(…)"},
    {"no_cuda_sync", "nsys profile --trace=cuda --cuda-event-trace=true, and export without --tables"},
    {"unresolved_stream_waits", "nsys profile --cuda-event-trace=true records which record each wait is for"},
    {"no_backward_links",
     "torch.autograd.profiler.emit_nvtx() writes the sequence numbers; nsys --pytorch=autograd-nvtx too"},
    {"orphan_kernels",
     "start recording on an idle GPU: torch.cuda.synchronize() before cudaProfilerStart(), with nsys profile "
     "--capture-range=cudaProfilerApi"},
    {"no_device_properties", "nsys export --type sqlite writes TARGET_INFO_GPU; do not strip it."},
    {"no_launch_geometry", "nsys export --type sqlite without --tables"},
    {"cuda_graph",
     "nsys profile --cuda-graph-trace=node records kernels of graphs; to ask for what-ifs of layers or "
     "operations, trace the same model without CUDA graphs"},
    {"whole_graphs", "nsys profile --cuda-graph-trace=node"},
    {"profiler_stalls", "nsys profile --cuda-flush-interval=0 and more warm-up before cudaProfilerStart()"},
    {"no_distributed_info",
     "nsys profile around the launcher (nsys profile … torchrun …): one file holds all ranks of a machine; "
     "or under it, one file per rank: -o report.%q{RANK}"},
    {"one_rank_of_many", "profile every rank and give all files, or their folder"},
    {"no_collective_sizes",
     "NCCL's sizes are payloads of its NVTX ranges: nsys profile --trace=cuda,nvtx, and nsys export --type sqlite "
     "--include-blobs=true"},
    {"python_stacks", "nsys profile --python-sampling=false"},
};

constexpr Remedy kXla[] = {
    {"cold_step", "call the compiled function once before jax.profiler.start_trace(): its first call compiles it"},
    {"allocator", "XLA_PYTHON_CLIENT_PREALLOCATE=true (the default) takes the memory once"},
    {"no_kernels",
     "with jax.profiler.trace(DIR): … around steps that run on a GPU; CUPTI must be installed (pip install "
     "\"jax[cuda13]\") and no other profiler be running"},
    {"no_cpu", "jax.profiler.ProfileOptions(): leave host_tracer_level at 2"},
    {"partial", "let jax.profiler.stop_trace() return before the program ends or the file is copied"},
    {"no_profiler_step",
     "with jax.profiler.StepTraceAnnotation(\"train\", step_num=i): … around each step; or name the range that "
     "encloses a step with --steps-by"},
    {"waited_for_missing_work",
     "record several steps in a row, and jax.block_until_ready(state) before jax.profiler.start_trace()"},
    {"steps_cut_off", "jax.block_until_ready(state) before jax.profiler.stop_trace()"},
    {"steps_vary", "compile and warm up before jax.profiler.start_trace(): run the step ten times"},
    {"one_step", "record three steps or more between start_trace() and stop_trace()"},
    {"no_shapes",
     "give the .xplane.pb file: it holds the compiled programs with all shapes, the JSON next to it does not "
     "(jax.profiler.ProfileOptions().enable_hlo_proto must stay on)"},
    {"no_layers", "with jax.named_scope(\"block0\"): … in the model's code; Flax names its modules by itself"},
    {"no_memory", "give the .xplane.pb file: allocations are in it, not in the JSON"},
    {"no_cuda_sync", "XLA's profiler does not write them; with one stream nothing is lost"},
    {"no_backward_links", "jax.grad names the backward pass by itself; give the .xplane.pb file"},
    {"orphan_kernels", "jax.block_until_ready(state) before jax.profiler.start_trace()"},
    {"no_device_properties", "give the .xplane.pb file: it names the GPU."},
    {"no_launch_geometry", "ROCm's tracer writes fewer; on CUDA, jaxlib 0.4 or newer writes kernel_details"},
    {"cuda_graph",
     "give the .xplane.pb file: its compiled programs name what is inside; or record with "
     "XLA_FLAGS=--xla_gpu_enable_command_buffer="},
    {"profiler_stalls", "warm up before jax.profiler.start_trace()"},
    {"no_distributed_info", "one xplane file per host lies under DIR/plugins/profile/…; give them all"},
    {"one_rank_of_many", "give the .xplane.pb files of all hosts"},
    {"no_collective_sizes", "give the .xplane.pb file: its compiled programs have them"},
    {"python_stacks",
     "options = jax.profiler.ProfileOptions(); options.python_tracer_level = 0; "
     "jax.profiler.trace(DIR, profiler_options=options)"},
};

constexpr Remedy kTensorFlow[] = {
    {"no_kernels",
     "tf.profiler.experimental.start(DIR) around steps that run on a GPU; CUPTI must be installed and no other "
     "profiler "
     "be running"},
    {"no_predictions", "give the profile of a worker that computes on the GPU (plugins/profile/…/HOST.xplane.pb)"},
    {"no_cpu", "tf.profiler.experimental.ProfilerOptions(host_tracer_level=2)"},
    {"partial", "let tf.profiler.experimental.stop() return before the program ends or the file is copied"},
    {"no_profiler_step",
     "with tf.profiler.experimental.Trace(\"train\", step_num=i, _r=1): … around each step; or name the range that "
     "encloses a step with --steps-by"},
    {"waited_for_missing_work", "record several steps in a row"},
    {"steps_cut_off", "read a result of the last step before tf.profiler.experimental.stop()"},
    {"steps_vary", "warm up before tf.profiler.experimental.start(): run the step ten times"},
    {"one_step", "record three steps or more between start() and stop()"},
    {"no_shapes",
     "TensorFlow's executor records none; with tf.function(jit_compile=True) the compiled program has them"},
    {"no_layers", "with tf.name_scope(\"block0\"): … in the model's code, and tf.function(jit_compile=True)"},
    {"orphan_kernels", "read a result before tf.profiler.experimental.start()"},
    {"no_distributed_info", "one xplane file per worker is under DIR/plugins/profile/…; give them all"},
    {"one_rank_of_many", "give the .xplane.pb files of all workers"},
    {"python_stacks", "tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)"},
};

template <std::size_t N>
void use(const Remedy (&table)[N], std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    for (const Remedy& remedy : table) {
      if (finding.name == remedy.finding) finding.remedy = remedy.text;
    }
  }
}

}  // namespace

void name_remedies(const trace::Trace& trace, std::vector<Finding>& findings) {
  if (trace.format == "nsight") use(kNsight, findings);
  if (trace.format == "xplane" || trace.format == "xla-json") use(kXla, findings);
  if (trace::framework_of(trace) == trace::Framework::kTensorFlow) use(kTensorFlow, findings);
}

}  // namespace foretrace::analysis
