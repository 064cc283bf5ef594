#include "whatif/rewrite/cast_tasks.hpp"

#include <cmath>

#include "hardware/cost.hpp"

namespace foretrace::whatif {

namespace {

using work::Dtype;
using work::Work;

class Inserter {
 public:
  Inserter(Model& m, Draft& draft, const Dataflow& flow, const Autocast& cast, const CastPlaces& places, Dtype dtype)
      : m_(m), draft_(draft), flow_(flow), cast_(cast), places_(places), dtype_(dtype) {}

  void insert() {
    // Operations without GPU work of their own borrow the place of the next one.
    std::uint32_t first = kNone;
    std::uint32_t back = places_.end_of_backward;
    std::vector<std::uint32_t> first_at(places_.first.size()), back_at(places_.first.size());
    for (std::size_t u = places_.first.size(); u-- > 0;) {
      if (places_.first[u] != kNone) first = places_.first[u];
      first_at[u] = first;
    }
    for (std::size_t u = 0; u < places_.first.size(); ++u) {
      if (places_.last_backward[u] != kNone) back = places_.last_backward[u];
      back_at[u] = places_.last_backward[u] != kNone ? back : kNone;
    }
    for (std::size_t u = places_.first.size(); u-- > 0;) {
      if (back_at[u] == kNone) back_at[u] = u + 1 < places_.first.size() ? back_at[u + 1] : places_.end_of_backward;
    }
    for (std::size_t u = 0; u < cast_.units.size(); ++u) {
      const AutocastUnit& a = cast_.units[u];
      const std::uint32_t event = flow_.units[u].event;
      for (const Cast& c : a.casts) {
        // An operation whose work another what-if took away casts nothing.
        if (c.elements <= 0 || (flow_.units[u].computes && places_.first[u] == kNone)) continue;
        const std::int64_t elements = c.weight ? c.elements : samples(c.elements);
        if (first_at[u] != kNone) insert_before(first_at[u], {elements, c.to_float, c.weight, event}, Phase::kForward);
        if (c.gradient && !c.copied && back_at[u] != kNone)
          insert_behind(back_at[u], {elements, !c.to_float, c.weight, event}, Phase::kBackward);
      }
      for (const std::int64_t n : a.narrowed) {
        if (back_at[u] != kNone) insert_behind(back_at[u], {samples(n), false, false, event}, Phase::kBackward);
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t samples(std::int64_t elements) const {
    return std::llround(static_cast<double>(elements) * m_.pass_samples);
  }

  [[nodiscard]] bool recurrent(std::uint32_t event) const {
    if (m_.trace == nullptr || event >= m_.trace->size()) return false;
    const std::string_view name = m_.trace->name(event);
    return name.starts_with("aten::lstm") || name.starts_with("aten::gru") || name.starts_with("aten::rnn_") ||
           name.starts_with("aten::_cudnn_rnn");
  }

  struct Conversion {
    std::int64_t elements;
    bool to_float, weight;
    std::uint32_t event;  // the operation it is made for
  };

  void insert_one(std::uint32_t after_gpu, std::uint32_t after_cpu, const Conversion& c, Phase phase,
                  graph::LayerId layer) {
    Work work = c.to_float ? cast_work(c.elements, dtype_, Dtype::kFp32) : cast_work(c.elements, Dtype::kFp32, dtype_);
    work.of_parameters = c.weight;
    work.op_event = c.event;
    const hardware::Cost cost = predict(work, m_.device);
    if (!cost.known) return;
    const std::uint32_t row = m_.works.add(work);
    // Backward casts again on the way to the parameter: a node of the graph beside the operation.
    const bool forward = phase == Phase::kForward;
    const double asked = c.weight && recurrent(c.event) ? m_.host.rnn_weight_us : 0;
    const Ns cpu = forward ? m_.cpu_time(m_.host.cast_us + asked, host::CpuPhase::kForward)
                           : m_.cpu_time(m_.host.cast_us + m_.host.node_us, host::CpuPhase::kBackward);
    draft_.insert({.name = "cast",
                   .cost = static_cast<Ns>(cost.ns),
                   .phase = phase,
                   .layer = layer,
                   .after_gpu = after_gpu,
                   .after_cpu = after_cpu,
                   .cpu_cost = cpu,
                   .work = row});
  }

  // In front of a task and its launch.
  void insert_before(std::uint32_t task, const Conversion& c, Phase phase) {
    const Graph& g = m_.graph;
    if (!g.launch[task].valid()) return;
    const std::uint32_t call = g.launch[task].value;
    insert_one(task > g.lanes[g.lane[task]].begin ? task - 1 : task,
               call > g.lanes[g.lane[call]].begin ? call - 1 : call, c, phase, g.layer[task]);
  }
  void insert_behind(std::uint32_t task, const Conversion& c, Phase phase) {
    const Graph& g = m_.graph;
    if (g.launch[task].valid()) insert_one(task, g.launch[task].value, c, phase, g.layer[task]);
  }

  Model& m_;
  Draft& draft_;
  const Dataflow& flow_;
  const Autocast& cast_;
  const CastPlaces& places_;
  Dtype dtype_;
};

}  // namespace

void insert_casts(Model& model, Draft& draft, const Dataflow& flow, const Autocast& cast, const CastPlaces& places,
                  Dtype dtype) {
  Inserter(model, draft, flow, cast, places, dtype).insert();
}

}  // namespace foretrace::whatif
