// The strategy as a PyTorch module to import, or to run for timing. Changes write their lines into places (WhatIf::write_code);
// here the places are put in order, and the functions they call are added from pytorch/*.py. A change without lines becomes a comment.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <span>

#include "base/data_files.hpp"
#include "foretrace/report/report.hpp"
#include "report/code_communication.hpp"
#include "report/inference_script.hpp"
#include "whatif/model/fitting.hpp"
#include "whatif/model/script.hpp"

namespace foretrace::report {

namespace {

constexpr std::string_view kTiming = "timing";  // the end of every script

constexpr std::string_view kUse = R"(#
#     model = plan.prepare(model)          # once, on the GPU; after init_process_group where there are several
#     optimizer = plan.make_optimizer(torch.optim.Adam, model.parameters(), lr=1e-3)
#     step = plan.make_step(model, optimizer, loss_fn)
#     loss = step(inputs, targets)         # trains on one batch; loss_fn gives its mean, and so does this
#
# python THIS_FILE --time                  the step before and after, of a small model
# python THIS_FILE --time train.py:job     of yours: job() returns model, loss_fn, inputs, targets[, optimizer class]
)";

constexpr std::string_view kUseInference = R"(#
#     model = plan.prepare(model)          # once, on the GPU
#     step = plan.make_step(model)
#     outputs = step(inputs)               # one pass without gradients
)";

std::string one_line(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

std::string gain_of(const search::OptimizedPart& p) {
  return p.without > 0 ? fmt::format("  # gains {:+.2f} ms", to_ms(p.gain)) : std::string();
}

// Whether `text` calls `name` itself, not a method or a longer name that ends with it.
bool calls(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const char before = at == 0 ? '\n' : text[at - 1];
    const bool begins = before != '_' && before != '.' && std::isalnum(static_cast<unsigned char>(before)) == 0;
    if (begins && text.substr(at + name.size()).starts_with('(')) return true;
  }
  return false;
}

// Whether `text` calls something that `file` defines at its top level.
bool uses(std::string_view text, std::string_view file) {
  for (std::size_t line = 0; line < file.size(); line = std::min(file.find('\n', line), file.size() - 1) + 1) {
    for (const std::string_view begin : {"def ", "class "}) {
      const std::string_view rest = file.substr(line);
      if (!rest.starts_with(begin)) continue;
      if (calls(text, rest.substr(begin.size(), rest.find_first_of("(:") - begin.size()))) return true;
    }
  }
  return false;
}

class Script {
 public:
  Script(const OptimizeReport& r, bool trains) : r_(r), trains_(trains) {}

  std::string write() {
    const search::Optimized& o = r_.found;
    const auto& c = o.best.communication;
    const bool several = c && c->workers > 1;
    // The step's places first: how workers are joined depends on whether the step is recorded.
    for (const search::OptimizedPart& p : o.parts) {
      const Result<whatif::Use> use = whatif::parse_use(p.text);
      if (!use) continue;
      if (use->whatif->write_code == nullptr) {
        leave(p, p.code.empty() ? use->whatif->code : p.code);
      } else {
        use->whatif->write_code({use->parameters, gain_of(p), several && !c->buckets.empty()}, places_);
      }
    }
    if (several) join_workers(*c);
    body_ = prepare() + (trains_ ? optimizer() + step() : inference());
    if (several) body_ += distribute();
    if (!places_.loader.empty()) body_ += loader();
    std::string text = fmt::format(
        "# {}\n# Predicted by foretrace: {:.2f} ms -> {:.2f} ms [{:.2f}, {:.2f}]. Gains are "
        "those of each part next to all others.\n",
        one_line(describe(o.best)), to_ms(o.baseline), to_ms(o.prediction.step), to_ms(o.prediction.low),
        to_ms(o.prediction.high));
    text += by_hand_.empty() ? std::string() : "#\n# By hand:\n" + by_hand_;
    text += trains_ ? kUse : kUseInference;
    const std::string helpers = add_helpers();
    return text + imports(helpers) + constants() + helpers + body_ + std::string(timing());
  }

 private:
  void leave(const search::OptimizedPart& p, const std::string& code) {
    by_hand_ += fmt::format("# {} (gains {:+.2f} ms): {}\n", one_line(p.text), to_ms(p.gain), one_line(code));
  }

  void join_workers(const search::Communication& c) {
    std::string gain;
    for (const search::OptimizedPart& p : r_.found.parts) {
      if (p.text == "communication") gain = gain_of(p);
    }
    if (write_communication(c, gain, places_)) return;
    by_hand_ += fmt::format("# communication: {}, {} gradients\n", one_line(c.scheme), one_line(c.compression));
    if (places_.wrap.empty()) {
      places_.wrap.emplace_back("    model = torch.nn.parallel.DistributedDataParallel(model)");
    }
  }

  static std::string joined(const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
  }

  [[nodiscard]] std::string prepare() const {
    std::string out = "def prepare(model):\n    \"\"\"Once";
    out += trains_ ? ", before the optimizer is made; returns the model to train.\"\"\"\n"
                   : "; returns the model to run.\"\"\"\n    model = model.eval()\n";
    out += joined(places_.flags) + joined(places_.model) + joined(places_.regions);
    if (!places_.wrap.empty()) {
      out += "    if torch.distributed.is_initialized():\n        model = distribute(model)\n";
    }
    return out + joined(places_.whole) + "    return model\n\n\n";
  }

  [[nodiscard]] std::string optimizer() const {
    std::string out = "def make_optimizer(cls, parameters, **options):\n    parameters = list(parameters)\n";
    return out + joined(places_.optimizer) + fmt::format("    return {}\n\n\n", places_.make_optimizer);
  }

  [[nodiscard]] std::string arranged() const {
    return fmt::format(
        "def arranged(inputs):\n    \"\"\"The inputs in the form that the model expects.\"\"\"\n    return {}\n\n\n",
        places_.inputs);
  }

  [[nodiscard]] std::string inference() const {
    std::string out =
        arranged() + "def infer(model, inputs):\n    inputs = arranged(inputs)\n    with torch.inference_mode():\n";
    std::string indent = "        ";
    for (const std::string& context : places_.contexts) {
      out += indent + context + "\n";
      indent += "    ";
    }
    out += indent + "return forward(model, inputs)\n\n\ndef make_step(model):\n";
    return out + (places_.captured ? "    return CapturedForward(model)\n\n\n"
                                   : "    return lambda inputs: infer(model, inputs)\n\n\n");
  }

  [[nodiscard]] std::string step() const {
    std::string out = arranged();
    out += gradients();
    out += "def update(optimizer, scaler):\n";
    out += places_.scaler ? "    scaler.step(optimizer)\n    scaler.update()\n\n\n" : "    optimizer.step()\n\n\n";
    out +=
        "def train_step(model, optimizer, loss_fn, inputs, targets, scaler=None):\n"
        "    \"\"\"One step, as it is; returns the batch's mean loss, a tensor: reading it waits for the GPU.\"\"\"\n" +
        joined(places_.step) +
        "    loss = compute_gradients(model, optimizer, loss_fn, inputs, targets, scaler)\n"
        "    update(optimizer, scaler)\n    return loss\n\n\n";
    out += "def make_step(model, optimizer, loss_fn):\n    \"\"\"step(inputs, targets) trains on one batch.\"\"\"\n";
    out += places_.scaler ? "    scaler = torch.amp.GradScaler(tensors_of(list(model.parameters()))[0].device.type)\n"
                          : "    scaler = None\n";
    out += places_.captured
               ? "    return CapturedStep(model, optimizer, loss_fn, scaler)\n"
               : "    return lambda inputs, targets: train_step(model, optimizer, loss_fn, inputs, targets, scaler)\n";
    return out + "\n\n";
  }

  [[nodiscard]] std::string gradients() const {
    const bool passes = places_.passes > 1;
    std::string out =
        "def compute_gradients(model, optimizer, loss_fn, inputs, targets, scaler):\n"
        "    optimizer.zero_grad(set_to_none=True)\n    inputs = arranged(inputs)\n";
    std::string indent = "    ";
    if (passes) {
      out += fmt::format("    total, parts = 0, list(parts_of(inputs, targets, {}))\n", places_.passes);
      out += "    for place, (inputs, targets, share) in enumerate(parts):\n";
      indent += "    ";
      if (!places_.wrap.empty()) {
        out += indent + "with reduces_if(model, last=place == len(parts) - 1):\n";
        indent += "    ";
      }
    }
    std::string inner = indent;
    for (const std::string& context : places_.contexts) {
      out += inner + context + "\n";
      inner += "    ";
    }
    out += inner + "loss = loss_fn(forward(model, inputs), targets)\n";
    if (passes) out += indent + "loss = loss * share\n";
    out += indent + (places_.scaler ? "scaler.scale(loss).backward()\n" : "loss.backward()\n");
    if (passes) out += indent + "total = total + loss.detach()\n";
    if (places_.planned) out += "    if hasattr(model, \"planned_buckets\"):\n        model.planned_buckets.wait()\n";
    return out + (passes ? "    return total\n\n\n" : "    return loss.detach()\n\n\n");
  }

  [[nodiscard]] std::string distribute() const {
    return "def distribute(model):\n    \"\"\"After torch.distributed.init_process_group.\"\"\"\n" +
           joined(places_.wrap) + "    return model\n\n\n";
  }

  [[nodiscard]] std::string loader() const {
    return "def make_loader(dataset, **options):\n" + places_.loader +
           "\n    return torch.utils.data.DataLoader(dataset, **options)\n\n\n";
  }

  [[nodiscard]] std::string constants() const {
    std::string names;
    for (const std::string& layer : places_.layers) names += whatif::python_literal(layer) + ", ";
    const auto& c = r_.found.best.communication;
    return fmt::format("WORKERS = {}\nPREDICTED_MS = ({:.3f}, {:.3f})\nLAYERS = [{}]  # modules the plan names\n\n\n",
                       c ? c->workers : 1, to_ms(r_.found.baseline), to_ms(r_.found.prediction.step),
                       names.empty() ? names : names.substr(0, names.size() - 2));
  }

  [[nodiscard]] std::string_view timing() const {
    if (!trains_) return {};  // it times training
    for (const DataFile& file : data_files_in("report/pytorch", ".py")) {
      const std::string_view name = file.stem(), text = file.text;
      if (name == kTiming) return text;
    }
    return {};
  }

  // What the script calls, and what that calls, in order of name.
  [[nodiscard]] std::string add_helpers() const {
    const std::vector<DataFile> files = data_files_in("report/pytorch", ".py");
    std::vector<char> wanted(files.size(), 0);
    std::string text = body_ + std::string(timing());
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < files.size(); ++i) {
        if (wanted[i] != 0 || files[i].stem() == kTiming || !uses(text, files[i].text)) continue;
        wanted[i] = 1;
        text += files[i].text;
        more = true;
      }
    }
    std::string out;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (wanted[i] != 0) out += std::string(files[i].text) + "\n\n";
    }
    return out;
  }

  [[nodiscard]] std::string imports(const std::string& helpers) const {
    const std::string text = helpers + body_ + std::string(timing());
    std::string out;
    for (const std::string_view module : {"argparse", "contextlib", "copy", "difflib", "fnmatch", "inspect", "math",
                                          "os", "runpy", "statistics", "sys", "time", "warnings"}) {
      if (text.find(fmt::format("{}.", module)) != std::string::npos) out += fmt::format("import {}\n", module);
    }
    out += "\nimport torch\n";
    if (text.find("torch.utils.checkpoint.") != std::string::npos) out += "import torch.utils.checkpoint\n";
    if (r_.found.best.communication) out += "import torch.distributed\n";
    return out + "\n";
  }

  const OptimizeReport& r_;
  bool trains_;
  whatif::ScriptPlaces places_;
  std::string body_;
  std::string by_hand_;
};

}  // namespace

std::string pytorch_script(const OptimizeReport& report) { return Script(report, true).write(); }

std::string script_for(const graph::StepNature& step, const OptimizeReport& report) {
  return Script(report, !step.infers()).write();
}

std::string script_for(const analysis::Baseline& baseline, const OptimizeReport& report) {
  return script_for(whatif::nature_of(baseline.model), report);
}

}  // namespace foretrace::report
