#include "whatif/model/use_code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/readable.hpp"

namespace foretrace::whatif {
namespace {

// Layers that a use chooses are said behind the line: a list of names is no code.
std::string on_layers(const Parameters& p) {
  const std::vector<std::string> layers = p.list("layers");
  if (layers.empty()) return {};
  const std::string more = layers.size() > 1 ? fmt::format(" and {} more", layers.size() - 1) : std::string();
  return fmt::format("for {}{}", printable(layers.front()), more);
}

std::string with_note(std::string code, const std::string& note) {
  return note.empty() ? code : fmt::format("{}  # {}", code, note);
}

std::string accumulate(const Parameters& p, bool /*training*/) {
  const double n = p.number("n");
  return fmt::format("for part in batch.chunk({0:g}): (loss_fn(model(part)) / {0:g}).backward()", n);
}

std::string amp(const Parameters& p, bool training) {
  const bool bf16 = p.text("dtype") == "bf16";
  std::string note = on_layers(p);
  // bf16 has the range of fp32: nothing underflows, and no scaler is needed.
  if (training && !bf16) note += note.empty() ? "and torch.amp.GradScaler" : ", and torch.amp.GradScaler";
  return with_note(fmt::format("with {}torch.autocast('cuda', dtype=torch.{}): …",
                               training ? "" : "torch.inference_mode(), ", bf16 ? "bfloat16" : "float16"),
                   note);
}

std::string batch(const Parameters& p, bool training) {
  if (!training) return {};
  return fmt::format("DataLoader(dataset, batch_size={:g} * batch_size)", p.number("x"));
}

std::string bucket(const Parameters& p, bool /*training*/) {
  return fmt::format("DistributedDataParallel(model, bucket_cap_mb={:g})", p.number("mb"));
}

std::string ddp(const Parameters& p, bool /*training*/) {
  if (!p.given("bucket_mb")) return {};
  return fmt::format("model = DistributedDataParallel(model, bucket_cap_mb={:g})", p.number("bucket_mb"));
}

std::string checkpoint(const Parameters& p, bool /*training*/) {
  const bool reentrant = p.text("reentrant") == "1";
  const std::string layers = on_layers(p);
  if (!layers.empty()) {
    return with_note(fmt::format("torch.utils.checkpoint.checkpoint(block, x, use_reentrant={})", reentrant ? "True" : "False"),
                     layers);
  }
  if (!reentrant) return {};
  return "model.gradient_checkpointing_enable({'use_reentrant': True})  # or torch.utils.checkpoint.checkpoint(block, x, "
         "use_reentrant=True)";
}

std::string compile(const Parameters& p, bool training) {
  const std::string& mode = p.text("mode");
  const std::string layers = on_layers(p);
  if (mode == "default" && layers.empty()) return {};
  const std::string option = mode == "default" ? std::string() : fmt::format("mode='{}'", mode);
  if (!layers.empty()) return with_note(fmt::format("block.compile({})", option), layers);
  return with_note(fmt::format("model = torch.compile(model, {})", option),
                   training ? std::string() : "and with torch.inference_mode(): model(x)");
}

std::string compress_activations(const Parameters& p, bool /*training*/) {
  if (p.text("bits") == "16") return {};
  return "with torch.autograd.graph.saved_tensors_hooks(to_8_bits, from_8_bits): …";
}

std::string compress_gradients(const Parameters& p, bool /*training*/) {
  const std::string& method = p.text("method");
  if (method == "fp16") return "model.register_comm_hook(None, default_hooks.fp16_compress_hook)";
  if (method == "powersgd") {
    return fmt::format(
        "model.register_comm_hook(PowerSGDState(None, matrix_approximation_rank={:g}), powerSGD_hook.powerSGD_hook)",
        p.number("rank"));
  }
  return fmt::format("model.register_comm_hook(state, hook)  # with a hook of your own for {}", method);
}

std::string cuda_graph(const Parameters& p, bool /*training*/) {
  const std::string layers = on_layers(p);
  return layers.empty() ? layers : with_note("block = torch.cuda.make_graphed_callables(block, (x,))", layers);
}

std::string dataloader(const Parameters& p, bool /*training*/) {
  return fmt::format("DataLoader(dataset, batch_size=…, num_workers={:g}, pin_memory={})", p.number("workers"),
                     p.text("pin") == "0" ? "False" : "True");
}

std::string sharded(const Parameters& p, bool /*training*/) {
  return p.text("version") == "1" ? "model = FullyShardedDataParallel(model, auto_wrap_policy=…)" : std::string();
}

std::string sequence(const Parameters& p, bool /*training*/) {
  return fmt::format("tokenizer(texts, max_length={:g} * max_length, padding='max_length', truncation=True)",
                     p.number("x"));
}

struct Row {
  std::string_view whatif;
  std::string (*code)(const Parameters& parameters, bool training);
};
constexpr std::array kRows = {
    Row{"accumulate", accumulate},
    Row{"amp", amp},
    Row{"batch", batch},
    Row{"bucket", bucket},
    Row{"checkpoint", checkpoint},
    Row{"compile", compile},
    Row{"compress-activations", compress_activations},
    Row{"compress-gradients", compress_gradients},
    Row{"cuda-graph", cuda_graph},
    Row{"dataloader", dataloader},
    Row{"ddp", ddp},
    Row{"fsdp", sharded},
    Row{"sequence", sequence},
    Row{"zero3", sharded},
};

}  // namespace

std::string code_with_parameters(const Use& use, bool training) {
  // A what-if of the user brings its own line, whatever it is called.
  if (use.own != nullptr) return {};
  const auto* const row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.whatif == use.whatif->name; });
  return row == kRows.end() ? std::string() : row->code(use.parameters, training);
}

}  // namespace foretrace::whatif
