// One piece for each change that has a place in a training script. Functions they call are those of pytorch/*.py.

#include "report/code_pieces.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foretrace::report {

std::string python_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

namespace {

// The number a name ends with, and what stands before it; -1 when it ends with none.
std::pair<std::string_view, long> numbered(std::string_view name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == name.size() || name.size() - digits > 6) return {name, -1};
  return {name.substr(0, digits), std::stol(std::string(name.substr(digits)))};
}

// "layer1.2" after "layer1.1", "layer2.0" after "layer1.2": blocks that run one behind the other.
bool follows(std::string_view block, std::string_view next) {
  const auto [parent, number] = numbered(block);
  const auto [next_parent, next_number] = numbered(next);
  if (number < 0 || next_number < 0) return false;
  if (parent == next_parent) return next_number == number + 1;
  if (next_number != 0 || !parent.ends_with('.') || !next_parent.ends_with('.')) return false;
  const auto [list, place] = numbered(parent.substr(0, parent.size() - 1));
  const auto [next_list, next_place] = numbered(next_parent.substr(0, next_parent.size() - 1));
  return place >= 0 && list == next_list && next_place == place + 1;
}

// "for VARIABLE in CALL(model, …names…):", and the names remembered.
void each_named(const PieceUse& p, const std::vector<std::string>& names, std::string_view body,
                std::vector<std::string>& lines, ScriptPlaces& to) {
  std::string all;
  for (const std::string& name : names) all += fmt::format("        {},\n", python_literal(name));
  lines.push_back(
      fmt::format("    for module in modules_named({}\n        model,\n{}    ):\n        {}", p.gain, all, body));
  to.layers.insert(to.layers.end(), names.begin(), names.end());
}

std::string half_type(const PieceUse& p) {
  return p.use.parameters.text("dtype") == "bf16" ? "torch.bfloat16" : "torch.float16";
}

void write_amp(const PieceUse& p, ScriptPlaces& to) {
  const std::vector<std::string> layers = p.use.parameters.list("layers");
  to.scaler = half_type(p) == "torch.float16";
  if (layers.empty()) {
    to.contexts.push_back(
        fmt::format("with torch.autocast(tensors_of(inputs)[0].device.type, dtype={}):{}", half_type(p), p.gain));
    return;
  }
  // Regions of autocast: a block whose successor is half too hands on what it has.
  std::string all;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool goes_on = i + 1 < layers.size() && follows(layers[i], layers[i + 1]);
    all += fmt::format("        ({}, {}),\n", python_literal(layers[i]), goes_on ? "False" : "True");
  }
  to.model.push_back(
      fmt::format("    for name, ends in ({}\n{}    ):\n        for module in modules_named(model, name):\n"
                  "            autocast_region(module, {}, ends)",
                  p.gain, all, half_type(p)));
  to.layers.insert(to.layers.end(), layers.begin(), layers.end());
}

void write_tf32(const PieceUse& p, ScriptPlaces& to) {
  to.flags.push_back("    torch.set_float32_matmul_precision(\"high\")" + p.gain);
  to.flags.emplace_back("    torch.backends.cudnn.allow_tf32 = True");
}

void write_channels_last(const PieceUse& p, ScriptPlaces& to) {
  to.model.push_back("    model = model.to(memory_format=torch.channels_last)" + p.gain);
  to.inputs = "channels_last(inputs)";
}

void write_checkpoint(const PieceUse& p, ScriptPlaces& to) {
  const std::string how = p.use.parameters.text("reentrant") == "1" ? ", reentrant=True" : "";
  if (const std::vector<std::string> layers = p.use.parameters.list("layers"); !layers.empty()) {
    each_named(p, layers, fmt::format("checkpointed(module{})", how), to.model, to);
  } else {
    to.model.push_back(
        fmt::format("    for block in repeated_blocks(model):{}\n        checkpointed(block{})", p.gain, how));
  }
}

void write_flash_attention(const PieceUse& p, ScriptPlaces& to) {
  to.model.push_back("    fused_attention(model)" + p.gain);
}

void write_compile(const PieceUse& p, ScriptPlaces& to) {
  const std::string mode = p.use.parameters.text("mode");
  const std::string options = mode.empty() || mode == "default" ? "" : fmt::format("mode={}", python_literal(mode));
  if (const std::vector<std::string> layers = p.use.parameters.list("layers"); !layers.empty()) {
    each_named(p, layers, fmt::format("module.compile({})", options), to.regions, to);
  } else if (p.communication != nullptr && !p.communication->buckets.empty()) {
    // One graph would hand over all gradients at its end. DistributedDataParallel cuts it at its buckets; for a plan of
    // one's own the blocks are compiled one by one.
    to.regions.push_back(
        fmt::format("    for block in repeated_blocks(model) or [model]:{}  Gradients come block by block.\n        "
                    "block.compile({})",
                    p.gain.empty() ? "  #" : p.gain + ".", options));
  } else {
    to.whole.push_back(fmt::format("    model.compile({}){}", options, p.gain));
  }
}

void write_fused(const PieceUse& p, ScriptPlaces& to) {
  to.optimizer.push_back("    options[\"fused\"] = True" + p.gain);
}

void write_foreach(const PieceUse& p, ScriptPlaces& to) {
  to.optimizer.push_back("    options[\"foreach\"] = True" + p.gain);
}

void write_accumulate(const PieceUse& p, ScriptPlaces& to) {
  to.passes = std::max(1, static_cast<int>(p.use.parameters.number("n")));
  to.step.push_back(
      fmt::format("    # accumulate: {} parts{}", to.passes, p.gain.empty() ? "" : "," + p.gain.substr(3)));
}

void write_compress_activations(const PieceUse& p, ScriptPlaces& to) {
  to.contexts.push_back(
      fmt::format("with compressed_activations(model, {}):{}", p.use.parameters.text("bits"), p.gain));
}

void write_offload(const PieceUse& p, ScriptPlaces& to) {
  if (p.use.parameters.text("prefetch") == "1") {
    to.contexts.push_back("with offloaded_beside(model):" + p.gain);
  } else {
    to.contexts.push_back("with torch.autograd.graph.save_on_cpu(pin_memory=tensors_of(inputs)[0].is_cuda):" + p.gain);
  }
}

void write_cuda_graph(const PieceUse& p, ScriptPlaces& to) {
  to.captured = true;
  to.step.push_back("    # cuda-graph: make_step records this step and plays it" +
                    (p.gain.empty() ? "" : "," + p.gain.substr(3)));
  to.optimizer.emplace_back("    if tensors_of(parameters)[0].is_cuda:\n        options = recordable(cls, options)");
}

void write_no_sync(const PieceUse& p, ScriptPlaces& to) {
  to.step.push_back("    # no-sync: nothing here waits for the GPU; read the loss (loss.item()) every 50th step or so" +
                    (p.gain.empty() ? "" : "," + p.gain.substr(3)));
}

void write_dataloader(const PieceUse& p, ScriptPlaces& to) {
  to.loader = fmt::format("    options.update(num_workers={:g}, pin_memory=torch.cuda.is_available()){}",
                          p.use.parameters.number("workers"), p.gain);
}

struct CodePiece {
  std::string_view whatif;
  void (*write)(const PieceUse& part, ScriptPlaces& to);
};
constexpr CodePiece kPieces[] = {
    {"accumulate", write_accumulate},
    {"amp", write_amp},
    {"channels-last", write_channels_last},
    {"checkpoint", write_checkpoint},
    {"compile", write_compile},
    {"compress-activations", write_compress_activations},
    {"cuda-graph", write_cuda_graph},
    {"dataloader", write_dataloader},
    {"flash-attention", write_flash_attention},
    {"foreach-optimizer", write_foreach},
    {"fused-optimizer", write_fused},
    {"no-sync", write_no_sync},
    {"offload", write_offload},
    {"tf32", write_tf32},
};

}  // namespace

bool write_piece(const PieceUse& part, ScriptPlaces& places) {
  const auto* const piece = std::find_if(std::begin(kPieces), std::end(kPieces),
                                         [&](const CodePiece& p) { return p.whatif == part.use.whatif->name; });
  if (piece == std::end(kPieces)) return false;
  piece->write(part, places);
  return true;
}

}  // namespace foretrace::report
