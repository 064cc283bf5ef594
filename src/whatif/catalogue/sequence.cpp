#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/rewrite/scaling.hpp"
#include "whatif/rewrite/sequence_length.hpp"

namespace foretrace::whatif {
namespace {

Status lengthen(Model& m, Draft& draft, const SequenceShapes& shapes, double x) {
  FORETRACE_TRY_VOID(change_length(m, draft, shapes, x, KeysSeen::kAlike));
  m.pass_samples *= x;
  scale_collectives(m, draft, x);
  return {};
}

Status apply_sequence(Model& m, Draft& draft, const Parameters& parameters) {
  FORETRACE_TRY(const SequenceShapes shapes, SequenceShapes::find(m));
  return lengthen(m, draft, shapes, parameters.number("x"));
}

// Of a pipeline only the first stage looks tokens up: it tells how long the sequences of all stages are.
Result<JobPlan> apply_to_job(const JobModels& job, const Parameters& parameters) {
  std::size_t first = 0;
  for (std::size_t s = 1; s < job.ranks.size(); ++s) {
    if (job.ties->stage[s] < job.ties->stage[first]) first = s;
  }
  FORETRACE_TRY(const SequenceShapes read, SequenceShapes::find(*job.ranks[first]));
  const std::uint32_t first_stage = job.ties->stage[first];
  return JobPlan{[&ties = *job.ties, read, first_stage, x = parameters.number("x")](std::size_t slot, Model& model,
                                                                                    Draft& draft) -> Status {
    if (ties.stage[slot] > first_stage) {
      return lengthen(model, draft, SequenceShapes::of_later_stage(model, read), x);
    }
    FORETRACE_TRY(const SequenceShapes own, SequenceShapes::find(model));
    return lengthen(model, draft, own, x);
  }};
}

std::string code_for(const Parameters& p, bool /*training*/) {
  return fmt::format("tokenizer(texts, max_length={:g} * max_length, padding='max_length', truncation=True)",
                     p.number("x"));
}

const Registered kRegistered(
    {.name = "sequence",
     .about = "sequences x times as long in every sample of a token model",
     .parameters =
         {{.name = "x", .about = "factor on the sequence length", .type = ParameterType::kNumber, .required = true}},
     .assumes = "all sequences of the step change alike (an encoder's and a decoder's); layers, norms, embeddings and "
                "losses follow the tokens, scores of attention their square; the CPU's work stays",
     .source = "Vaswani et al. 2017, table 1; measured steps at half and twice the length",
     .not_modelled = "padding: positions a longer sequence leaves empty cost as much as others",
     .needs = {Need::kShapes},
     .changes = Changes::kSequence,
     .parts = {.cpu = Part::kUnchanged, .memory = Part::kModelled},
     .code = "tokenizer(texts, max_length=…, padding='max_length', truncation=True)",
     .code_for = code_for,
     .effort = Effort::kLine,
     .stage = Stage::kBatch,
     .validated = true,
     .apply = apply_sequence,
     .whole_program = "a compiled program's kernels do not show which of their sizes is a sequence"});
const RegisteredForJobs kOnJobs("sequence", apply_to_job);

}  // namespace
}  // namespace foretrace::whatif
