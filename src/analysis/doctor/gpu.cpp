// Checks of the GPU's side of a trace: launches and the work they start, streams, memory, the device.

#include <fmt/format.h>

#include <algorithm>

#include "analysis/doctor/checks.hpp"
#include "base/readable.hpp"

namespace foretrace::analysis {

using trace::EventKind;

std::optional<Finding> orphans(const Facts& f) {
  if (f.orphans == 0 || f.of(EventKind::kRuntime) == 0) {
    if (f.gpu_work() == 0 || f.of(EventKind::kOp) == 0 || f.of(EventKind::kRuntime) > 0) return {};
    return Finding{
        "no_launch_calls",
        Weight::kCosts,
        "no CUDA calls were recorded, so no kernel has a launch",
        "Kernels are matched with operations by External id or time only; CPU waits for the GPU are invisible.",
        kBothActivities,
        f.gpu_work()};
  }
  const bool many = part(f.orphans, f.gpu_work()) > 0.01;
  return Finding{
      "orphan_kernels",
      many ? Weight::kCosts : Weight::kNote,
      fmt::format("{} of {} GPU tasks have no recorded launch", format_count(f.orphans), format_count(f.gpu_work())),
      "They have no operation, layer or phase, and they start when their stream is free.",
      "start recording on an idle GPU: schedule with warmup=1 and torch.cuda.synchronize() before the first step",
      f.orphans};
}

std::optional<Finding> before_launch(const Facts& f) {
  if (f.before_launch == 0) return {};
  const bool many = part(f.before_launch, f.gpu_work()) > 0.01 || f.worst_before_launch > kNsPerMs;
  return Finding{
      "kernel_before_launch",
      many ? Weight::kCosts : Weight::kNote,
      fmt::format("{} of {} GPU tasks start before their launch call, by up to {} us", format_count(f.before_launch),
                  format_count(f.gpu_work()), format_us(to_us(f.worst_before_launch))),
      "The clocks of CPU and GPU do not agree; launch delays are off by that much.",
      "record again; CUPTI's clock conversion improves with newer drivers",
      f.before_launch};
}

std::optional<Finding> duplicate_correlations(const Facts& f) {
  if (f.duplicate_correlations == 0) return {};
  return Finding{"duplicate_correlation_ids",
                 Weight::kCosts,
                 fmt::format("{} used by more than one call",
                             plural(f.duplicate_correlations, "correlation id is", "correlation ids are")),
                 "Kernels may be matched with the wrong launch. This happens when traces of several ranks are merged "
                 "into one file.",
                 "give foretrace one file per rank",
                 f.duplicate_correlations};
}

std::optional<Finding> no_external_id(const Facts& f) {
  // Only Kineto has such ids; elsewhere the launch call alone ties kernels to operations.
  if (f.trace->format != "kineto" && f.of(EventKind::kRuntime) > 0) return {};
  if (f.gpu_work() == 0 || f.of(EventKind::kOp) == 0 || f.work_with_external_id > 0) return {};
  return Finding{"no_external_id", f.of(EventKind::kRuntime) > 0 ? Weight::kNote : Weight::kCosts,
                 "GPU events carry no External id",
                 "Kernels are matched with operations through the launch call's time and thread, which works unless "
                 "launches are missing too.",
                 kBothActivities};
}

std::optional<Finding> whole_graphs(const Facts& f) {
  if (f.whole_graphs == 0) return {};
  return Finding{"whole_graphs",
                 Weight::kCosts,
                 fmt::format("{} of CUDA graphs are recorded as one piece of work each",
                             plural(f.whole_graphs, "launch", "launches")),
                 "What runs inside them is unknown, so only their total time can be changed.",
                 "record the nodes of graphs",
                 f.whole_graphs};
}

std::optional<Finding> graph_work(const Facts& f) {
  if (f.graph_work == 0 || f.compiled()) return {};
  const bool main = part(f.graph_work, f.gpu_work()) > 0.5;
  return Finding{
      "cuda_graph",
      main ? Weight::kCosts : Weight::kNote,
      fmt::format("{} of {} GPU tasks were launched by CUDA graphs", format_count(f.graph_work),
                  format_count(f.gpu_work())),
      "Their operations ran when the graph was captured, not in this trace: operation, layer, phase and shape are "
      "unknown.",
      "to ask for what-ifs of layers or operations, trace the same model without CUDA graphs",
      f.graph_work};
}

std::optional<Finding> overlaps(const Facts& f) {
  const std::uint64_t count = f.thread_overlaps + f.stream_overlaps;
  if (count == 0) return {};
  return Finding{"overlapping_events",
                 Weight::kNote,
                 fmt::format("{} without nesting on their lane ({} on threads, {} on streams), by up to {} us",
                             plural(count, "event overlaps", "events overlap"), format_count(f.thread_overlaps),
                             format_count(f.stream_overlaps), format_us(to_us(f.worst_overlap))),
                 "A lane does one thing at a time in the graph; the overlap is cut off the later event.",
                 "",
                 count};
}

std::optional<Finding> no_cuda_sync(const Facts& f) {
  if (f.gpu_work() == 0 || f.of(EventKind::kSync) > 0) return {};
  Finding finding{"no_cuda_sync", Weight::kNote, "no synchronisation records (cuda_sync)",
                  "With one stream little is lost: waits of the CPU are still seen as calls.",
                  "experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)"};
  if (f.working_streams > 1) {
    finding.weight = Weight::kCosts;
    finding.cost = fmt::format(
        "Waits between the {} streams must be inferred from the order of calls; where that fails, streams "
        "overlap more than they did and the replay is too short.",
        f.working_streams);
  }
  return finding;
}

std::optional<Finding> unresolved_waits(const Facts& f) {
  if (f.unresolved_waits == 0) return {};
  return Finding{"unresolved_stream_waits",
                 Weight::kNote,
                 fmt::format("{} not say which event they wait for",
                             plural(f.unresolved_waits, "stream wait does", "stream waits do")),
                 "The record they wait for is inferred from the order of calls and checked against the times.",
                 "",
                 f.unresolved_waits};
}

std::optional<Finding> no_memory(const Facts& f) {
  if (f.of(EventKind::kMemory) > 0 || f.of(EventKind::kOp) == 0) return {};
  return Finding{"no_memory", Weight::kCosts, "no allocator events",
                 "Peak memory is unknown: a prediction cannot say whether a change fits the GPU, nor what it saves.",
                 "torch.profiler.profile(profile_memory=True)"};
}

std::optional<Finding> no_device_properties(const Facts& f) {
  if (f.gpu_work() == 0 || !f.trace->devices.empty()) return {};
  return Finding{"no_device_properties", Weight::kCosts, "the trace does not say which GPU it ran on",
                 "Predictions for another GPU or precision need to know the GPU: you will have to name it.",
                 "export with prof.export_chrome_trace() and keep the file's top-level keys (deviceProperties)"};
}

std::optional<Finding> no_launch_geometry(const Facts& f) {
  const std::uint64_t kernels = f.of(EventKind::kKernel),
                      bare = f.kernels_without_geometry + f.kernels_without_registers;
  if (kernels == 0 || part(bare, kernels) < 0.5) return {};
  return Finding{
      "no_launch_geometry",
      Weight::kCosts,
      f.kernels_without_geometry > 0 ? "kernels carry no grid and block sizes" : "kernels carry no register counts",
      "Occupancy cannot be computed: predictions for another GPU have a wider band.",
      "ROCm's profiler does not write them; on CUDA, export the file unfiltered",
      bare};
}

std::optional<Finding> whole_microseconds(const Facts& f) {
  if (!f.whole_microseconds) return {};
  return Finding{"whole_microseconds", Weight::kNote, "times are whole microseconds",
                 "Short kernels are off by up to 1 us each, which adds up in steps of thousands of small kernels.",
                 "PyTorch 2.4 or newer writes nanoseconds"};
}

std::optional<Finding> profiler_stalls(const Facts& f) {
  Ns steps = 0;
  for (const trace::Step& step : f.steps->steps) steps += step.duration();
  if (f.overhead == 0 || f.overhead * 100 < steps) return {};
  return Finding{"profiler_stalls",
                 Weight::kCosts,
                 fmt::format("the profiler itself was busy for {} ms of the steps", format_ms(f.overhead)),
                 "Such steps are longer than real ones in a way no model can correct.",
                 "add a warm-up step: schedule(wait=1, warmup=2, active=3)",
                 f.of(EventKind::kOverhead)};
}

}  // namespace foretrace::analysis
