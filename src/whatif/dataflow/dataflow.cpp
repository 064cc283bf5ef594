#include <algorithm>
#include <map>

#include "base/saturate.hpp"
#include "base/text.hpp"
#include "whatif/dataflow/dataflows.hpp"
#include "whatif/dataflow/named_tensors.hpp"
#include "whatif/dataflow/op_facts.hpp"

namespace foretrace::whatif {

using work::Argument;
using work::OpView;
using work::Shape;

namespace {

bool floating(std::string_view type) {
  return type == "float" || type == "c10::Half" || type == "c10::BFloat16" || type == "double";
}

/// Results that a program tends to use more than once: where residual connections begin.
bool often_reused(std::string_view op) {
  return contains_any(op, {"norm", "aten::add", "embedding", "aten::cat", "pool", "relu", "silu"});
}

/// Sizes with one -1 filled in.
Shape resolved(Shape sizes, std::int64_t elements) {
  std::int64_t known = 1;
  for (const std::int64_t d : sizes) known = saturated_product(known, d < 0 ? 1 : d);
  for (std::int64_t& d : sizes) {
    if (d < 0) d = known > 0 ? elements / known : 0;
  }
  return sizes;
}

class FlowBuilder {
 public:
  FlowBuilder(const trace::Trace& trace, const FlowStart& start, const FlowOps& found)
      : t_(trace), tensors_(t_), computing_(start.computing), ops_(found.ops) {
    flow_.trace = &t_;
    flow_.lane = start.window.lane;
    flow_.nodes = found.nodes;
  }

  Dataflow run() {
    tensors_.follow(ops_);
    std::vector<std::uint32_t> inside;
    for (std::size_t i = 0; i < ops_.size();) {
      const Ns end = t_.end(ops_[i]);
      inside.clear();
      std::size_t k = i + 1;
      for (; k < ops_.size() && t_.events.start[ops_[k]] < end; ++k) inside.push_back(ops_[k]);
      add_unit(ops_[i], inside);
      i = k;
    }
    for (const auto& [sequence, unit] : last_with_) flow_.sequences.emplace_back(sequence, unit);
    return std::move(flow_);
  }

 private:
  // ---- values

  std::uint32_t add_value(Shape shape, std::uint32_t producer, std::uint32_t storage) {
    const auto id = static_cast<std::uint32_t>(flow_.values.size());
    if (!shape.empty()) by_shape_[shape].push_back(id);
    flow_.values.push_back({std::move(shape), producer, storage == kNone ? id : storage, {}});
    reshaped_.push_back(0);
    return id;
  }

  /// What an operation's name says of it.
  struct Facts {
    bool product = false, one_number = false, often_reused = false;
  };

  // Lower is likelier; see the header for why.
  int unlikelihood(std::uint32_t id, bool in_place, bool product) const {
    const Value& v = flow_.values[id];
    const Facts producer = v.producer == kNone ? Facts{} : facts_[v.producer];
    int rank = 0;
    if (reshaped_[id] != 0) rank += 4;
    // Fresh zeros are written into before they are read.
    if (producer.one_number && !in_place) rank += 6;
    if (producer.product && product) rank += 8;
    // Used already: likely again where paths join, unlikely for what leads from one operation to the next.
    if (!v.consumers.empty()) rank += producer.often_reused ? 1 : 3;
    return rank;
  }

  // `may_be_new`: may it be the latest result, whose shape is not known? `siblings`: how many inputs the same unit has.
  std::uint32_t find(const Shape& shape, const Unit& unit, bool may_be_new, std::size_t siblings) {
    std::uint32_t best = kNone;
    int lowest = INT32_MAX;
    if (const auto it = by_shape_.find(shape); it != by_shape_.end()) {
      const std::size_t look_back =
          48 + 4 * siblings;  // a part of a long list is older, with views of all others behind it
      const auto& list = it->second;
      const bool in_place = unit.name.ends_with("_");
      const bool product = multiplies_weights(unit.name);
      for (std::size_t back = 1; back <= std::min(list.size(), look_back); ++back) {
        const std::uint32_t value = list[list.size() - back];
        const bool taken =
            std::any_of(unit.inputs.begin(), unit.inputs.end(), [&](const Input& in) { return in.value == value; });
        if (taken) continue;
        const int rank = unlikelihood(value, in_place, product);
        if (rank < lowest) {
          lowest = rank;
          best = value;
        }
      }
    }
    // A result whose shape is not known yet and that has no reader is likelier than one that was used already.
    if (may_be_new && unshaped_ != kNone && (best == kNone || lowest > 0)) {
      const std::uint32_t id = unshaped_;
      unshaped_ = kNone;
      flow_.values[id].shape = shape;
      by_shape_[shape].push_back(id);
      return id;
    }
    return best;
  }

  // `use`: which tensor it is, where an execution trace shows; then nothing is left to find out.
  void take(Unit& unit, std::size_t argument, const Shape& shape, bool may_be_new = true, std::size_t siblings = 0,
            const trace::TensorUse* use = nullptr) {
    const std::int64_t n = work::elements_of(shape);
    std::uint32_t id = kNone;
    if (use != nullptr) {
      std::uint32_t& known = tensors_.value(use->tensor);
      if (known == kNone) known = add_value({}, kNone, kNone);
      id = known;
      if (flow_.values[id].shape.empty() && flow_.values[id].producer != kNone) flow_.values[id].shape = shape;
      if (id == unshaped_) unshaped_ = kNone;
    } else {
      id = shape.empty() ? kNone : find(shape, unit, may_be_new, siblings);
      if (id == kNone) id = add_value({}, kNone, kNone);
    }
    flow_.values[id].consumers.push_back(static_cast<std::uint32_t>(flow_.units.size()));
    unit.inputs.push_back({argument, id, n});
  }

  void add_unit(std::uint32_t e, const std::vector<std::uint32_t>& inside) {
    Unit unit;
    unit.event = e;
    unit.name = t_.name(e);
    unit.computes =
        computing_[e] || std::any_of(inside.begin(), inside.end(), [&](std::uint32_t c) { return computing_[c]; });
    const OpView view(t_, t_.events.args[e]);
    const NamedTensors::Operation* named = tensors_.of(e);
    tensors_.advance(t_.events.start[e]);
    for (std::size_t i = 0; i < view.size(); ++i) {
      const Argument& a = view[i];
      const std::vector<const trace::TensorUse*> uses = tensors_.uses(named, i, a.list() ? a.shapes.size() : 1);
      if (a.list()) {
        // Of several tensors, the one no other result explains is the one whose shape was not known.
        const auto known = [&](const Shape& s) { return by_shape_.contains(s); };
        const bool all = std::all_of(a.shapes.begin(), a.shapes.end(), known);
        for (std::size_t k = 0; k < a.shapes.size(); ++k) {
          take(unit, i, a.shapes[k], all || !known(a.shapes[k]), a.shapes.size(), uses[k]);
        }
      } else if (a.tensor() && floating(a.type)) {
        take(unit, i, a.shape(), true, 0, uses[0]);
      }
    }
    const auto index = static_cast<std::uint32_t>(flow_.units.size());
    const auto note = [&](std::uint32_t op) {
      const trace::OpIds* ids = t_.op(op);
      if (ids != nullptr && ids->sequence_number != trace::kAbsent) last_with_[ids->sequence_number] = index;
    };
    note(e);
    for (const std::uint32_t c : inside) note(c);
    flow_.begins.push_back(t_.events.start[e]);
    facts_.push_back({multiplies_weights(unit.name), makes_constant(unit.name), often_reused(unit.name)});
    flow_.units.push_back(std::move(unit));
    add_outputs(index, view, inside);
    for (const std::uint32_t c : inside) tensors_.forget(c);
    if (named != nullptr) name_outputs(index, *named);
  }

  /// From here on these tensors are this unit's results: also where numbers of tensors that are gone come again.
  void name_outputs(std::uint32_t index, const NamedTensors::Operation& op) {
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      const trace::TensorUse& out = op.outputs[k];
      if (k >= flow_.units[index].outputs.size()) {
        flow_.units[index].outputs.push_back(add_value({out.shape.begin(), out.shape.end()}, index, kNone));
      }
      std::uint32_t& id = flow_.units[index].outputs[k];
      const bool of_input = std::any_of(op.inputs.begin(), op.inputs.end(),
                                        [&](const trace::TensorUse& in) { return in.storage == out.storage; });
      if (!of_input && flow_.values[id].producer != index) {  // memory of its own: a result, whatever it looked like
        flow_.values[id].consumers.push_back(index);
        const std::uint32_t own = add_value({out.shape.begin(), out.shape.end()}, index, kNone);
        flow_.units[index].outputs[k] = own;
      }
      tensors_.value(out.tensor) = id;
      if (flow_.values[id].shape.empty()) flow_.values[id].shape.assign(out.shape.begin(), out.shape.end());
      if (id == unshaped_) unshaped_ = kNone;
    }
  }

  // Sizes of the views that `ops` make, in order.
  std::vector<Shape> views_in(const std::vector<std::uint32_t>& ops, Ns behind) const {
    std::vector<Shape> shapes;
    for (const std::uint32_t c : ops) {
      if (t_.events.start[c] < behind) continue;
      const std::string_view name = t_.name(c);
      if (!contains(name, "as_strided") && name != "aten::view" && name != "aten::_unsafe_view" &&
          name != "aten::_reshape_alias")
        continue;
      const OpView v(t_, t_.events.args[c]);
      if (v.size() < 2 || !v.tensor(0) || !floating(v[0].type)) continue;
      shapes.push_back(resolved(v.integers(1), v[0].elements()));
    }
    return shapes;
  }

  void add_outputs(std::uint32_t index, const OpView& view, const std::vector<std::uint32_t>& inside) {
    Unit& unit = flow_.units[index];
    const std::uint32_t source = unit.inputs.empty() ? kNone : unit.inputs.front().value;
    const auto store = [&](Shape shape, std::uint32_t storage) {
      flow_.units[index].outputs.push_back(add_value(std::move(shape), index, storage));
    };
    if (!unit.computes) {
      if (source == kNone) return;
      std::vector<std::uint32_t> all = inside;
      all.insert(all.begin(), unit.event);
      const std::vector<Shape> shapes = views_in(all, INT64_MIN);
      if (unit.name == "aten::to") {  // to the type it has; not so once types change
        const Shape shape = flow_.values[source].shape;
        store(shape, flow_.values[source].storage);
        return;
      }
      if (shapes.empty()) {  // hands its input on: dropout that drops nothing, `contiguous` where it is
        flow_.values[source].consumers.pop_back();
        unit.outputs.push_back(source);
        return;
      }
      // A part of a tensor leaves the rest to be used; another shape of all of it replaces it.
      const std::int64_t all_of_it = unit.inputs.front().elements;
      const bool whole = work::elements_of(shapes.back()) >= all_of_it;
      if (whole)
        reshaped_[source] = 1;
      else
        flow_.values[source].consumers.pop_back();
      for (const Shape& s : shapes) store(s, flow_.values[source].storage);
      return;
    }
    if (unit.name.ends_with("_") && source != kNone) {  // in place: the same memory, a new content
      const Shape shape = flow_.values[source].shape;
      store(shape, flow_.values[source].storage);
      return;
    }
    if (makes_integers(unit.name)) return;
    if (Shape known = output_shape(unit.name, view, inside); !known.empty()) {
      store(std::move(known), kNone);
      return;
    }
    store({}, kNone);
    unshaped_ = flow_.units[index].outputs.front();
  }

  Shape output_shape(std::string_view name, const OpView& view, const std::vector<std::uint32_t>& inside) const {
    // Their views are of statistics and masks, not of the result.
    if ((contains(name, "_norm") || contains(name, "softmax") || contains(name, "dropout")) && view.tensor(0))
      return view[0].shape();
    Ns last_work = INT64_MIN;
    for (const std::uint32_t c : inside) {
      if (computing_[c]) last_work = t_.events.start[c];
      if (t_.name(c) == "aten::convolution") {
        if (Shape s = convolved(OpView(t_, t_.events.args[c])); !s.empty()) return s;
      }
    }
    if (last_work != INT64_MIN) {
      if (std::vector<Shape> trailing = views_in(inside, last_work); !trailing.empty()) return trailing.back();
    }
    if (name == "aten::reshape") return view.tensor(0) ? resolved(view.integers(1), view[0].elements()) : Shape();
    return result_shape(name, view);
  }

  static Shape convolved(const OpView& v) {
    if (!v.tensor(0, 3) || !v.tensor(1, 3) || v.size() < 9) return {};
    const Shape& in = v[0].shape();
    const Shape& weight = v[1].shape();
    const Shape stride = v.integers(3), pad = v.integers(4), dilation = v.integers(5), extra = v.integers(7);
    const bool transposed = v.flag(6);
    const std::size_t dims = in.size() - 2;
    if (stride.size() < dims || pad.size() < dims || dilation.size() < dims || weight.size() != in.size()) return {};
    Shape out = {in[0], transposed ? weight[1] * v.integer(8, 1) : weight[0]};
    for (std::size_t d = 0; d < dims; ++d) {
      const std::int64_t reach = dilation[d] * (weight[d + 2] - 1) + 1;
      out.push_back(transposed ? (in[d + 2] - 1) * stride[d] - 2 * pad[d] + reach + (d < extra.size() ? extra[d] : 0)
                               : (in[d + 2] + 2 * pad[d] - reach) / std::max<std::int64_t>(1, stride[d]) + 1);
    }
    return out;
  }

  const trace::Trace& t_;
  Dataflow flow_;
  NamedTensors tensors_;
  const std::vector<bool>& computing_;     // by event: operations that launched GPU work themselves
  const std::vector<std::uint32_t>& ops_;  // of the forward pass, outer ones first
  std::vector<Facts> facts_;               // by unit
  std::map<Shape, std::vector<std::uint32_t>> by_shape_;
  std::vector<char> reshaped_;      // by value: used through a view
  std::uint32_t unshaped_ = kNone;  // the latest result of unknown shape
  std::map<std::int64_t, std::uint32_t> last_with_;
};

}  // namespace

Dataflow flow_of(const trace::Trace& trace, const FlowStart& start, const FlowOps& ops) {
  return FlowBuilder(trace, start, ops).run();
}

Dataflow forward_flow(const Model& model) {
  const FlowStart start = flow_start(model);
  return flow_of(*model.trace, start, flow_ops(*model.trace, start.window));
}

std::uint32_t Dataflow::unit_of(std::uint32_t event) const {
  if (trace->events.lane[event] != lane) return kNone;
  const Ns at = trace->events.start[event];
  const auto it = std::upper_bound(begins.begin(), begins.end(), at);
  if (it == begins.begin()) return kNone;
  const auto unit = static_cast<std::uint32_t>(it - begins.begin() - 1);
  return at < std::max(trace->end(units[unit].event), trace->events.start[units[unit].event] + 1) ? unit : kNone;
}

Dataflow::Backward Dataflow::backward_of(std::uint32_t event) const {
  const LaneId where = trace->events.lane[event];
  const Ns at = trace->events.start[event];
  auto it =
      std::upper_bound(nodes.begin(), nodes.end(), std::pair(where.value, at), [](const auto& key, const Node& n) {
        return key.first != n.lane.value ? key.first < n.lane.value : key.second < n.begin;
      });
  if (it == nodes.begin()) return {};
  --it;
  if (it->lane != where || at >= it->end) return {};
  Backward found;
  found.node = it->name;
  found.sums = at < it->work_begin || at >= it->work_end;
  const auto s = std::lower_bound(sequences.begin(), sequences.end(), std::pair(it->sequence, std::uint32_t{0}));
  if (s != sequences.end() && s->first == it->sequence) found.unit = s->second;
  return found;
}

std::uint32_t Dataflow::content(std::uint32_t value) const {
  for (std::size_t steps = 0; steps < units.size(); ++steps) {
    const std::uint32_t p = values[value].producer;
    if (p == kNone || units[p].computes || units[p].inputs.empty()) return value;
    value = units[p].inputs.front().value;
  }
  return value;
}

}  // namespace foretrace::whatif
