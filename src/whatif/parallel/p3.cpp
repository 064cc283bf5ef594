// P3 cuts gradients into slices, pushes them to parameter servers and pulls back the sums; of the slices that are ready it sends those
// first that the next forward pass needs first. A layer of that pass waits for its own parameters only.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "foretrace/simulate/simulate.hpp"
#include "trace/latencies.hpp"
#include "whatif/model/simulate_model.hpp"
#include "whatif/parallel/builder.hpp"
#include "whatif/parallel/gradients.hpp"
#include "whatif/parallel/p3_sends.hpp"
#include "whatif/parallel/servers.hpp"

namespace foretrace::whatif {
namespace {

// By gradient, what a slice of it finds in front of it where streams share a queue: the last task of backward that was launched before
// the gradient was there. Launches run ahead of the GPU, so that this often is the end of backward.
std::vector<std::uint32_t> launched_before_ready(const Builder& b, const simulate::Timeline& alone) {
  const Graph& g = b.m.graph;
  std::vector<std::uint32_t> last(b.gradients.list.size(), kNone);
  if (!b.few_queues()) return last;
  const graph::GraphLane& stream = g.lanes[b.gradients.stream];
  std::uint32_t t = stream.begin;
  for (std::size_t i = 0; i < last.size(); ++i) {
    const std::uint32_t from = b.gradients.list[i].gpu;
    if (from == kNone) continue;
    for (; t < stream.end && t <= b.gradients.backward_gpu; ++t) {
      if (g.launch[t].valid() && alone.end[g.launch[t].index()] > alone.end[from]) break;
    }
    last[i] = t > stream.begin ? std::max(t - 1, from) : from;
  }
  return last;
}

class P3 {
 public:
  explicit P3(Builder& b)
      : b_(b),
        g_(b.m.graph),
        list_(b.gradients.list),
        servers_(b, true),
        alone_(simulate::simulate(g_)),
        in_front_(launched_before_ready(b, alone_)),
        send_ns_(b.how.send_us ? static_cast<Ns>(std::llround(*b.how.send_us * 1e3)) : b.ns(b.ddp.gradient_us)),
        pulled_(list_.size(), kNone) {
    for (const Gradient& gradient : list_) {
      hooks_.push_back({gradient.cpu, gradient.gpu});
      b_.cpu(hooks_.back(), "P3: hook", b_.ns(b_.ddp.gradient_us), Phase::kBackward);
    }
  }

  Status run() {
    if (b_.how.sends_on_training_thread && b_.gradients.passes > 1) {
      return fail(ErrorCode::kDeclined,
                  "a training thread that sends is modelled for steps of one pass, not of several",
                  "sender=thread goes with accumulation");
    }
    // What is sent and what comes back, until its layer has taken it.
    if (b_.m.memory) b_.m.memory->start_bytes += 2 * b_.gradients.bytes();
    if (!b_.how.sends_on_training_thread) send_from_own_thread();
    FORETRACE_TRY_VOID(add_next_forward());
    if (b_.how.sends_on_training_thread) send_from_training_thread();
    for (std::uint32_t i = 0; i < list_.size(); ++i) b_.wait_for(copy_of_[layers_[i]], pulled_[i]);
    // Marks between which the step is measured.
    const std::uint32_t marks = b_.draft.add_lane(graph::GraphLaneKind::kNetwork, "period");
    b_.draft.added_lane(marks).role = graph::LaneRole::kPeriodMarks;
    const std::uint32_t begin = b_.draft.append(marks, TaskKind::kWait, "period begins", 0, Phase::kOther, {});
    const std::uint32_t end = b_.draft.append(marks, TaskKind::kWait, "period ends", 0, Phase::kOther, {});
    b_.draft.depend(forward_.back(), begin, 0, DependencyKind::kSync);
    b_.draft.depend(copy_of_[forward_.back()], end, 0, DependencyKind::kSync);
    return {};
  }

 private:
  // Without priorities gradients are sent whole, first come, first served.
  [[nodiscard]] std::vector<double> slices(std::uint32_t i) const {
    const auto bytes = static_cast<double>(b_.gradients.bytes(i));
    return b_.how.priorities ? b_.slices(bytes) : std::vector<double>{bytes};
  }

  // An exchange behind the CPU task that sends and the gradient.
  void start(const Exchange& e, std::uint32_t send, std::uint32_t i) {
    b_.start_behind(e.push, {send, hooks_[i].gpu});
    for (const std::uint32_t side : list_[i].side) {
      b_.draft.depend(side, b_.first_of(e.push), 1'200, DependencyKind::kStreamWait);
    }
    pulled_[i] = e.pull;
  }

  // A thread that only sends takes the most urgent slice there is, and needs time for each.
  void send_from_own_thread() {
    const std::uint32_t sender = b_.draft.add_lane(graph::GraphLaneKind::kCpu, "P3 sender");
    const auto count = static_cast<std::uint32_t>(list_.size());
    for (std::uint32_t k = 0; k < count; ++k) {
      const std::uint32_t i = b_.how.priorities ? count - 1 - k : k;
      for (const double slice : slices(i)) {
        const Exchange e = servers_.exchange(slice);
        const std::uint32_t send =
            b_.draft.append(sender, TaskKind::kCpu, "P3: send a slice", send_ns_, Phase::kBackward, {});
        b_.draft.depend(hooks_[i].cpu, send, 0, DependencyKind::kThread);
        // The choice is among gradients that are there, not among those the GPU has still to compute.
        if (list_[i].gpu != kNone) b_.draft.depend(list_[i].gpu, send, 0, DependencyKind::kSync);
        // No more than one or two slices are in flight: the others are sent once these have arrived.
        if (in_front_[i] != kNone) b_.draft.depend(in_front_[i], send, 0, DependencyKind::kSync);
        if (b_.how.priorities) {
          const auto priority = static_cast<std::int32_t>(i);
          b_.draft.schedule({send}, priority);
          b_.draft.schedule(b_.steps_of(e.push), priority);
          b_.draft.schedule(b_.steps_of(e.pull), priority);
        }
        start(e, send, i);
      }
    }
  }

  // The thread that trains sends between its launches; each layer's update is a call of its own in front of that layer.
  void send_from_training_thread() {
    std::vector<Outgoing> outgoing;
    for (std::uint32_t i = 0; i < list_.size(); ++i) {
      const std::vector<double> parts = slices(i);
      const Ns ready = alone_.end[list_[i].gpu];
      outgoing.push_back({.hook = alone_.end[list_[i].cpu],
                          .ready = ready,
                          .passes = in_front_[i] == kNone ? ready : alone_.end[in_front_[i]],
                          .exchange = servers_.time_of(parts.front()),
                          .layer = layers_[i],
                          .slices = static_cast<std::uint32_t>(parts.size())});
    }
    bool finished = false;
    Place behind{backward_joined(), b_.gradients.backward_gpu};
    // Behind backward the thread sends until the GPU is through with it.
    const auto finish = [&] {
      if (!finished) {
        const std::uint32_t wait = b_.draft.insert_wait(behind.cpu, "P3: backward has ended");
        b_.draft.depend(b_.gradients.backward_gpu, wait, b_.m.latencies->sync_return, DependencyKind::kSync);
      }
      finished = true;
    };
    std::map<std::uint32_t, Place> before;  // by the layer's first kernel
    for (const std::uint32_t kernel : layers_) before[kernel] = before_layer(kernel);
    std::vector<std::uint32_t> sent;  // what comes back, in the order of sending
    for (const SentSlice& s :
         sends_of_training_thread(outgoing, alone_.end[b_.gradients.backward_cpu],
                                  alone_.end[b_.gradients.backward_gpu], send_ns_, b_.how.priorities)) {
      const std::uint32_t i = s.gradient;
      const bool in_forward = s.where == SentSlice::kBeforeLayer;
      if (in_forward) finish();
      Place& at = in_forward ? before[layers_[i]] : s.where == SentSlice::kInHook ? hooks_[s.hook] : behind;
      if (s.where != SentSlice::kInHook) {
        at.cpu = b_.draft.insert_wait(at.cpu, "P3: room in flight");
        if (!in_forward) b_.draft.depend(list_[i].gpu, at.cpu, 0, DependencyKind::kSync);
        if (sent.size() >= kUnderWay) {
          b_.draft.depend(sent[sent.size() - kUnderWay], at.cpu, 0, DependencyKind::kSync);
        }
      }
      const Exchange e = servers_.exchange(slices(i).front());
      const std::uint32_t send = b_.cpu(at, "P3: send a slice", send_ns_, Phase::kBackward);
      // Where streams share a queue, what was launched before runs before: in forward, all layers in front of this one.
      const std::uint32_t queue = in_forward && b_.few_queues() ? at.gpu : in_front_[i];
      if (queue != kNone) b_.draft.depend(queue, b_.first_of(e.push), 0, DependencyKind::kStreamWait);
      start(e, send, i);
      sent.push_back(e.pull);
    }
    finish();
    const std::set<std::uint32_t> layers(layers_.begin(), layers_.end());
    const Ns call = update_calls(layers.size()) / static_cast<Ns>(layers.size());
    for (const std::uint32_t kernel : layers) b_.cpu(before[kernel], "P3: update of a layer", call, Phase::kOptimizer);
  }

  // What it takes the CPU longer to call the optimizer for each layer: every call launches each kind of kernel that the update has.
  [[nodiscard]] Ns update_calls(std::size_t calls) const {
    std::set<std::string_view> kinds;
    std::size_t launched = 0;
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (g_.phase[t] != Phase::kOptimizer || !graph::is_gpu(g_.kind[t])) continue;
      kinds.insert(g_.task_name(t));
      ++launched;
    }
    const std::size_t needed = calls * kinds.size();
    return needed > launched ? static_cast<Ns>(needed - launched) * b_.m.launch_time(Phase::kOptimizer) : 0;
  }

  // Where the thread that called backward goes on.
  [[nodiscard]] std::uint32_t backward_joined() const {
    const std::uint32_t last = b_.gradients.backward_cpu;
    const graph::GraphLane& lane = g_.lanes[g_.lane[last]];
    if (g_.lane[last] == g_.main_lane) return list_.back().cpu == last ? hooks_.back().cpu : last;
    std::uint32_t joined = kNone;
    for (std::uint32_t d = g_.dep_begin[lane.begin]; d < g_.dep_begin[lane.end]; ++d) {
      if (g_.lane[g_.dep_to[d]] != g_.main_lane) continue;
      joined = joined == kNone ? g_.dep_to[d] : std::max(joined, g_.dep_to[d]);
    }
    return joined == kNone ? last : joined;
  }

  // In front of the launch of a kernel of the next forward pass.
  [[nodiscard]] Place before_layer(std::uint32_t kernel) const {
    const auto here = std::find(forward_.begin(), forward_.end(), kernel);
    Place at{copy_of_[kernel], here == forward_.begin() ? b_.gradients.backward_gpu : copy_of_[*std::prev(here)]};
    if (!g_.launch[kernel].valid()) return at;
    const std::uint32_t call = g_.launch[kernel].value;
    at.cpu = copy_of_[call];
    for (std::uint32_t t = call; t-- > g_.lanes[g_.lane[call]].begin;) {
      if (copy_of_[t] == kNone) continue;
      at.cpu = copy_of_[t];
      break;
    }
    return at;
  }

  // The next step up to the end of its forward pass, each layer behind its own parameters: the step is the distance of the two
  // passes' ends. What is in front of the pass belongs to it: a batch is loaded, gradients are cleared, in every step. What
  // counts as forward behind the first gradient (a wrapper's own copies) does not. The update keeps its place in the step.
  Status add_next_forward() {
    Ns backward = INT64_MAX;
    const graph::GraphLane& stream = g_.lanes[b_.gradients.stream];
    for (std::uint32_t t = stream.begin; t < stream.end; ++t) {
      if (g_.phase[t] != Phase::kBackward) continue;
      backward = g_.launch[t].valid() ? g_.measured[g_.launch[t].index()] : g_.measured[t];
      break;
    }
    bool has_forward = false;
    Query head;
    head.where = [&](std::uint32_t t) {
      if (g_.kind[t] == TaskKind::kWait || g_.kind[t] == TaskKind::kBegin) return false;
      const bool gpu = graph::is_gpu(g_.kind[t]), launched = gpu && g_.launch[t].valid(),
                 pass = g_.phase[t] == Phase::kForward;
      if ((launched ? g_.measured[g_.launch[t].index()] : g_.measured[t]) >= backward) return false;
      if (gpu ? !launched && !pass : g_.lane[t] != g_.main_lane) return false;
      has_forward |= pass;
      return true;
    };
    const Selection pass = b_.draft.select(head);
    if (!has_forward) return fail(ErrorCode::kDeclined, "the step shows no forward pass");
    const std::vector<std::uint32_t> copies = b_.draft.clone(pass, {});
    copy_of_.assign(g_.size(), kNone);
    std::vector<std::uint32_t> first(g_.layers.size(), kNone);  // kernel of each layer
    for (std::size_t k = 0; k < pass.size(); ++k) {
      const std::uint32_t t = pass[k];
      copy_of_[t] = copies[k];
      if (!graph::is_gpu(g_.kind[t]) || g_.lane[t] != b_.gradients.stream) continue;
      forward_.push_back(t);
      if (g_.layer[t].valid() && first[g_.layer[t].index()] == kNone) first[g_.layer[t].index()] = t;
    }
    if (forward_.empty()) return fail(ErrorCode::kDeclined, "the forward pass has no work on the main stream");
    for (const Gradient& gradient : list_) {
      const std::uint32_t from = gradient.side.empty() ? gradient.gpu : gradient.side.front();
      const bool known = from != kNone && g_.layer[from].valid() && first[g_.layer[from].index()] != kNone;
      // Gradients whose layer is unknown hold the first kernel.
      layers_.push_back(known ? first[g_.layer[from].index()] : forward_.front());
    }
    return {};
  }

  Builder& b_;
  const Graph& g_;
  const std::vector<Gradient>& list_;
  Servers servers_;
  simulate::Timeline alone_;
  std::vector<std::uint32_t> in_front_;
  Ns send_ns_;
  std::vector<std::uint32_t> pulled_;
  std::vector<Place> hooks_;            // by gradient
  std::vector<std::uint32_t> forward_;  // kernels of the main stream
  std::vector<std::uint32_t> copy_of_;  // by task of the pass, that of the next step
  std::vector<std::uint32_t> layers_;   // by gradient, the first kernel of its layer in forward_
};

}  // namespace

Status apply_p3(Builder& b) { return P3(b).run(); }

}  // namespace foretrace::whatif
