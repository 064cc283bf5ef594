#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/rewrite/scaling.hpp"
#include "whatif/rewrite/sequence_length.hpp"

namespace foretrace::whatif {
namespace {

Status apply_sequence(Model& m, Draft& draft, const Parameters& parameters) {
  FORETRACE_TRY(const SequenceShapes shapes, SequenceShapes::find(m));
  FORETRACE_TRY_VOID(change_length(m, draft, shapes, parameters.number("x"), KeysSeen::kAlike));
  m.pass_samples *= parameters.number("x");
  scale_collectives(m, draft, parameters.number("x"));
  return {};
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
     .whole_program = "a compiled program's kernels do not tell which of their sizes is a sequence"});

}  // namespace
}  // namespace foretrace::whatif
