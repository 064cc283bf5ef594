// Which phase and layer each task works for, from host ranges alone: no synchronisation, nothing recorded on the GPU.
//
//   forward    the innermost layer range around the launch (layer:…, nn.Module: … frames, other user ranges)
//   backward   the autograd node's sequence number leads to the forward operation that made it, and to its layer;
//              nodes without a number (gradient accumulation) belong to the node before them on their thread; on a
//              thread that runs nodes everything is backward, named or not
//   optimizer, communication, data   by their ranges, operations and kernels
//
// Work between two leaf ranges belongs to the module that holds both: what runs after h.3.attn.c_attn and before
// h.3.attn.c_proj is h.3.attn's, what runs between h.3's last leaf and h.4's first (a residual sum) is h.3's.
// Where no range names a layer, the outermost operation and its first input's shape stand for one ("synthetic").

#include <algorithm>
#include <string>
#include <unordered_map>

#include "graph/gpu_layers.hpp"
#include "graph/layer_marks.hpp"
#include "graph/step_state.hpp"
#include "trace/ranges.hpp"

namespace foretrace::graph {

namespace {

using trace::EventKind;

class LayerRule {
 public:
  LayerRule(const TraceIndex& index, Graph& graph, Ns begin) : ix_(index), g_(graph), begin_(begin), names_(graph) {
    marks_.assign(index.trace.strings.size() * 3, 0);
  }

  void run() {
    find_backward_threads();
    for (const GraphLane& lane : g_.lanes) {
      if (lane.kind != GraphLaneKind::kCpu || !lane.trace_lane.valid()) continue;
      find_leaves(lane);
      find_forward(lane);
    }
    for (const GraphLane& lane : g_.lanes) {
      if (lane.kind != GraphLaneKind::kCpu || !lane.trace_lane.valid()) continue;
      find_leaves(lane);
      assign_cpu(lane);
    }
    assign_gpu_layers(trace(), g_, names_);
  }

 private:
  const trace::Trace& trace() const { return ix_.trace; }

  std::uint8_t mark(std::uint32_t e) {
    const EventKind kind = trace().kind(e);
    const std::size_t row = kind == EventKind::kPython ? 2 : kind == EventKind::kAnnotation ? 1 : 0;
    std::uint8_t& m = marks_[trace().events.name[e].index() * 3 + row];
    if (m == 0) m = classify_range(kind, trace().name(e));
    return m;
  }

  // An event that is open on a thread, with what is known about it and the events around it. Every question about the open
  // events is answered by the innermost one, however deep they are nested.
  struct Open {
    std::uint32_t event;
    std::uint8_t inside = 0;            // marks of all of them
    std::uint32_t layer_range = kNone;  // the innermost one
    std::uint32_t layer_depth = 0;      // how many are around it
    std::uint32_t user_range = kNone;   // the innermost one that is not the whole step
    std::uint32_t user_depth = 0;
    std::uint32_t node = kNone;  // the outermost autograd node
    std::uint32_t node_depth = 0;
    std::uint32_t op = kNone;  // the outermost operation
  };

  // The events open on a thread, moved forward in time.
  class Chain {
   public:
    Chain(LayerRule& rule, std::uint32_t lane)
        : rule_(rule), ix_(rule.ix_), events_(ix_.begun_in(lane, rule.begin_, INT64_MAX)) {
      // Ranges opened before the step may still enclose it.
      for (const std::uint32_t e : ix_.open_at(lane, rule.begin_)) push(e);
    }
    void move_to(Ns when) {
      for (; at_ < events_.size() && ix_.trace.events.start[events_[at_]] <= when; ++at_) {
        const std::uint32_t e = events_[at_];
        pop(ix_.trace.events.start[e]);
        push(e);
      }
      pop(when);
    }
    /// The innermost open event; null when none is.
    [[nodiscard]] const Open* innermost() const { return open_.empty() ? nullptr : &open_.back(); }

   private:
    void push(std::uint32_t e) {
      if (ix_.trace.kind(e) == EventKind::kRuntime) return;
      const std::uint8_t mark = rule_.mark(e);
      const auto depth = static_cast<std::uint32_t>(open_.size());
      Open next = open_.empty() ? Open{} : open_.back();
      next.event = e;
      next.inside |= mark;
      if ((mark & kLayerRange) != 0) {
        next.layer_range = e;
        next.layer_depth = depth;
      }
      if ((mark & kUserRange) != 0 && !rule_.holds_the_step(e)) {
        next.user_range = e;
        next.user_depth = depth;
      }
      if ((mark & kAutogradNode) != 0 && next.node == kNone) {
        next.node = e;
        next.node_depth = depth;
      }
      if ((mark & kOpMark) != 0 && next.op == kNone) next.op = e;
      open_.push_back(next);
    }
    void pop(Ns when) {
      while (!open_.empty() && ix_.trace.end(open_.back().event) <= when) open_.pop_back();
    }
    LayerRule& rule_;
    const TraceIndex& ix_;
    std::span<const std::uint32_t> events_;
    std::size_t at_ = 0;
    std::vector<Open> open_;
  };

  LayerId layer(std::string_view name, std::string_view type, bool synthetic) {
    return names_.of(name, type, synthetic);
  }

  LayerId range_layer(std::uint32_t e) {
    LayerId& cached = range_layers_.try_emplace(trace().events.name[e].value, LayerId{}).first->second;
    if (cached.valid()) return cached;
    std::string_view name = trace().name(e);
    std::string_view type;
    if (name.starts_with("layer:")) {
      name.remove_prefix(6);
      if (const std::size_t bar = name.find('|'); bar != std::string_view::npos) {
        type = name.substr(bar + 1);
        name = name.substr(0, bar);
      }
    } else if (name.starts_with("nn.Module: ")) {
      name.remove_prefix(11);
      type = name.substr(0, name.rfind('_'));
    }
    return cached = layer(name, type, false);
  }

  LayerId synthetic_layer(std::uint32_t op) {
    std::string name(trace().name(op));
    if (const trace::OpInputs* inputs = trace().args.inputs(trace().events.args[op]);
        inputs != nullptr && inputs->dims.valid()) {
      // "[[64,3,224,224],…" -> the first shape that is not empty
      const std::string_view dims = trace().strings[inputs->dims];
      const std::size_t digit = dims.find_first_of("0123456789");
      if (digit != std::string_view::npos) {
        const std::size_t end = dims.find(']', digit);
        name.append("[").append(dims.substr(digit, end - digit)).append("]");
      }
    }
    return layer(name, "", true);
  }

  // Threads of autograd's engine: those that run nodes. Where no operation of the step is a node, the thread that gives the
  // GPU work while the main thread waits, in a step that has an optimizer.
  void find_backward_threads() {
    backward_.assign(g_.lanes.size(), 0);
    bool nodes = false;
    bool trains = false;
    for (std::uint32_t l = 0; l < g_.lanes.size(); ++l) {
      const GraphLane& lane = g_.lanes[l];
      if (lane.kind != GraphLaneKind::kCpu || !lane.trace_lane.valid()) continue;
      for (const std::uint32_t e : events_of(lane)) {
        const std::uint8_t m = mark(e);
        trains |= (m & kOptimizer) != 0;
        if ((m & kAutogradNode) == 0) continue;
        nodes = true;
        if (l != g_.main_lane) backward_[l] = 1;
      }
    }
    if (nodes || !trains) return;
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
        const bool joined = g_.dep_kind[d] == DependencyKind::kThread && g_.lane[g_.dep_to[d]] == g_.main_lane;
        if (joined && g_.lane[t] != g_.main_lane) backward_[g_.lane[t]] = 1;
      }
    }
  }

  struct Where {
    Phase phase = Phase::kOther;
    LayerId layer;
  };

  // The layer by the ranges inside of the `from` outermost ones.
  LayerId named_layer(const Open& open, std::uint32_t from) {
    if (open.layer_range != kNone && open.layer_depth >= from) return range_layer(open.layer_range);
    if (open.user_range != kNone && open.user_depth >= from) return range_layer(open.user_range);
    return LayerId{};
  }

  // A range that holds most of the step, whatever its name, is no layer of the model.
  [[nodiscard]] bool holds_the_step(std::uint32_t e) const { return trace().events.duration[e] > g_.traced / 2; }

  // The `layer:` ranges of a thread in order of time: leaves, so that the modules around them have no range of their own.
  void find_leaves(const GraphLane& lane) {
    leaves_.clear();
    for (const std::uint32_t e : events_of(lane)) {
      if (trace().kind(e) == EventKind::kAnnotation && trace().name(e).starts_with("layer:")) leaves_.push_back(e);
    }
  }

  // The module that holds the leaf before and the leaf after an operation outside of all ranges.
  LayerId enclosing_module(const Open& open) {
    const Ns when = trace().events.start[open.event];
    const auto next = std::lower_bound(leaves_.begin(), leaves_.end(), when,
                                       [&](std::uint32_t e, Ns t) { return trace().events.start[e] < t; });
    if (next == leaves_.begin() || next == leaves_.end()) return LayerId{};
    const std::uint64_t pair =
        (std::uint64_t{trace().events.name[*(next - 1)].value} << 32) | trace().events.name[*next].value;
    const auto [it, inserted] = modules_.try_emplace(pair, LayerId{});
    if (inserted) {
      const auto name = [&](std::uint32_t e) {
        return std::string(g_.strings[g_.layers[range_layer(e).index()].name]);
      };
      const std::string module = module_between(name(*(next - 1)), name(*next));
      if (!module.empty()) it->second = layer(module, "", false);
    }
    return it->second;
  }

  LayerId outermost_op_layer(const Open& open) {
    if (open.op == kNone) return LayerId{};
    const LayerId module = enclosing_module(open);
    return module.valid() ? module : synthetic_layer(open.op);
  }

  // Sequence number -> layer of the forward operation: the latest-starting one that carries it, because numbers are read
  // when an operation begins and only advance when it makes a node.
  void find_forward(const GraphLane& lane) {
    Chain chain(*this, lane.trace_lane.value);
    for (const std::uint32_t op : events_of(lane)) {
      const trace::OpIds* ids = trace().op(op);
      if (ids == nullptr || ids->sequence_number == trace::kAbsent || trace().kind(op) != EventKind::kOp) continue;
      chain.move_to(trace().events.start[op]);
      const Open* open = chain.innermost();
      if (open != nullptr && open->node != kNone) continue;
      const LayerId found = open == nullptr ? LayerId{} : forward_layer(*open);
      Forward& f = forward_[ids->sequence_number];
      if (trace().events.start[op] >= f.start) f = {trace().events.start[op], found};
    }
  }

  // Those of a thread in the step, or until its last task ends.
  [[nodiscard]] std::span<const std::uint32_t> events_of(const GraphLane& lane) const {
    const Ns last = g_.measured[lane.end - 1] + g_.cost[lane.end - 1];
    return ix_.begun_in(lane.trace_lane.value, begin_, begin_ + std::max(g_.traced, last));
  }

  LayerId forward_layer(const Open& open) {
    const LayerId found = named_layer(open, 0);
    return found.valid() ? found : outermost_op_layer(open);
  }

  LayerId backward_layer(const Open& open, LayerId& previous_node) {
    LayerId found = named_layer(open, open.node_depth + 1);
    const trace::OpIds* ids = trace().op(open.node);
    if (ids != nullptr && ids->sequence_number != trace::kAbsent) {
      if (const auto it = forward_.find(ids->sequence_number); !found.valid() && it != forward_.end()) {
        found = it->second.layer;
      }
      if (found.valid()) previous_node = found;
    } else if (!found.valid()) {
      found = previous_node;
    }
    return found.valid() ? found : synthetic_layer(open.node);
  }

  Where where(const Open* open, LayerId& previous_node, bool backward) {
    if (open == nullptr) {
      return {backward ? Phase::kBackward : Phase::kOther, backward ? previous_node : LayerId{}};
    }
    if ((open->inside & kCommunication) != 0) return {Phase::kCommunication, layer("(communication)", "", true)};
    if ((open->inside & kOptimizer) != 0) return {Phase::kOptimizer, layer("(optimizer)", "", true)};
    if ((open->inside & kDataLoader) != 0) return {Phase::kData, layer("(data)", "", true)};
    if (open->node != kNone) return {Phase::kBackward, backward_layer(*open, previous_node)};
    LayerId found = named_layer(*open, 0);
    if (!found.valid() && backward) found = previous_node;
    if (!found.valid()) found = outermost_op_layer(*open);
    if (backward) return {Phase::kBackward, found};
    return {found.valid() ? Phase::kForward : Phase::kOther, found};
  }

  void assign_cpu(const GraphLane& lane) {
    const bool backward = backward_[static_cast<std::size_t>(&lane - g_.lanes.data())] != 0;
    Chain chain(*this, lane.trace_lane.value);
    LayerId previous_node;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      Ns when = begin_ + g_.measured[t];
      // Time in front of an operation goes with it.
      if (g_.op[t].valid()) when = std::max(when, trace().events.start[g_.op[t].index()]);
      if (g_.event[t].valid()) when = std::max(when, trace().events.start[g_.event[t].index()]);
      chain.move_to(when);
      const Where w = is_loading(t) ? Where{Phase::kData, layer("(data)", "", true)}
                                    : where(chain.innermost(), previous_node, backward);
      g_.phase[t] = w.phase;
      g_.layer[t] = w.layer;
    }
  }

  // Time that a loader's range owns, or a wait for a batch.
  [[nodiscard]] bool is_loading(std::uint32_t t) const {
    if (!g_.event[t].valid()) return false;
    const EventKind kind = trace().kind(g_.event[t].index());
    return (kind == EventKind::kAnnotation || kind == EventKind::kPython) &&
           trace::loader_range(trace().name(g_.event[t].index())) != trace::LoaderRange::kNone;
  }

  struct Forward {
    Ns start = INT64_MIN;
    LayerId layer;
  };

  const TraceIndex& ix_;
  Graph& g_;
  Ns begin_;
  LayerNames names_;
  std::vector<std::uint8_t> marks_;
  std::unordered_map<std::int64_t, Forward> forward_;
  std::unordered_map<std::uint32_t, LayerId> range_layers_;
  std::vector<std::uint8_t> backward_;  // per lane: autograd's engine runs on it
  std::vector<std::uint32_t> leaves_;
  std::unordered_map<std::uint64_t, LayerId> modules_;  // names of the leaf before and the leaf after -> module
};

}  // namespace

void assign_layers(const TraceIndex& index, Graph& graph, Ns window_begin) {
  LayerRule(index, graph, window_begin).run();
}

}  // namespace foretrace::graph
