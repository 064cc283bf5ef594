#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/reschedule.hpp"
#include "whatif/model/whole_number.hpp"

namespace foretrace::whatif {
namespace {

constexpr const char* kAsRecorded = "recorded";

Status apply_alone(Model&, Draft&, const Parameters&) { return needs_a_job("one trace holds one stage of a pipeline"); }

Result<JobPlan> apply_to_job(const JobModels& job, const Parameters& p) {
  std::optional<simulate::ScheduleKind> schedule;
  if (p.text("schedule") != kAsRecorded) {
    FORETRACE_TRY(schedule, simulate::schedule_named(p.text("schedule")));
  }
  FORETRACE_TRY(Reschedule made, Reschedule::make(job, static_cast<std::uint32_t>(p.number("microbatches")), schedule));
  if (!made.changes()) return fail(ErrorCode::kDeclined, "the job already has this schedule and these micro-batches");
  const auto shared = std::make_shared<const Reschedule>(std::move(made));
  return JobPlan{[shared](std::size_t slot, Model& model, Draft& draft) { return shared->apply(slot, model, draft); },
                 shared->ties()};
}

std::string code_for(const Parameters& p, bool /*training*/) {
  const std::string name = p.text("schedule") == "gpipe" ? "ScheduleGPipe" : "Schedule1F1B";
  return fmt::format("schedule = {}(stage, n_microbatches={}, loss_fn=loss_fn)", name,
                     p.number("microbatches") > 0 ? fmt::format("{:g}", p.number("microbatches")) : "…");
}

const Registered kRegistered({.name = "pipeline",
                              .about = "a recorded pipeline with other micro-batches, or in another order",
                              .parameters = {{.name = "microbatches",
                                              .about = "of a step; 0: as recorded",
                                              .default_value = "0",
                                              .type = ParameterType::kNumber,
                                              .minimum = -1,
                                              .check = whole_number<1024>},
                                             {.name = "schedule",
                                              .about = "which pass a rank runs when",
                                              .default_value = kAsRecorded,
                                              .choices = {kAsRecorded, "1f1b", "gpipe"}}},
                              .assumes = "a step has the same samples; a pass runs what the recorded ones ran",
                              .source = "GPipe; PipeDream",
                              .changes = Changes::kWorkers,
                              .parts = {.memory = Part::kModelled},
                              .code = "schedule = Schedule1F1B(stage, n_microbatches=…, loss_fn=loss_fn)",
                              .code_for = code_for,
                              .effort = Effort::kLine,
                              .stage = Stage::kRuntime,
                              .apply = apply_alone});
const RegisteredForJobs kOnJobs("pipeline", apply_to_job);

}  // namespace
}  // namespace foretrace::whatif
