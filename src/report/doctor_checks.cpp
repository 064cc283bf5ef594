#include "report/doctor_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "report/text.hpp"

namespace foretrace::report {
namespace {

using trace::EventKind;
using trace::kAbsent;
using Maybe = std::optional<Finding>;

constexpr const char* kBothActivities =
    "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])";

double part(std::uint64_t some, std::uint64_t all) {
  return all > 0 ? static_cast<double>(some) / static_cast<double>(all) : 0;
}

// What the trace holds at all ----------------------------------------------------------------------------------------

Maybe no_kernels(const Facts& f) {
  if (f.gpu_work() > 0) return {};
  return Finding{"no_kernels", Weight::kBlocks, "the trace holds no GPU work",
                 "Without kernels there is nothing to replay or to change: foretrace predicts steps that run on a GPU.",
                 f.trace->partial
                     ? std::string("the cut came before the GPU's events; a whole file has them")
                     : fmt::format("{}; if it was recorded so, CUPTI could not attach: another profiler was "
                                   "running, or the process lacks the permission",
                                   kBothActivities)};
}

Maybe no_cpu(const Facts& f) {
  if (f.gpu_work() == 0 || f.of(EventKind::kOp) + f.of(EventKind::kRuntime) > 0) return {};
  return Finding{
      "no_cpu", Weight::kBlocks, "the trace holds no CPU events, only the GPU's side",
      "What launches the kernels and in which order the CPU waits is unknown: only changes of kernel times can be "
      "estimated, no change of launches, operations or layers.",
      kBothActivities};
}

Maybe partial(const Facts& f) {
  if (!f.trace->partial) return {};
  return Finding{
      "partial", Weight::kCosts, "the file is cut off; only what came before the cut was read",
      "The last step is probably incomplete, and metadata at the end of the file (device, ranks) is missing.",
      "let the export finish before copying the file; a full disk cuts files too"};
}

Maybe several_processes(const Facts& f) {
  if (f.processes.size() < 2) return {};
  return Finding{"several_processes",
                 Weight::kCosts,
                 fmt::format("the file holds {} processes", f.processes.size()),
                 "Correlation ids repeat between processes, so that kernels may be tied to launches of another one.",
                 "write one file per rank: tensorboard_trace_handler(dir, worker_name=f\"rank_{rank}\")",
                 f.processes.size()};
}

// Steps --------------------------------------------------------------------------------------------------------------

Maybe no_profiler_step(const Facts& f) {
  if (f.steps->source == trace::StepSource::kProfilerStep || f.steps->steps.empty()) return {};
  const bool whole = f.steps->source == trace::StepSource::kWholeTrace;
  return Finding{"no_profiler_step", Weight::kCosts,
                 whole ? "no step is marked and nothing repeats: the whole trace counts as one step"
                       : fmt::format("no step is marked; taken instead: {}", trace::describe(f.steps->source)),
                 whole ? "Start-up, evaluation and everything else in the trace count as part of the step."
                       : "The borders of a step are a guess; work may be counted in the wrong step.",
                 "call prof.step() at the end of each iteration, with schedule=torch.profiler.schedule(wait=1, "
                 "warmup=1, active=3)"};
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
      fmt::format("{} of {} left no record on the GPU", plural(count, "launch", "launches"), shorten_middle(names, 60)),
      "Such a step is cut off: its GPU work is incomplete and it replays too short. Use another step (--step N).",
      "stop the profiler after the GPU has finished: torch.cuda.synchronize() before the last prof.step()",
      count};
}

Maybe steps_vary(const Facts& f) {
  const auto& steps = f.steps->steps;
  if (steps.size() < 2) return {};
  const auto shorter = [](const trace::Step& a, const trace::Step& b) { return a.duration() < b.duration(); };
  const auto [low, high] = std::minmax_element(steps.begin(), steps.end(), shorter);
  const double median = static_cast<double>(steps[f.steps->median()].duration());
  const double spread = median > 0 ? static_cast<double>(high->duration() - low->duration()) / median : 0;
  if (spread <= 0.1) return {};
  return Finding{
      "steps_vary", Weight::kNote,
      fmt::format("steps differ by {}: {} {} ms, {} {} ms", format_percent(spread), low->name,
                  format_ms(low->duration()), high->name, format_ms(high->duration())),
      "A prediction speaks of one step (the median unless --step says otherwise) and its band grows with the spread.",
      "skip ramp-up: schedule(skip_first=10, wait=1, warmup=1, active=3)"};
}

Maybe one_step(const Facts& f) {
  if (f.steps->steps.size() != 1 || f.steps->source == trace::StepSource::kWholeTrace) return {};
  return Finding{"one_step", Weight::kNote, "the trace holds one step",
                 "How much steps differ from each other is unknown, so that the band of a prediction is a guess.",
                 "schedule=torch.profiler.schedule(wait=1, warmup=1, active=3)"};
}

// Operations ---------------------------------------------------------------------------------------------------------

Maybe no_shapes(const Facts& f) {
  if (f.of(EventKind::kOp) == 0 || f.ops_with_shapes > 0) return {};
  return Finding{"no_shapes", Weight::kCosts, "operations carry no input shapes",
                 "Sizes of tensors are unknown: predictions for another precision, batch size or GPU must go by launch "
                 "geometry alone, with a wider band, and arithmetic (FLOP, MFU) cannot be counted.",
                 "torch.profiler.profile(record_shapes=True)"};
}

Maybe no_backward_links(const Facts& f) {
  if (f.backward_nodes == 0 || f.ops_with_sequence > 0 || f.fwdbwd_flows > 0) return {};
  return Finding{"no_backward_links",
                 Weight::kCosts,
                 "backward operations carry no sequence numbers and no fwdbwd arrows",
                 "Backward kernels cannot be given to layers: changes of single layers reach their forward part only.",
                 "record CPU activity with PyTorch 1.9 or newer and export the file unfiltered",
                 f.backward_nodes};
}

Maybe no_layers(const Facts& f) {
  if (f.of(EventKind::kOp) == 0 || f.layer_ranges + f.module_frames > 0) return {};
  return Finding{
      "no_layers", Weight::kCosts, "nothing names the layers of the model",
      "Layers are formed from operations and shapes and have made-up names; what-ifs that choose layers are harder to "
      "write.",
      "wrap each leaf module's forward in torch.profiler.record_function(f\"layer:{name}|{type(m).__name__}\")"};
}

Maybe python_stacks(const Facts& f) {
  if (f.of(EventKind::kPython) == 0) return {};
  return Finding{"python_stacks",
                 Weight::kNote,
                 "Python stacks were recorded",
                 "Recording them slows the CPU down: the traced step is longer than the real one, and "
                 "more of it has to be taken off again by a model.",
                 "torch.profiler.profile(with_stack=False)",
                 f.of(EventKind::kPython)};
}

Maybe no_training(const Facts& f) {
  const bool hidden = part(f.graph_work, f.gpu_work()) > 0.5;  // a CUDA graph may hold the whole training step
  if (hidden || f.of(EventKind::kOp) == 0 || f.backward_nodes + f.optimizer_ranges > 0) return {};
  return Finding{"no_training", Weight::kNote, "there is no backward pass and no optimizer step",
                 "It looks like inference; what-ifs about training (optimizer, gradients, checkpointing) do not apply.",
                 ""};
}

// Launches and clocks ------------------------------------------------------------------------------------------------

Maybe orphans(const Facts& f) {
  if (f.orphans == 0 || f.of(EventKind::kRuntime) == 0) {
    if (f.gpu_work() == 0 || f.of(EventKind::kOp) == 0 || f.of(EventKind::kRuntime) > 0) return {};
    return Finding{
        "no_launch_calls",
        Weight::kCosts,
        "no CUDA calls were recorded, so no kernel has a launch",
        "Kernels are tied to operations by External id or by time only; waits of the CPU for the GPU are invisible.",
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

Maybe before_launch(const Facts& f) {
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

Maybe duplicate_correlations(const Facts& f) {
  if (f.duplicate_correlations == 0) return {};
  return Finding{
      "duplicate_correlation_ids",
      Weight::kCosts,
      fmt::format("{} used by more than one call",
                  plural(f.duplicate_correlations, "correlation id is", "correlation ids are")),
      "Kernels may be tied to the wrong launch. It happens when traces of several ranks are merged into one file.",
      "give foretrace one file per rank",
      f.duplicate_correlations};
}

Maybe no_external_id(const Facts& f) {
  if (f.gpu_work() == 0 || f.of(EventKind::kOp) == 0 || f.work_with_external_id > 0) return {};
  return Finding{"no_external_id", f.of(EventKind::kRuntime) > 0 ? Weight::kNote : Weight::kCosts,
                 "GPU events carry no External id",
                 "Kernels are tied to operations through the launch call's time and thread, which works unless "
                 "launches are missing too.",
                 kBothActivities};
}

Maybe graph_work(const Facts& f) {
  if (f.graph_work == 0) return {};
  const bool main = part(f.graph_work, f.gpu_work()) > 0.5;
  return Finding{"cuda_graph",
                 main ? Weight::kCosts : Weight::kNote,
                 fmt::format("{} of {} GPU tasks were launched by CUDA graphs", format_count(f.graph_work),
                             format_count(f.gpu_work())),
                 "The operations behind them were recorded at capture, not here: no operation, layer, phase or shape "
                 "is known for them.",
                 "to ask for what-ifs of layers or operations, trace the same model without CUDA graphs",
                 f.graph_work};
}

Maybe overlaps(const Facts& f) {
  const std::uint64_t count = f.thread_overlaps + f.stream_overlaps;
  if (count == 0) return {};
  return Finding{"overlapping_events",
                 Weight::kNote,
                 fmt::format("{} overlap without nesting on their lane ({} on threads, {} on streams), by up to {} us",
                             plural(count, "event"), format_count(f.thread_overlaps), format_count(f.stream_overlaps),
                             format_us(to_us(f.worst_overlap))),
                 "A lane does one thing at a time in the graph; the overlap is cut off the later event.",
                 "",
                 count};
}

// The GPU's side -----------------------------------------------------------------------------------------------------

Maybe no_cuda_sync(const Facts& f) {
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

Maybe unresolved_waits(const Facts& f) {
  if (f.unresolved_waits == 0) return {};
  return Finding{"unresolved_stream_waits",
                 Weight::kNote,
                 fmt::format("{} not say which event they wait for",
                             plural(f.unresolved_waits, "stream wait does", "stream waits do")),
                 "The record they wait for is inferred from the order of calls and checked against the times.",
                 "",
                 f.unresolved_waits};
}

Maybe no_memory(const Facts& f) {
  if (f.of(EventKind::kMemory) > 0 || f.of(EventKind::kOp) == 0) return {};
  return Finding{"no_memory", Weight::kCosts, "no allocator events",
                 "Peak memory is unknown: a prediction cannot say whether a change fits the GPU, nor what it saves.",
                 "torch.profiler.profile(profile_memory=True)"};
}

Maybe no_device_properties(const Facts& f) {
  if (f.gpu_work() == 0 || !f.trace->devices.empty()) return {};
  return Finding{"no_device_properties", Weight::kCosts, "the trace does not say which GPU it ran on",
                 "Predictions for another GPU or precision need the GPU's model and will have to be told.",
                 "export with prof.export_chrome_trace() and keep the file's top-level keys (deviceProperties)"};
}

Maybe no_launch_geometry(const Facts& f) {
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

Maybe whole_microseconds(const Facts& f) {
  if (!f.whole_microseconds) return {};
  return Finding{"whole_microseconds", Weight::kNote, "times are whole microseconds",
                 "Short kernels are off by up to 1 us each, which adds up in steps of thousands of small kernels.",
                 "PyTorch 2.4 or newer writes nanoseconds"};
}

Maybe profiler_stalls(const Facts& f) {
  Ns steps = 0;
  for (const trace::Step& step : f.steps->steps) steps += step.duration();
  if (f.overhead == 0 || f.overhead * 100 < steps) return {};
  return Finding{"profiler_stalls",
                 Weight::kCosts,
                 fmt::format("the profiler itself was at work for {} ms of the steps", format_ms(f.overhead)),
                 "Steps with such a stall are longer than real ones in ways a model cannot take off again.",
                 "add a warm-up step: schedule(wait=1, warmup=2, active=3)",
                 f.of(EventKind::kOverhead)};
}

// Ranks --------------------------------------------------------------------------------------------------------------

Maybe no_rank(const Facts& f) {
  if (f.trace->distributed.present || f.collectives == 0) return {};
  return Finding{"no_distributed_info",
                 Weight::kCosts,
                 "collectives are there, but not which rank this is (no distributedInfo)",
                 "Files of one job cannot be put in order by content; the file names have to tell the ranks.",
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
                 "transfer cannot be told apart.",
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

constexpr Maybe (*kChecks[])(const Facts&) = {no_kernels,
                                              no_cpu,
                                              partial,
                                              several_processes,
                                              no_profiler_step,
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
                                              profiler_stalls,
                                              no_rank,
                                              one_rank_of_many,
                                              no_collective_sizes,
                                              python_stacks,
                                              steps_vary,
                                              one_step,
                                              no_training,
                                              overlaps,
                                              unresolved_waits,
                                              whole_microseconds};

}  // namespace

std::vector<Finding> check_all(const Facts& facts) {
  std::vector<Finding> findings;
  for (const auto check : kChecks) {
    if (Maybe finding = check(facts)) findings.push_back(std::move(*finding));
  }
  // What an exported file lacks, its graph does not need: it was made from the whole trace.
  if (facts.from_export) findings.clear();
  for (Finding& finding : check_graph(facts)) findings.push_back(std::move(finding));
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.weight < b.weight; });
  return findings;
}

}  // namespace foretrace::report
