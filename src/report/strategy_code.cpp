// The strategy as a PyTorch script. What has a place of its own in a training loop is written there; everything else stands
// as a comment beside its predicted gain, in the words of the catalogue.

#include <fmt/format.h>

#include <algorithm>

#include "foretrace/report/optimize.hpp"

namespace foretrace::report {

namespace {

// The plan in PyTorch: gradients are numbered as the first backward pass makes them.
constexpr std::string_view kPlannedBuckets = R"(

class PlannedBuckets:
    """Reduces gradients in the buckets of a plan while backward goes on; call wait() before optimizer.step()."""

    def __init__(self, model, lasts):
        self.lasts, self.place, self.bucket, self.work = lasts, {}, [], []
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.ready)

    def ready(self, parameter):
        self.bucket.append(parameter.grad)
        if self.place.setdefault(parameter, len(self.place)) in self.lasts:
            self.reduce()

    def reduce(self):
        flat = torch.cat([gradient.reshape(-1) for gradient in self.bucket])
        flat /= torch.distributed.get_world_size()
        self.work.append((torch.distributed.all_reduce(flat, async_op=True), flat, self.bucket))
        self.bucket = []

    def wait(self):
        if self.bucket:
            self.reduce()
        for work, flat, gradients in self.work:
            work.wait()
            for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients])):
                gradient.copy_(part.view_as(gradient))
        self.work.clear()
)";

constexpr std::string_view kAutocastRegion = R"(def autocast_region(module, dtype, ends):
    """The module computes under autocast; where the region ends, its results go on in FP32."""
    forward = module.forward

    def widened(value):
        return value.float() if torch.is_tensor(value) and value.dtype == dtype else value

    def region(*args, **kwargs):
        with torch.autocast("cuda", dtype=dtype):
            result = forward(*args, **kwargs)
        if not ends:
            return result
        return tuple(map(widened, result)) if isinstance(result, tuple) else widened(result)

    module.forward = region


)";

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

class Script {
 public:
  explicit Script(const OptimizeReport& r) : r_(r) {}

  std::string write() {
    const search::Optimized& o = r_.found;
    text_ = fmt::format(
        "# {}\n# predicted: {:.2f} ms -> {:.2f} ms [{:.2f}, {:.2f}]. Gains are those of each part beside all others.\n",
        one_line(describe(o.best)), to_ms(o.baseline), to_ms(o.prediction.step), to_ms(o.prediction.low),
        to_ms(o.prediction.high));
    text_ += "import contextlib\n\nimport torch\n\n\n";
    prepare();
    optimizer();
    step();
    communication();
    others();
    return text_;
  }

 private:
  static std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  const search::OptimizedPart* part(std::string_view name) {
    for (const search::OptimizedPart& p : r_.found.parts) {
      if (std::string_view(p.text).substr(0, p.text.find(':')) != name) continue;
      written_.push_back(p.text);
      return &p;
    }
    return nullptr;
  }
  static std::string gain(const search::OptimizedPart& p) { return fmt::format("  # {:+.2f} ms", -to_ms(p.gain)); }
  void line(std::string_view code, const search::OptimizedPart& p) { text_ += fmt::format("{}{}\n", code, gain(p)); }

  static whatif::Parameters parameters(const search::OptimizedPart& p) {
    const Result<whatif::Use> use = whatif::parse_use(p.text);
    return use ? use->parameters : whatif::Parameters{};
  }

  // Names come from a trace: nothing in them may end the literal.
  void names(const std::vector<std::string>& layers) {
    for (const std::string& l : layers) text_ += fmt::format("        {},\n", python_literal(l));
  }

  // Regions of autocast. A block whose successor is half too hands on what it has.
  void autocast(const search::OptimizedPart& p, const std::vector<std::string>& layers) {
    line("    for name, ends in (", p);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const bool goes_on = i + 1 < layers.size() && follows(layers[i], layers[i + 1]);
      text_ += fmt::format("        ({}, {}),\n", python_literal(layers[i]), goes_on ? "False" : "True");
    }
    const bool fp16 = parameters(p).text("dtype") != "bf16";
    text_ += fmt::format("    ):\n        autocast_region(model.get_submodule(name), torch.{}, ends)\n",
                         fp16 ? "float16" : "bfloat16");
  }

  void prepare() {
    if (const auto* p = part("amp"); p != nullptr && parameters(*p).given("layers")) text_ += kAutocastRegion;
    text_ += "def prepare(model):\n    \"\"\"Once, before training.\"\"\"\n";
    if (const auto* p = part("tf32")) {
      line("    torch.backends.cuda.matmul.allow_tf32 = True", *p);
      text_ += "    torch.backends.cudnn.allow_tf32 = True\n";
    }
    if (const auto* p = part("channels-last"))
      line("    model = model.to(memory_format=torch.channels_last)  # images too", *p);
    if (const auto* p = part("checkpoint")) {
      const std::vector<std::string> layers = parameters(*p).list("layers");
      if (layers.empty()) {
        line("    model.gradient_checkpointing_enable()", *p);
      } else {
        text_ += "    from torch.utils.checkpoint import checkpoint\n";
        line("    for name in (", *p);
        names(layers);
        text_ +=
            "    ):\n        block = model.get_submodule(name)\n"
            "        forward = block.forward\n"
            "        block.forward = lambda *a, _f=forward, **k: checkpoint(_f, *a, use_reentrant=False, **k)\n";
      }
    }
    if (const auto* p = part("amp")) {
      if (const std::vector<std::string> layers = parameters(*p).list("layers"); !layers.empty()) autocast(*p, layers);
    }
    if (const auto* p = part("compile")) {
      if (const std::vector<std::string> layers = parameters(*p).list("layers"); layers.empty()) {
        line("    model = torch.compile(model)", *p);
      } else {
        line("    for name in (", *p);
        names(layers);
        text_ += "    ):\n        model.get_submodule(name).compile()\n";
      }
    }
    text_ += "    return model\n\n\n";
  }

  void optimizer() {
    text_ += "def make_optimizer(cls, parameters, **options):\n";
    const auto* fused = part("fused-optimizer");
    const auto* foreach = part("foreach-optimizer");
    if (fused != nullptr) {
      line("    options[\"fused\"] = True", *fused);
    } else if (foreach != nullptr) {
      line("    options[\"foreach\"] = True", *foreach);
    }
    text_ += "    return cls(parameters, **options)\n\n\n";
  }

  void step() {
    const auto* amp = part("amp");
    const auto* accumulate = part("accumulate");
    const bool fp16 = amp != nullptr && parameters(*amp).text("dtype") != "bf16";
    text_ += fmt::format("def train_step(model, optimizer, loss_fn, inputs, targets{}):\n", fp16 ? ", scaler" : "");
    text_ += "    optimizer.zero_grad(set_to_none=True)\n";
    std::string indent = "    ";
    if (accumulate != nullptr) {
      const int n = static_cast<int>(parameters(*accumulate).number("n"));
      line(fmt::format("    parts = {}", n), *accumulate);
      text_ += "    for x, y in zip(inputs.chunk(parts), targets.chunk(parts)):\n";
      indent += "    ";
    } else {
      text_ += "    parts, x, y = 1, inputs, targets\n";
    }
    if (amp != nullptr && !parameters(*amp).given("layers")) {
      line(fmt::format("{}with torch.autocast(\"cuda\", dtype=torch.{}):", indent, fp16 ? "float16" : "bfloat16"),
           *amp);
    } else {
      text_ += indent + "with contextlib.nullcontext():\n";
    }
    text_ += indent + "    loss = loss_fn(model(x), y) / parts\n";
    text_ += indent + (fp16 ? "scaler.scale(loss).backward()  # scaler = torch.amp.GradScaler(\"cuda\")\n"
                            : "loss.backward()\n");
    text_ += fp16 ? "    scaler.step(optimizer)\n    scaler.update()\n" : "    optimizer.step()\n";
    text_ += "    return loss\n";
  }

  void communication() {
    const auto& c = r_.found.best.communication;
    if (!c || c->workers < 2) return;
    const auto* p = part("communication");
    text_ += "\n\ndef distribute(model, device):\n    \"\"\"After torch.distributed.init_process_group.\"\"\"\n";
    if (!c->buckets.empty()) {
      std::string lasts;
      for (const search::PlannedBucket& b : c->buckets) lasts += fmt::format("{}{}", lasts.empty() ? "" : ", ", b.last);
      const std::string code = fmt::format("    return PlannedBuckets(model, {{{}}})", lasts);
      text_ += "    # With one size for all buckets instead: DistributedDataParallel(model, device_ids=[device], ";
      text_ += fmt::format("bucket_cap_mb={:g}).\n", c->bucket_mb);
      p != nullptr ? line(code, *p) : static_cast<void>(text_ += code + "\n");
      text_ += kPlannedBuckets;
      return;
    }
    if (c->scheme == "ddp" || c->scheme == "zero1") {
      text_ += "    from torch.nn.parallel import DistributedDataParallel\n\n";
      const std::string size = c->first_bucket_mb ? "" : fmt::format(", bucket_cap_mb={:g}", c->bucket_mb);
      const std::string code = fmt::format(
          "    model = DistributedDataParallel(model, device_ids=[device]{}, gradient_as_bucket_view=True)", size);
      p != nullptr ? line(code, *p) : static_cast<void>(text_ += code + "\n");
      if (c->compression == "fp16") {
        text_ +=
            "    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n\n"
            "    model.register_comm_hook(None, default_hooks.fp16_compress_hook)\n";
      }
      if (c->scheme == "zero1")
        text_ += "    # and torch.distributed.optim.ZeroRedundancyOptimizer around the optimizer\n";
    } else {
      text_ += "    from torch.distributed.fsdp import fully_shard\n\n    fully_shard(model)" +
               (p != nullptr ? gain(*p) : std::string()) + "\n";
    }
    text_ += "    return model\n";
  }

  void others() {
    bool first = true;
    for (const search::OptimizedPart& p : r_.found.parts) {
      if (std::find(written_.begin(), written_.end(), p.text) != written_.end() || p.code.empty()) continue;
      if (first) text_ += "\n\n# By hand:\n";
      first = false;
      text_ += fmt::format("# {} ({:+.2f} ms): {}\n", p.text, -to_ms(p.gain), one_line(p.code));
    }
  }

  const OptimizeReport& r_;
  std::string text_;
  std::vector<std::string> written_;
};

}  // namespace

std::string pytorch_script(const OptimizeReport& report) { return Script(report).write(); }

}  // namespace foretrace::report
