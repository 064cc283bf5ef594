#include <fmt/format.h>

#include "base/decimal.hpp"
#include "hardware/cost.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/dataflow/saved_tensors.hpp"
#include "whatif/model/script.hpp"
#include "whatif/rewrite/lossless_codes.hpp"

namespace foretrace::whatif {
namespace {

// Smaller ones are not worth two kernels.
constexpr std::int64_t kFewestElements = 1 << 18;

Status share(const std::string& value) {
  const double number = parse_double(value).value_or(-1);
  if (number >= 0 && number <= 1) return {};
  return fail(ErrorCode::kUsage, fmt::format("'{}' is not a share from 0 to 1", value));
}

Status apply_compress(Model& m, Draft& draft, const Parameters& parameters) {
  if (parameters.text("code") == "lossless") return encode_losslessly(m, draft, parameters.number("zeros"));
  if (std::string why = why_saved_unknown(m); !why.empty()) return fail(ErrorCode::kDeclined, std::move(why));
  const bool half = parameters.text("bits") == "16";
  std::vector<SavedTensor> saved = saved_tensors(m, draft);
  std::erase_if(saved, [](const SavedTensor& s) {
    return s.parameter || !s.floating || s.elements < kFewestElements || s.bytes != 4 * s.elements;
  });
  if (saved.empty()) return fail(ErrorCode::kDeclined, "no large FP32 activation is kept for the backward pass");
  for (const SavedTensor& s : saved) {
    for (const bool forward : {true, false}) {
      // Four bytes are read and two or one written, and back again.
      work::Work work = forward ? work::cast_work(s.elements, work::Dtype::kFp32, work::Dtype::kFp16)
                                : work::cast_work(s.elements, work::Dtype::kFp16, work::Dtype::kFp32);
      const hardware::Cost cost = predict(work, m.device);
      if (!cost.known) return fail(ErrorCode::kDeclined, "what a conversion costs on this GPU is unknown");
      work.written = true;
      const std::uint32_t row = m.works.add(work);
      const Place at = forward && s.computed ? place_behind(m.graph, s.forward)
                                             : place_before(m.graph, forward ? s.forward : s.backward);
      if (!at.known()) continue;
      const Phase phase = forward ? Phase::kForward : Phase::kBackward;
      draft.insert({.name = forward ? "encode activation" : "decode activation",
                    .cost = static_cast<Ns>(cost.ns * (half ? 1.0 : 5.0 / 6.0)),
                    .phase = phase,
                    .layer = m.graph.layer[s.forward],
                    .after = at,
                    .cpu_cost = half ? m.launch_time(phase) : m.cpu_time(m.host.python.launch_us, phase),
                    .work = row,
                    .origin = cost.origin});
    }
  }
  release_saved(m, saved, half ? 0.5 : 0.25);
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  to.contexts.push_back(fmt::format("with compressed_activations(model, {}):{}", p.parameters.text("bits"), p.gain));
}

std::string code_for(const Parameters& p, bool /*training*/) {
  if (p.text("bits") == "16") return {};
  return "with torch.autograd.graph.saved_tensors_hooks(to_8_bits, from_8_bits): …";
}

const Registered kRegistered(
    {.name = "compress-activations",
     .about = "activations wait for the backward pass in fewer bits",
     .parameters = {{"bits", "of a kept element", "16", {"16", "8"}},
                    {"code",
                     "lossless: a bit for a ReLU, a byte for a pooling layer behind one, no zeros in what convolutions "
                     "keep of them",
                     "fewer",
                     {"fewer", "lossless"}},
                    {.name = "zeros",
                     .about = "with code=lossless: share of what a ReLU writes that is zero",
                     .default_value = "0.5",
                     .type = ParameterType::kNumber,
                     .check = share}},
     .assumes = "one kernel encodes each large FP32 tensor that is saved, one decodes it; a tensor two operations "
                "save is encoded twice",
     .source = "Jain et al. 2018 (Gist, delayed precision reduction); Daydream section 5",
     .not_modelled = "what fewer bits do to the model's accuracy; code=lossless: how many zeros there are, which the "
                     "trace does not say",
     .needs = {Need::kShapes, Need::kBackward},
     .changes = Changes::kPlacement,
     .parts = {.memory = Part::kModelled},
     .fits = Fits::kTraining,
     .code = "with torch.autograd.graph.saved_tensors_hooks(lambda x: x.half(), lambda x: x.float()): …",
     .code_for = code_for,
     .effort = Effort::kFewLines,
     .stage = Stage::kMemory,
     .advise = {"compress-activations"},
     .validated = true,
     .apply = apply_compress,
     .whole_program = "which tensors a compiled program keeps is not in its trace",
     .write_code = write_code});

}  // namespace
}  // namespace foretrace::whatif
