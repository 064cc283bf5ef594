#include "analysis/doctor/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/readable.hpp"
#include "graph/gpu_work.hpp"
#include "trace/machine.hpp"

namespace foretrace::analysis {
namespace {

using trace::EventKind;
using trace::kAbsent;
using Maybe = std::optional<Finding>;

// What the trace holds at all ----------------------------------------------------------------------------------------

Maybe no_kernels(const Facts& f) {
  if (f.gpu_work() > 0) return {};
  if (const std::string_view other = trace::other_accelerator(*f.trace); !other.empty()) {
    return Finding{"other_accelerator", Weight::kBlocks, fmt::format("this is the profile of a {}", other),
                   "foretrace has models of GPUs only: it can show the timeline, and predict nothing from it.", ""};
  }
  // The profiler lists the GPUs of the machine, and CUDA calls are recorded with kernels: neither is there without a GPU.
  if (!f.trace->partial && f.trace->devices.empty() && f.of(EventKind::kRuntime) == 0 && f.of(EventKind::kOp) > 0) {
    return Finding{"no_kernels", Weight::kBlocks, "the step ran on a CPU: the trace names no GPU and has no GPU work",
                   "foretrace predicts steps that run on a GPU: there is nothing to replay or to change.",
                   "record the step on a machine with a GPU, with the model and its inputs on it"};
  }
  return Finding{
      "no_kernels", Weight::kBlocks, fmt::format("{}, nor anywhere in the trace", graph::kNoGpuWork),
      "Without kernels there is nothing to replay or to change: foretrace predicts steps that run on a GPU.",
      f.trace->partial
          ? std::string("the file ends before the GPU's events; a whole file has them")
          : fmt::format("{}; if the recording itself lacks them, CUPTI could not attach: another profiler was "
                        "running, or the process lacks the permission",
                        kBothActivities)};
}

Maybe no_cpu(const Facts& f) {
  if (f.gpu_work() == 0 || f.of(EventKind::kOp) + f.of(EventKind::kRuntime) > 0) return {};
  return Finding{"no_cpu", Weight::kCosts, "the trace holds GPU events only, no CPU events",
                 "Launches and CPU waits are unknown: only changes of kernel times can be estimated, not of launches, "
                 "operations or "
                 "layers.",
                 kBothActivities};
}

Maybe partial(const Facts& f) {
  if (!f.trace->partial) return {};
  return Finding{
      "partial", Weight::kCosts, "the file is truncated; only the part before its end was read",
      "The last step is probably incomplete, and metadata at the end of the file (device, ranks) is missing.",
      "let the export finish before copying the file; a full disk cuts files too"};
}

Maybe several_processes(const Facts& f) {
  if (f.processes.size() < 2) return {};
  return Finding{
      "several_processes",
      Weight::kCosts,
      fmt::format("the file holds {} processes", f.processes.size()),
      "Correlation ids repeat between processes, so kernels may be matched with launches of another process.",
      "write one file per rank: tensorboard_trace_handler(dir, worker_name=f\"rank_{rank}\")",
      f.processes.size()};
}

// Steps --------------------------------------------------------------------------------------------------------------

Maybe no_profiler_step(const Facts& f) {
  const bool marked = f.steps->source == trace::StepSource::kProfilerStep ||
                      f.steps->source == trace::StepSource::kAnnotation ||
                      f.steps->source == trace::StepSource::kByName;
  if (marked || f.steps->steps.empty()) return {};
  const bool whole = f.steps->source == trace::StepSource::kWholeTrace;
  return Finding{"no_profiler_step", Weight::kCosts,
                 whole ? "no step is marked and nothing repeats: the whole trace counts as one step"
                       : fmt::format("no step is marked; steps were taken from {}", trace::describe(f.steps->source)),
                 whole ? "Start-up, evaluation and everything else in the trace count as part of the step."
                       : "Step boundaries are a guess; work may be counted in the wrong step.",
                 "call prof.step() at the end of each iteration, with schedule=torch.profiler.schedule(wait=1, "
                 "warmup=1, active=3); or name the range that encloses a step with --steps-by"};
}

Maybe waited_for_missing_work(const Facts& f) {
  for (const trace::Step& step : f.steps->steps) {
    if (step.waited <= 0) continue;
    return Finding{"waited_for_missing_work", Weight::kNote,
                   fmt::format("{} waited {} ms for GPU work that is not in the file; that time is left out",
                               shorten_middle(step.name, 60), format_ms(step.waited)),
                   "The step is timed as if the GPU had been free when it began.",
                   "record several steps in a row, so that the work a step waits for is in the file"};
  }
  return {};
}

Maybe steps_cut_off(const Facts& f) {
  std::string names;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < f.steps->steps.size(); ++i) {
    if (part(f.step_launches_without_work[i], f.step_launches[i]) <= 0.01) continue;
    count += f.step_launches_without_work[i];
    names += (names.empty() ? "" : ", ") + f.steps->steps[i].name;
  }
  if (count == 0 || f.gpu_work() == 0) return {};
  return Finding{
      "steps_cut_off",
      Weight::kCosts,
      fmt::format("{} in {} without a GPU record", plural(count, "launch", "launches"), shorten_middle(names, 60)),
      "Such a step is incomplete, and its replay is too short. Use another step (--step N).",
      "stop the profiler after the GPU has finished: torch.cuda.synchronize() before the last prof.step()",
      count};
}

Maybe steps_vary(const Facts& f) {
  std::vector<trace::Step> steps;  // cold ones differ for a reason of their own
  for (std::size_t i = 0; i < f.steps->steps.size(); ++i) {
    if (i >= f.cold.size() || !f.cold[i]) steps.push_back(f.steps->steps[i]);
  }
  if (steps.size() < 2) return {};
  const auto shorter = [](const trace::Step& a, const trace::Step& b) { return a.duration() < b.duration(); };
  const auto [low, high] = std::minmax_element(steps.begin(), steps.end(), shorter);
  const double median = static_cast<double>(f.steps->steps[f.steps->median()].duration());
  const double spread = median > 0 ? static_cast<double>(high->duration() - low->duration()) / median : 0;
  if (spread <= 0.1) return {};
  return Finding{
      "steps_vary", Weight::kNote,
      fmt::format("steps differ by {}: {} {} ms, {} {} ms", format_percent(spread), low->name,
                  format_ms(low->duration()), high->name, format_ms(high->duration())),
      "A prediction is about one step (the median unless --step is given), and its band grows with the spread.",
      "skip ramp-up: schedule(skip_first=10, wait=1, warmup=1, active=3)"};
}

Maybe one_step(const Facts& f) {
  if (f.steps->steps.size() != 1 || f.steps->source == trace::StepSource::kWholeTrace) return {};
  return Finding{"one_step", Weight::kNote, "the trace holds one step",
                 "How much steps vary is unknown, so the band of a prediction is a guess.",
                 "schedule=torch.profiler.schedule(wait=1, warmup=1, active=3)"};
}

// Operations ---------------------------------------------------------------------------------------------------------

Maybe no_shapes(const Facts& f) {
  if (f.of(EventKind::kOp) == 0 || f.ops_with_shapes > 0 || f.compiled()) return {};
  return Finding{
      "no_shapes", Weight::kCosts, "operations carry no input shapes",
      "Tensor sizes are unknown: predictions for another precision, batch size or GPU rely on launch geometry "
      "alone and have wider bands; FLOP and MFU cannot be computed.",
      "torch.profiler.profile(record_shapes=True)"};
}

Maybe no_backward_links(const Facts& f) {
  if (f.backward_nodes == 0 || f.ops_with_sequence > 0 || f.fwdbwd_flows > 0) return {};
  return Finding{
      "no_backward_links",
      Weight::kCosts,
      "backward operations carry no sequence numbers and no fwdbwd arrows",
      "Backward kernels cannot be assigned to layers: changes of single layers affect their forward part only.",
      "record CPU activity with PyTorch 1.9 or newer and export the file unfiltered",
      f.backward_nodes};
}

Maybe no_layers(const Facts& f) {
  if (f.of(EventKind::kOp) == 0 || f.layer_ranges + f.module_frames > 0 || f.compiled()) return {};
  return Finding{
      "no_layers", Weight::kCosts, "nothing names the layers of the model",
      "Layers are inferred from operations and shapes and have generated names, which makes what-ifs for single layers "
      "harder to write.",
      "wrap each leaf module's forward in torch.profiler.record_function(f\"layer:{name}|{type(m).__name__}\")"};
}

Maybe python_stacks(const Facts& f) {
  if (f.of(EventKind::kPython) == 0) return {};
  return Finding{"python_stacks",
                 Weight::kNote,
                 "Python stacks were recorded",
                 "Recording them slows the CPU down: the traced step is longer than the real one, and a model has to "
                 "remove more of it.",
                 "torch.profiler.profile(with_stack=False)",
                 f.of(EventKind::kPython)};
}

Maybe no_training(const Facts& f) {
  if (!f.nature.infers()) return {};
  return Finding{"no_training", Weight::kNote,
                 fmt::format("there is no backward pass and no optimizer step: {}", to_string(f.nature.kind)),
                 "What-ifs about training (optimizer, gradients, checkpointing) do not apply.", ""};
}

// Ranks --------------------------------------------------------------------------------------------------------------

Maybe no_rank(const Facts& f) {
  if (f.trace->distributed.present || f.collectives == 0) return {};
  return Finding{"no_distributed_info",
                 Weight::kCosts,
                 "the trace has collectives but does not say which rank it is (no distributedInfo)",
                 "Files of one job cannot be ordered by content; ranks are taken from the file names.",
                 "start the profiler after torch.distributed.init_process_group()",
                 f.collectives};
}

Maybe one_rank_of_many(const Facts& f) {
  const trace::DistributedInfo& info = f.trace->distributed;
  if (!info.present || info.world_size == kAbsent || info.world_size < 2) return {};
  return Finding{"one_rank_of_many", Weight::kCosts,
                 info.rank == kAbsent ? fmt::format("one rank of {}", info.world_size)
                                      : fmt::format("rank {} alone of {}", info.rank, info.world_size),
                 "Kernels of collectives include waiting for the other ranks; with one rank's trace, waiting and "
                 "transfer cannot be distinguished.",
                 "profile every rank and give all files, or their folder"};
}

Maybe no_collective_sizes(const Facts& f) {
  if (f.collectives == 0 || f.collectives_without_size * 2 < f.collectives) return {};
  return Finding{"no_collective_sizes",
                 Weight::kCosts,
                 fmt::format("{} do not say how much they move", plural(f.collectives_without_size, "collective")),
                 "Predictions for another network or number of workers need the sizes; without them only measured "
                 "times can be scaled.",
                 "record with PyTorch 2.3 or newer and record_shapes=True",
                 f.collectives_without_size};
}

// In the order they are reported; heavier ones come first.
constexpr Check kChecks[] = {cold_step,
                             allocator,
                             no_kernels,
                             no_cpu,
                             partial,
                             several_processes,
                             no_profiler_step,
                             waited_for_missing_work,
                             steps_cut_off,
                             no_shapes,
                             no_layers,
                             no_memory,
                             no_cuda_sync,
                             no_backward_links,
                             orphans,
                             before_launch,
                             duplicate_correlations,
                             no_external_id,
                             no_device_properties,
                             no_launch_geometry,
                             graph_work,
                             whole_graphs,
                             profiler_stalls,
                             no_rank,
                             one_rank_of_many,
                             no_collective_sizes,
                             python_stacks,
                             cold_steps_left_out,
                             steps_vary,
                             one_step,
                             no_training,
                             overlaps,
                             unresolved_waits,
                             whole_microseconds};

}  // namespace

std::vector<Finding> check_all(const Facts& facts) {
  std::vector<Finding> findings = findings_of(kChecks, facts);
  // What an exported file lacks, its graph does not need: it was made from the whole trace.
  if (facts.from_export) findings.clear();
  for (Finding& finding : check_graph(facts)) findings.push_back(std::move(finding));
  for (Finding& finding : check_waits(facts)) findings.push_back(std::move(finding));
  // Where another finding names the reason, "declined" adds nothing to it.
  const bool named = std::any_of(findings.begin(), findings.end(), [](const Finding& f) {
    return f.weight == Weight::kBlocks && f.name != "no_predictions";
  });
  if (named) std::erase_if(findings, [](const Finding& f) { return f.name == "no_predictions"; });
  name_remedies(*facts.trace, findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.weight < b.weight; });
  return findings;
}

}  // namespace foretrace::analysis
