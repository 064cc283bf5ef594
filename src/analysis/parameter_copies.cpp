#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "analysis/trained_parameters.hpp"
#include "base/saturate.hpp"
#include "whatif/dataflow/op_facts.hpp"
#include "work/op_view.hpp"

namespace foretrace::analysis {

namespace {

using work::OpView;
using work::Shape;

// Where a layer's operation has its input and its weight.
struct Layer {
  std::string_view op;
  std::size_t input, weight;
};
constexpr Layer kLayers[] = {{"aten::linear", 0, 1},    {"aten::addmm", 1, 2},           {"aten::conv1d", 0, 1},
                             {"aten::conv2d", 0, 1},    {"aten::conv3d", 0, 1},          {"aten::convolution", 0, 1},
                             {"aten::embedding", 1, 0}, {"aten::conv_transpose2d", 0, 1}};

class Copies {
 public:
  explicit Copies(const trace::Trace& trace) : t_(trace) { find_weights(); }

  [[nodiscard]] bool of_parameters(const memory::Block& b) {
    if (weights_.empty() || b.op == kNone || b.allocated == 0 || b.stage == memory::Stage::kUpdate) return false;
    // A product's result has a weight's shape where there are as many positions as features.
    if (b.stage == memory::Stage::kForward && whatif::multiplies_weights(t_.name(b.op))) return false;
    const Shape& shape = allocated_by(b.op);
    if (shape.size() < 2 || !weights_.contains(shape)) return false;
    const std::int64_t elements = work::elements_of(shape);
    return memory::could_hold(b, saturated_product(elements, 2)) ||
           memory::could_hold(b, saturated_product(elements, 4));
  }

 private:
  void find_weights() {
    std::set<Shape> inputs;
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
    for (std::uint32_t e = 0; e < t_.size(); ++e) {
      if (t_.kind(e) != trace::EventKind::kOp) continue;
      const std::string_view name = t_.name(e);
      const auto* layer =
          std::find_if(std::begin(kLayers), std::end(kLayers), [&](const Layer& l) { return l.op == name; });
      if (layer == std::end(kLayers) || !seen.insert({t_.events.name[e].value, t_.events.args[e].value}).second)
        continue;
      const OpView op(t_, t_.events.args[e]);
      if (op.tensor(layer->input, 1)) inputs.insert(op[layer->input].shape());
      if (!op.tensor(layer->weight, 2)) continue;
      Shape weight = op[layer->weight].shape();
      weights_.insert(weight);
      // Products take it transposed.
      if (weight.size() == 2) weights_.insert({weight[1], weight[0]});
    }
    for (const Shape& s : inputs) weights_.erase(s);
  }

  const Shape& allocated_by(std::uint32_t event) {
    const auto [it, added] = shapes_.try_emplace({t_.events.name[event].value, t_.events.args[event].value});
    if (added) {
      const std::string_view name = t_.name(event);
      const OpView op(t_, t_.events.args[event]);
      const bool sized = name == "aten::empty" || name == "aten::empty_strided";
      it->second = sized ? op.integers(0) : whatif::result_shape(name, op);
      if (name == "aten::empty_like" && op.tensor(0)) it->second = op[0].shape();
    }
    return it->second;
  }

  const trace::Trace& t_;
  std::set<Shape> weights_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Shape> shapes_;
};

// A compiled forward pass shows no shapes. Its copies of weights are half as large as the gradients backward leaves, one for each;
// what the allocator gave beyond either is less than a megabyte. Believed where nearly all gradients find one.
void mark_in_compiled(memory::Curve& curve, const trace::Trace& trace) {
  std::vector<std::int64_t> wanted;
  std::int64_t all = 0;
  for (const memory::Block& b : curve.blocks) {
    if (b.kind != memory::Kind::kGradient || b.allocated == 0 || b.bytes < (1 << 20)) continue;
    wanted.push_back(b.bytes / 2);
    all += b.bytes / 2;
  }
  std::vector<std::pair<std::int64_t, std::size_t>> loose;  // bytes, block
  for (std::size_t i = 0; i < curve.blocks.size(); ++i) {
    const memory::Block& b = curve.blocks[i];
    const bool kept = b.kind == memory::Kind::kActivation || b.kind == memory::Kind::kInput;
    const bool compiled = b.op == kNone || trace.name(b.op).find("ompiled") != std::string_view::npos;
    if (kept && compiled && b.allocated > 0 && b.stage == memory::Stage::kForward) loose.emplace_back(b.bytes, i);
  }
  std::sort(wanted.rbegin(), wanted.rend());
  std::sort(loose.begin(), loose.end());
  std::vector<std::size_t> found;
  std::int64_t matched = 0;
  constexpr std::int64_t kBeyond = (1 << 20) + memory::kGrain;
  for (const std::int64_t bytes : wanted) {
    auto it = std::lower_bound(loose.begin(), loose.end(), std::pair(bytes - kBeyond / 2, std::size_t{0}));
    auto best = loose.end();
    for (; it != loose.end() && it->first <= bytes + kBeyond; ++it) {
      if (best == loose.end() || std::llabs(it->first - bytes) < std::llabs(best->first - bytes)) best = it;
    }
    if (best == loose.end()) continue;
    found.push_back(best->second);
    matched += bytes;
    loose.erase(best);
  }
  if (all == 0 || matched < all * 4 / 5) return;
  for (const std::size_t i : found) curve.blocks[i].of_parameters = true;
}

}  // namespace

void mark_parameter_copies(memory::Curve& curve, const trace::Trace& trace) {
  Copies copies(trace);
  bool any = false;
  for (memory::Block& b : curve.blocks) {
    b.of_parameters = copies.of_parameters(b);
    any = any || (b.of_parameters && b.kind == memory::Kind::kActivation);
  }
  if (!any) mark_in_compiled(curve, trace);
}

}  // namespace foretrace::analysis
