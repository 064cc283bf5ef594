// Stages of a pipeline, each on GPUs of its own. They do different work, so that no change of one GPU's step says what they do: plan/stack
// takes the stack apart into a plan and predicts that. What is here describes the change, and checks what the user wrote.

#include <fmt/format.h>

#include <cmath>

#include "simulate/pipeline_schedule.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

Status apply_pp(Model&, Draft& draft, const Parameters& p) {
  if (p.number("stages") == 1) {
    draft.note_change();  // one GPU has all layers
    return {};
  }
  return fail(ErrorCode::kDeclined,
              "the stages of a pipeline do different work, and what is asked here is the step of one GPU; "
              "`foretrace whatif`, strategies and step.predict answer it");
}

Result<JobPlan> apply_to_job(const JobModels&, const Parameters&) {
  return fail(ErrorCode::kDeclined,
              "stages are made of the step of one GPU, and this is a job of several; "
              "`pipeline` changes the micro-batches and the schedule of a recorded pipeline");
}

Status check_blocks(const std::string& value) {
  if (!value.empty() && value.find_first_not_of("0123456789|") == std::string::npos) return {};
  return fail(ErrorCode::kUsage, fmt::format("'{}' is no list of numbers of blocks", value),
              "for example blocks=9|8|8|7");
}

// Whether such a schedule exists, before the trace is read.
Status check_pp(const Parameters& p) {
  const double stages = p.number("stages");
  if (stages < 2) return {};
  const double microbatches = p.number("microbatches") > 0 ? p.number("microbatches") : 2 * stages;
  FORETRACE_TRY(const simulate::ScheduleKind kind, simulate::schedule_named(p.text("schedule")));
  const bool interleaved = kind == simulate::ScheduleKind::kInterleaved;
  const double chunks = p.given("chunks") ? p.number("chunks") : interleaved ? 2 : 1;
  // How many there are in a step is not known where the size of one is given.
  if (p.number("microbatch") > 0 && p.number("microbatches") == 0) return {};
  FORETRACE_TRY_VOID(
      simulate::make_pipeline_schedule({kind, static_cast<std::uint32_t>(stages),
                                        static_cast<std::uint32_t>(microbatches), static_cast<std::uint32_t>(chunks)}));
  return {};
}

std::vector<Parameter> parameters() {
  const auto count = [](std::string name, std::string about, double above, bool required = false) {
    Parameter p{.name = std::move(name), .about = std::move(about), .type = ParameterType::kNumber};
    if (!required) p.default_value = "0";
    p.required = required;
    p.minimum = above;
    p.check = whole_number<kMostWorkers>;
    return p;
  };
  std::vector<Parameter> all{count("stages", "GPUs that share the layers, one behind the other", 0, true)};
  for (Parameter& p : network_parameters()) all.push_back(std::move(p));
  all.push_back(
      count("microbatches", "of a step; default: twice as many as stages, where the batch divides like that", -1));
  all.push_back({.name = "microbatch",
                 .about = "samples in each of them, where their number is not given",
                 .default_value = "0",
                 .type = ParameterType::kNumber,
                 .minimum = -1});
  all.push_back(
      {"schedule", "which pass a GPU runs when", "1f1b", {"1f1b", "gpipe", "interleaved", "zb1p", "dualpipe"}});
  all.push_back(count("chunks", "stages on each GPU, with schedule=interleaved; default: 2", -1));
  all.push_back({"balance",
                 "stages of equally many blocks, or such that the longest takes the least time",
                 "layers",
                 {"layers", "time"}});
  Parameter blocks{.name = "blocks", .about = "blocks of each stage (9|8|8|7), in place of balance"};
  blocks.check = check_blocks;
  all.push_back(std::move(blocks));
  all.push_back({"outputs",
                 "whether the last stage keeps the output of every micro-batch, as torch's pipelining does",
                 "dropped",
                 {"dropped", "kept"}});
  return all;
}

const Registered kRegistered(
    {.name = "pp",
     .about = "pipeline parallel: the layers divided over several GPUs, the batch into micro-batches",
     .parameters = parameters(),
     .assumes = "blocks repeat; the batch stays that of one replica",
     .source = "GPipe (arXiv 1811.06965), Megatron-LM (arXiv 2104.04473), zero bubble (arXiv 2401.10241), DualPipe "
               "(arXiv 2412.19437)",
     .not_modelled = "stages that share a GPU's memory or power",
     .needs = {Need::kBackward},
     .changes = Changes::kWorkers,
     .parts = {.memory = Part::kModelled},
     .code = "schedule = Schedule1F1B(PipelineStage(part, rank, stages, device), n_microbatches=…, loss_fn=loss_fn)",
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_pp,
     .check = check_pp,
     .whole_program = "a compiled program's kernels do not tell which layer they belong to"});
const RegisteredForJobs kOnJobs("pp", apply_to_job);

}  // namespace
}  // namespace foretrace::whatif
