#include "whatif/dataflow/saved_tensors.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "base/text.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/model/step_facts.hpp"
#include "work/op_view.hpp"

namespace foretrace::whatif {

namespace {

using work::Argument;
using work::OpView;

enum class Output : std::uint8_t { kNone, kLikeInput, kMask, kPoolIndices };

// What an operation saves, by position of its arguments (tools/autograd/derivatives.yaml of PyTorch 2). Inputs that are
// scalars are not saved on the GPU.
struct Formula {
  std::string_view op;
  std::array<int, 4> inputs;      // -1: none
  std::array<int, 3> parameters;  // those of them that are weights or running statistics
  Output result;
  int statistics;  // small tensors: means, deviations
};
constexpr Formula kFormulas[] = {
    {"aten::convolution", {0, 1, -1, -1}, {1, -1, -1}, Output::kNone, 0},
    {"aten::addmm", {1, 2, -1, -1}, {2, -1, -1}, Output::kNone, 0},
    {"aten::mm", {0, 1, -1, -1}, {1, -1, -1}, Output::kNone, 0},
    {"aten::bmm", {0, 1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::baddbmm", {1, 2, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::cudnn_batch_norm", {0, 1, 3, 4}, {1, 3, 4}, Output::kNone, 2},
    {"aten::miopen_batch_norm", {0, 1, 3, 4}, {1, 3, 4}, Output::kNone, 2},
    {"aten::native_batch_norm", {0, 1, 3, 4}, {1, 3, 4}, Output::kNone, 2},
    {"aten::native_layer_norm", {0, 2, 3, -1}, {2, 3, -1}, Output::kNone, 2},
    {"aten::_fused_rms_norm", {0, 2, -1, -1}, {2, -1, -1}, Output::kNone, 1},
    {"aten::native_group_norm", {0, 1, -1, -1}, {1, -1, -1}, Output::kNone, 2},
    {"aten::relu", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 0},
    {"aten::relu_", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 0},
    {"aten::tanh", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 0},
    {"aten::sigmoid", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 0},
    {"aten::_softmax", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 0},
    {"aten::_log_softmax", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 0},
    {"aten::rsqrt", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 0},
    {"aten::sqrt", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 0},
    {"aten::exp", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 0},
    {"aten::gelu", {0, -1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::silu", {0, -1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::leaky_relu", {0, -1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::hardswish", {0, -1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::pow", {0, -1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::log", {0, -1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::mul", {0, 1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::div", {0, 1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::native_dropout", {-1, -1, -1, -1}, {-1, -1, -1}, Output::kMask, 0},
    {"aten::masked_fill", {1, -1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::max_pool2d_with_indices", {0, -1, -1, -1}, {-1, -1, -1}, Output::kPoolIndices, 0},
    {"aten::avg_pool2d", {0, -1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::embedding", {1, -1, -1, -1}, {-1, -1, -1}, Output::kNone, 0},
    {"aten::nll_loss_forward", {0, 1, -1, -1}, {-1, -1, -1}, Output::kNone, 1},
    {"aten::_scaled_dot_product_efficient_attention", {0, 1, 2, -1}, {-1, -1, -1}, Output::kLikeInput, 1},
    {"aten::_scaled_dot_product_flash_attention", {0, 1, 2, -1}, {-1, -1, -1}, Output::kLikeInput, 1},
    {"aten::_scaled_dot_product_cudnn_attention", {0, 1, 2, -1}, {-1, -1, -1}, Output::kLikeInput, 1},
    {"aten::_cudnn_rnn", {0, -1, -1, -1}, {-1, -1, -1}, Output::kLikeInput, 1},
};

const Formula* formula_of(std::string_view name) {
  for (const Formula& f : kFormulas) {
    if (f.op == name) return &f;
  }
  return nullptr;
}

/// GPU tasks of an operation, first and last in order of launch.
struct Span {
  std::uint32_t first = kNone, last = 0;
  std::uint32_t node = 0;
  std::uint32_t tasks = 0;
};

class SavedTensorFinder {
 public:
  SavedTensorFinder(const Model& m, const Draft& draft) : m_(m), draft_(draft), t_(*m.trace) {}

  std::vector<SavedTensor> run() {
    find_spans();
    std::vector<std::pair<Ns, std::uint32_t>> order;
    for (const auto& [op, span] : forward_) order.emplace_back(t_.events.start[op], op);
    std::sort(order.begin(), order.end());
    for (const auto& [start, op] : order) one(op, forward_[op]);
    return std::move(found_);
  }

 private:
  // Walking up from the innermost operation, the first one with a formula saves, and the engine's node is what runs backward.
  void find_spans() {
    const Graph& g = m_.graph;
    const auto by_launch = [&](std::uint32_t t) { return g.measured[g.launch[t].index()]; };
    const auto put = [&](Span& span, std::uint32_t t) {
      ++span.tasks;
      if (span.first == kNone || by_launch(t) < by_launch(span.first)) span.first = t;
      if (span.last == 0 || by_launch(t) >= by_launch(span.last)) span.last = t;
    };
    std::set<std::uint32_t> callers;
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      if (!graph::is_gpu(g.kind[t]) || draft_.removed(t) || !g.op[t].valid() || !g.launch[t].valid()) continue;
      if (g.phase[t] == Phase::kForward) {
        for (std::uint32_t e = g.op[t].value; e != kNone; e = m_.chains->around(e)) {
          if (formula_of(t_.name(e)) == nullptr) continue;
          put(forward_[e], t);
          // Autocast's operation around the same one in another type casts and calls it: only the inner one saves.
          for (std::uint32_t up = m_.chains->around(e); up != kNone; up = m_.chains->around(up)) {
            if (t_.name(up) == t_.name(e)) callers.insert(up);
          }
          break;
        }
      } else if (g.phase[t] == Phase::kBackward) {
        const std::uint32_t e = m_.chains->outermost(g.op[t].value);
        const trace::OpIds* ids = t_.op(e);
        if (ids == nullptr || ids->sequence_number < 0 || !t_.name(e).starts_with("autograd::engine")) continue;
        Span& span = backward_[ids->sequence_number];
        put(span, t);
        span.node = e;
      }
    }
    for (const std::uint32_t e : callers) forward_.erase(e);
  }

  void add(const SavedTensor& like, std::int64_t elements, std::int64_t bytes) {
    if (elements <= 1 || bytes <= 0) return;
    SavedTensor s = like;
    s.elements = elements;
    s.bytes = bytes;
    found_.push_back(s);
  }

  void one(std::uint32_t op, const Span& span) {
    const trace::OpIds* ids = t_.op(op);
    const auto node = ids == nullptr ? backward_.end() : backward_.find(ids->sequence_number);
    if (node == backward_.end()) return;
    const Formula& f = *formula_of(t_.name(op));
    const OpView view(t_, t_.events.args[op]);
    const work::Work* work = m_.works.of(span.first);
    // A what-if before this one may have changed the precision the operation runs in; one that reads both types as traced is none.
    const std::vector<Argument>& arguments = view.arguments();
    const bool mixed = std::any_of(arguments.begin(), arguments.end(), [](const Argument& a) {
      return a.type == "c10::Half" || a.type == "c10::BFloat16";
    });
    const auto bytes = [&](const Argument& a) {
      const bool halved = work != nullptr && bytes_of(work->dtype) == 2 && a.type == "float" && !mixed;
      return a.bytes() / (halved ? 2 : 1);
    };
    SavedTensor s;
    s.op = op;
    s.node = node->second.node;
    s.forward = span.first;
    s.backward = node->second.first;
    // A product's gradient by one factor needs the other factor only; a number has none, and a node of one kernel has one
    // gradient, the first's.
    const bool factors = f.op == "aten::mul" || f.op == "aten::div";
    const bool by_number = factors && view.tensor(1) && view[1].shape().empty() &&
                           (view[1].type == "double" || view[1].type == "long int");
    for (const int i : f.inputs) {
      if (factors && i == 0 && (by_number || node->second.tasks < 2)) continue;
      if (i < 0 || !view.tensor(static_cast<std::size_t>(i))) continue;
      const Argument& a = view[static_cast<std::size_t>(i)];
      s.parameter = std::find(f.parameters.begin(), f.parameters.end(), i) != f.parameters.end();
      s.floating = a.type != "bool" && a.type.find("int") == std::string::npos;
      s.contiguous = a.contiguous();
      add(s, a.elements(), bytes(a));
    }
    s.computed = true;
    s.parameter = false;
    s.floating = s.contiguous = true;
    s.forward = span.last;
    if (!view.tensor(0, 1)) return;
    const Argument& in = view[0];
    // One FP32 number for each channel of a norm over channels, else for each row.
    const bool of_channels = contains_any(f.op, {"batch_norm", "group_norm"}) && in.shape().size() > 1;
    const std::int64_t numbers =
        of_channels ? in.shape()[1] : in.elements() / std::max<std::int64_t>(1, in.shape().back());
    for (int i = 0; i < f.statistics; ++i) add(s, numbers, 4 * numbers);
    if (f.result == Output::kNone) return;
    if (f.result == Output::kLikeInput) return add(s, in.elements(), bytes(in));
    s.floating = false;
    if (f.result == Output::kMask) return add(s, in.elements(), in.elements());
    // Indices of a pool, as many as it has results: (input, kernel, stride, …), the stride being the kernel's when not given.
    work::Shape stride = view.integers(2);
    if (stride.empty()) stride = view.integers(1);
    std::int64_t pixels = in.elements();
    for (const std::int64_t step : stride) pixels /= std::max<std::int64_t>(1, step);
    if (stride.size() == 1) pixels /= std::max<std::int64_t>(1, stride.front());
    add(s, pixels, 8 * pixels);
  }

  const Model& m_;
  const Draft& draft_;
  const trace::Trace& t_;
  std::map<std::uint32_t, Span> forward_;  // by operation
  std::map<std::int64_t, Span> backward_;  // by sequence number
  std::vector<SavedTensor> found_;
};

// Where operations stand among the allocator's events.
class Positions {
 public:
  Positions(const memory::Curve& curve, const trace::Trace& trace) : last_(curve.positions) {
    for (const memory::Block& b : curve.blocks) {
      if (b.op != kNone && b.allocated > 0) at_.emplace_back(trace.events.start[b.op], b.allocated);
    }
    std::sort(at_.begin(), at_.end());
  }
  /// The first event of an operation that starts then or later.
  [[nodiscard]] std::uint32_t from(Ns time) const {
    const auto it = std::lower_bound(at_.begin(), at_.end(), std::pair(time, std::uint32_t{0}));
    return it == at_.end() ? last_ : it->second;
  }

 private:
  std::vector<std::pair<Ns, std::uint32_t>> at_;
  std::uint32_t last_;
};

}  // namespace

namespace {

/// Which operations of the forward pass are in blocks that run again in the backward pass: those of layers that do, of layers
/// next to them in the same module (the last of a block need not run again), and what is between.
class RecomputedBlocks {
 public:
  RecomputedBlocks(const Model& m, const StepFacts& has) {
    const graph::Graph& g = m.graph;
    const auto module_of = [](std::string_view layer) {
      return layer.substr(0, std::min(layer.rfind('.'), layer.size()));
    };
    std::set<std::string_view> modules;
    for (const std::string_view layer : has.recomputed) modules.insert(module_of(layer));
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      if (!graph::is_gpu(g.kind[t]) || g.phase[t] != Phase::kForward || !g.op[t].valid() || !g.layer[t].valid())
        continue;
      const graph::Layer& layer = g.layers[g.layer[t].index()];
      if (layer.synthetic) continue;
      const std::string_view name = g.strings[layer.name];
      named_[m.trace->events.start[g.op[t].value]] = recomputes(has, name) || modules.contains(module_of(name));
    }
  }
  [[nodiscard]] bool hold(Ns start) const {
    const auto next = named_.lower_bound(start);
    if (next == named_.end() || !next->second) return false;
    return next->first == start || (next != named_.begin() && std::prev(next)->second);
  }

 private:
  std::map<Ns, bool> named_;  // by start of the operation
};

}  // namespace

std::vector<SavedTensor> saved_tensors(const Model& model, const Draft& draft) {
  std::vector<SavedTensor> saved = SavedTensorFinder(model, draft).run();
  const std::shared_ptr<const StepFacts> has = step_facts(model);
  if (!has->recomputes) return saved;
  const RecomputedBlocks blocks(model, *has);
  std::erase_if(saved, [&](const SavedTensor& s) { return blocks.hold(model.trace->events.start[s.op]); });
  return saved;
}

void release_saved(Model& m, const std::vector<SavedTensor>& saved, double kept,
                   const std::function<bool(std::uint32_t)>& made) {
  if (!m.memory) return;
  memory::Curve& c = *m.memory;
  const Positions positions(c, *m.trace);
  std::map<std::int64_t, std::vector<std::uint32_t>> uses;  // by size: positions at which the forward pass saves such
  for (const SavedTensor& s : saved) {
    // Autocast's copy of a weight is a tensor like others.
    const bool copy = s.bytes == 2 * s.elements && c.parameter_bytes >= 4 * m.parameter_elements;
    if (!s.parameter || copy) uses[s.bytes].push_back(positions.from(m.trace->end(s.op)));
  }
  for (memory::Block& b : c.blocks) {
    if (b.kind != memory::Kind::kActivation || (made && (b.op == kNone || !made(b.op)))) continue;
    auto it = uses.upper_bound(b.bytes);
    if (it == uses.begin()) continue;
    --it;
    // The allocator rounds up to 512 bytes, and gives a larger block whole when less than a megabyte of it would be left.
    if (b.bytes - it->first >= (b.bytes > (1 << 20) ? (1 << 20) : 0) + 512) continue;
    // Still needed until the second use behind its allocation is over: the operation that made it may save it, the next
    // one reads it, and a residual connection does so once more.
    std::vector<std::uint32_t>& at = it->second;
    auto use = std::upper_bound(at.begin(), at.end(), b.allocated);
    for (int i = 0; i < 1 && use != at.end(); ++i) ++use;
    const std::uint32_t over = use == at.end() ? c.backward_from : *use;
    b.freed = std::min(b.freed, std::max(b.allocated + 1, std::min(over, c.backward_from)));
    b.kind = memory::Kind::kTemporary;
  }
  for (const SavedTensor& s : saved) {
    memory::Block b;
    b.op = s.op;
    b.kind = memory::Kind::kActivation;
    b.allocated = positions.from(m.trace->events.start[s.op]);
    const std::uint32_t back = positions.from(m.trace->events.start[s.node]);
    const std::uint32_t done = std::max(back + 1, positions.from(m.trace->end(s.node)));  // the node lets go of both
    if (kept > 0 && !s.parameter) {
      b.bytes = static_cast<std::int64_t>(kept * static_cast<double>(s.bytes));
      b.freed = std::max(b.allocated + 1, done);
      c.blocks.push_back(b);
    }
    b.bytes = s.bytes;
    b.kind = memory::Kind::kTemporary;
    b.stage = memory::Stage::kBackward;
    b.allocated = back;
    b.freed = done;
    c.blocks.push_back(b);
  }
}

std::string why_saved_unknown(const Model& m) {
  for (const Model::Applied& before : m.applied) {
    if (before.changes == Changes::kRecomputation) {
      return "what " + before.whatif + " computes again is not kept, and what it keeps instead is not known one by one";
    }
    const bool batch = before.changes == Changes::kBatch || before.changes == Changes::kAccumulation;
    if (batch || before.changes == Changes::kSequence) {
      return std::string("the shapes in the trace are those of another ") + (batch ? "batch" : "length") + " after " +
             before.whatif + ": put this change in front of it";
    }
  }
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (has->recomputes && has->recomputed.empty()) {
    return "the step computes blocks again in the backward pass and no layer is named: what it keeps cannot be "
           "determined";
  }
  return {};
}

}  // namespace foretrace::whatif
