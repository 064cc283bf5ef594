#include "whatif/rewrite/autocast_tasks.hpp"

#include <algorithm>
#include <cmath>

#include "hardware/cost.hpp"
#include "whatif/model/backward_end.hpp"
#include "whatif/rewrite/optimizer.hpp"

namespace foretrace::whatif {

using work::Access;
using work::Dtype;
using work::Work;

namespace {

class CastInserter {
 public:
  CastInserter(Model& m, Draft& draft, const Dataflow& flow, const Autocast& cast, const CastPlaces& places,
               Dtype dtype)
      : m_(m), draft_(draft), flow_(flow), cast_(cast), places_(places), dtype_(dtype) {}

  void insert() {
    // Operations without GPU work of their own borrow the place of the next one.
    const std::size_t units = cast_.units.size();
    std::vector<std::uint32_t> first(units), back(units);
    std::uint32_t next_first = kNone;
    std::uint32_t next_back = places_.end_of_backward;
    for (std::size_t u = units; u-- > 0;) {
      if (places_.first[u] != kNone) next_first = places_.first[u];
      if (places_.last_backward[u] != kNone) next_back = places_.last_backward[u];
      first[u] = next_first;
      back[u] = next_back;
    }
    for (std::size_t u = 0; u < units; ++u) {
      const std::uint32_t event = flow_.units[u].event;
      for (const Cast& c : cast_.units[u].casts) {
        // An operation whose work another what-if took away casts nothing.
        if (c.elements <= 0 || (flow_.units[u].computes && places_.first[u] == kNone)) continue;
        const std::int64_t elements = c.weight ? c.elements : of_the_batch(c.elements);
        if (first[u] != kNone) insert_one(first[u], {elements, c.to_float, c.weight, event}, Phase::kForward);
        if (c.gradient && !c.replaces_copy && back[u] != kNone)
          insert_one(back[u], {elements, !c.to_float, c.weight, event}, Phase::kBackward);
      }
      for (const std::int64_t n : cast_.units[u].narrowed) {
        if (back[u] != kNone) insert_one(back[u], {of_the_batch(n), false, false, event}, Phase::kBackward);
      }
    }
  }

 private:
  struct Conversion {
    std::int64_t elements;
    bool to_float, weight;
    std::uint32_t event;  // the operation it is made for
  };

  // Shapes are those of the trace; a what-if before this one may have changed the batch.
  [[nodiscard]] std::int64_t of_the_batch(std::int64_t elements) const {
    return std::llround(static_cast<double>(elements) * m_.pass_samples);
  }

  [[nodiscard]] bool recurrent(std::uint32_t event) const {
    if (m_.trace == nullptr || event >= m_.trace->size()) return false;
    const std::string_view name = m_.trace->name(event);
    return name.starts_with("aten::lstm") || name.starts_with("aten::gru") || name.starts_with("aten::rnn_") ||
           name.starts_with("aten::_cudnn_rnn");
  }

  // In front of `task` in the forward pass, behind it in the backward pass.
  void insert_one(std::uint32_t task, const Conversion& c, Phase phase) {
    const bool forward = phase == Phase::kForward;
    const Place at = forward ? place_before(m_.graph, task) : place_behind(m_.graph, task);
    if (!at.known()) return;
    Work work = c.to_float ? cast_work(c.elements, dtype_, Dtype::kFp32) : cast_work(c.elements, Dtype::kFp32, dtype_);
    work.of_parameters = c.weight;
    work.op_event = c.event;
    const hardware::Cost cost = predict(work, m_.device);
    if (!cost.known) return;
    // In the backward pass a cast is a node of autograd's graph. cuDNN's recurrent layers ask for each weight first.
    const double extra_us = !forward                         ? m_.host.eager.node_us
                            : c.weight && recurrent(c.event) ? m_.host.eager.rnn_weight_us
                                                             : 0;
    draft_.insert({.name = "cast",
                   .cost = static_cast<Ns>(cost.ns),
                   .phase = phase,
                   .layer = m_.graph.layer[task],
                   .after = at,
                   .cpu_cost = m_.cpu_time(m_.host.eager.cast_us + extra_us, phase),
                   .work = m_.works.add(work)});
  }

  Model& m_;
  Draft& draft_;
  const Dataflow& flow_;
  const Autocast& cast_;
  const CastPlaces& places_;
  Dtype dtype_;
};

}  // namespace

bool change_precision(Model& m, Draft& draft, const Row& row, Precision precision, Dtype dtype) {
  const Work work = m.works[row.work];
  if (precision == Precision::kFloat) return false;
  const auto* driver = std::get_if<work::MemoryCopy>(&work.kind);
  const bool copy = driver != nullptr && !driver->host && precision == Precision::kHalf;
  // Products of FP32 operands, whatever they are multiplied in.
  if (work.dtype != Dtype::kFp32 && work.dtype != Dtype::kTf32 && !copy) return false;
  Work becomes = with_dtype(work, dtype);
  if (copy) {  // made by the driver, which knows bytes only
    becomes = work;
    for (double* bytes : {&becomes.bytes_read, &becomes.bytes_written, &becomes.fixed_read, &becomes.fixed_written})
      *bytes /= 2;
    becomes.elements /= 2;
  }
  if (precision == Precision::kMixed) {
    // One operand in two is half, three quarters of the bytes by definition; but no vectorised loads.
    becomes = work;
    const bool even = work.access == Access::kContiguous || work.access == Access::kMixed;
    becomes.access = even ? Access::kMixed : Access::kMixedStrided;
    becomes.bytes_read = work.fixed_read + 0.75 * (work.bytes_read - work.fixed_read);
  }
  const hardware::Cost cost = rescale_row(m, row, becomes);
  if (!cost.known) return false;
  set_row(m, draft, row, cost, becomes);
  return precision == Precision::kHalf;
}

void insert_casts(Model& model, Draft& draft, const Dataflow& flow, const Autocast& cast, const CastPlaces& places,
                  Dtype dtype) {
  CastInserter(model, draft, flow, cast, places, dtype).insert();
}

void insert_weight_cast(Model& m, Draft& draft, const Row& product, Dtype dtype) {
  const Work& work = m.works[product.work];
  const std::int64_t elements = work.weight_elements;
  const Place at = place_before(m.graph, product.tasks.front());
  if (elements <= 0 || !at.known()) return;
  Work cast = work::cast_work(elements, Dtype::kFp32, dtype);
  cast.of_parameters = true;
  const hardware::Cost cost = predict(cast, m.device);
  if (!cost.known) return;
  draft.insert({.name = "cast",
                .cost = static_cast<Ns>(cost.ns * times_run(m, product)),
                .phase = Phase::kForward,
                .layer = m.graph.layer[product.tasks.front()],
                .after = at,
                .work = m.works.add(cast)});
}

void insert_grad_scaler(Model& m, Draft& draft, std::uint32_t last_backward) {
  const Graph& g = m.graph;
  const std::uint32_t join = end_of_backward(g);
  // Gradients another thread computes behind that (a second pass) are not checked here.
  const bool known = join != kNone && last_backward != kNone;
  const std::uint32_t behind = known ? first_behind(g, join)[g.lane[last_backward]] : 0;
  if (!known || behind == g.lanes[g.lane[last_backward]].begin) {
    m.not_modelled.emplace_back("the gradient scaler's synchronisation");
    return;
  }
  const Work work = work::optimizer_work(m.parameter_elements, 4, 4, std::max<std::int64_t>(2, m.parameter_tensors));
  const hardware::Cost cost = predict(work, m.device);
  const double launches =
      list_launches(1, static_cast<double>(m.parameter_tensors), static_cast<double>(m.parameter_elements));
  Place at{.cpu = draft.insert_cpu(join, "gradient scaler", m.cpu_time(m.host.eager.scaler_us, Phase::kOptimizer),
                                   Phase::kOptimizer),
           .gpu = std::min(last_backward, behind - 1)};
  for (int i = 0; i < static_cast<int>(launches); ++i) {
    at = draft.insert({.name = "unscale and check gradients",
                       .cost = static_cast<Ns>(cost.ns / launches),
                       .phase = Phase::kOptimizer,
                       .after = at,
                       .cpu_cost = m.cpu_time(m.host.eager.op_us, Phase::kOptimizer)});
  }
  draft.insert_read_back(at, "found_inf.item()");
}

}  // namespace foretrace::whatif
