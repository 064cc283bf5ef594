// Reads how a step is run from its kernels and operations, since no trace states it.

#include "compare/traits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "compare/profile.hpp"
#include "foretrace/trace/trace.hpp"
#include "graph/call_roles.hpp"
#include "ranks/collectives.hpp"
#include "trace/communication.hpp"
#include "trace/ranges.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/model/step_facts.hpp"
#include "work/op_names.hpp"

namespace foretrace::compare {
namespace {

using graph::Phase;
using graph::TaskKind;
using work::Dtype;
using work::Family;

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

class Reader {
 public:
  Reader(const trace::Trace& trace, const trace::Step& step, const graph::Graph& graph, const work::Works& works)
      : t_(trace), step_(step), g_(graph), works_(works) {}

  Traits read() {
    std::set<std::uint32_t> counted;
    for (std::uint32_t k = 0; k < g_.size(); ++k) {
      if (graph::is_gpu(g_.kind[k])) {
        gpu_task(k);
        const work::Work* w = works_.of(k);
        if (w != nullptr && w->op_event != kNone && counted.insert(w->op_event).second) operation(k, *w);
      } else if (g_.kind[k] == TaskKind::kCall || g_.kind[k] == TaskKind::kCpu) {
        cpu_task(k);
      }
    }
    finish();
    events();
    return std::move(out_);
  }

 private:
  void gpu_task(std::uint32_t k) {
    const auto ns = static_cast<double>(g_.cost[k]);
    const std::string_view name = g_.task_name(k);
    const work::Work* w = works_.of(k);
    all_ns_ += ns;
    ++tasks_;
    if (g_.launch[k].valid() && graph::is_graph_launch(g_.task_name(g_.launch[k].index()))) ++graphed_;
    if (work::is_generated_kernel(name)) compiled_ns_ += ns;
    if (g_.kind[k] == TaskKind::kCollective && g_.event[k].valid()) collective(g_.event[k].value);
    if (g_.kind[k] == TaskKind::kMemcpy &&
        (holds(name, "DtoH") || holds(name, "HtoD") || holds(name, "Device to Host"))) {
      if (const trace::CopyIds* copy = g_.event[k].valid() ? t_.copy(g_.event[k].index()) : nullptr) {
        if (copy->bytes > 0) out_.host_copy_bytes += static_cast<double>(copy->bytes);
      }
    }
    const Family family = w != nullptr ? w->family : work::family_of_kernel(name);
    if (family == Family::kAttention) out_.attention_ns += ns;
    if (g_.phase[k] == Phase::kOptimizer) update(k, ns);
    if (family == Family::kGemm || family == Family::kConvForward || family == Family::kConvDataGrad ||
        family == Family::kConvWeightGrad || family == Family::kRnn) {
      const bool shaped = w != nullptr && w->has_shape() && w->flops > 0 && w->kernels > 0;
      const Dtype dtype = shaped ? w->dtype : work::is_tf32_kernel(name) ? Dtype::kTf32 : work::dtype_of_kernel(name);
      const double weight = shaped ? w->flops / w->kernels : 0;
      by_flops_[static_cast<std::size_t>(dtype)] += weight;
      by_time_[static_cast<std::size_t>(dtype)] += ns;
      if (w != nullptr && work::is_conv(*w) && shaped && !work::is_depthwise(*w)) {
        conv_ns_ += weight;
        if (work::channels_last(*w)) last_ns_ += weight;
      }
    }
    if (op_of(k) == "aten::_scaled_mm") out_.fp8_ns += ns;
  }

  [[nodiscard]] std::string_view op_of(std::uint32_t k) const {
    return g_.op[k].valid() && t_.kind(g_.op[k].index()) != trace::EventKind::kRuntime ? t_.name(g_.op[k].index())
                                                                                       : std::string_view();
  }

  // Unscaling, clearing and clipping of gradients are not the update.
  void update(std::uint32_t k, double ns) {
    const std::string_view op = op_of(k);
    if (op.empty() || holds(op, "_amp_") || holds(op, "zero") || holds(op, "norm")) return;
    (holds(op, "_fused_") ? fused_ns_ : holds(op, "_foreach_") ? foreach_ns_ : loop_ns_) += ns;
  }

  void collective(std::uint32_t e) {
    const std::string kind(to_string(ranks::recorded_collective(t_, e).kind));
    out_.collectives[kind] += 1;
    if (const trace::CollectiveInfo* info = t_.args.collective(t_.events.args[e])) {
      if (info->dtype.valid()) out_.collective_types[kind] = std::string(t_.strings[info->dtype]);
      if (info->group_size > 0) out_.world = std::max(out_.world, info->group_size);
    }
  }

  void recomputation() {
    std::size_t forward = 0;
    for (std::size_t k = 0; k < g_.size(); ++k) {
      forward += graph::is_gpu(g_.kind[k]) && g_.phase[k] == Phase::kForward ? 1 : 0;
    }
    const std::vector<std::uint32_t> again = whatif::recomputed_tasks(t_, g_, whatif::OpChains(t_));
    if (forward > 0) out_.recomputed = static_cast<double>(again.size()) / static_cast<double>(forward);
  }

  void operation(std::uint32_t k, const work::Work& w) {
    const std::string_view op = t_.name(w.op_event);
    if (g_.phase[k] != Phase::kForward || w.of_parameters || w.backward || !w.has_shape()) return;
    const std::string_view layer = g_.layer[k].valid() && !g_.layers[g_.layer[k].index()].synthetic
                                       ? g_.strings[g_.layers[g_.layer[k].index()].name]
                                       : std::string_view();
    if (!work::is_product(w)) return;
    Traits::Size& size = out_.sizes[fmt::format("{}|{}", layer, op)];
    size.calls += 1;
    size.elements += w.flops > 0 ? w.flops : static_cast<double>(w.elements);
  }

  void cpu_task(std::uint32_t k) {
    if (holds(op_of(k), "_amp_foreach_non_finite_check")) out_.loss_scaling += 1;
  }

  void finish() {
    const auto sum = [](const auto& parts) {
      double all = 0;
      for (const double part : parts) all += part;
      return all;
    };
    const auto& by = sum(by_flops_) > 0 ? by_flops_ : by_time_;
    const double known = sum(by) - by[static_cast<std::size_t>(Dtype::kOther)];
    if (known > 0 && known > 0.3 * sum(by)) {
      const auto most = static_cast<std::size_t>(std::max_element(by.begin(), by.end()) - by.begin());
      out_.precision = static_cast<Dtype>(most);
      out_.half_share =
          (by[static_cast<std::size_t>(Dtype::kFp16)] + by[static_cast<std::size_t>(Dtype::kBf16)]) / known;
      out_.tf32_share = by[static_cast<std::size_t>(Dtype::kTf32)] / known;
    }
    const double updates = fused_ns_ + foreach_ns_ + loop_ns_;
    if (updates > 0) {
      out_.update = fused_ns_ > 0.3 * updates     ? Traits::Update::kFused
                    : foreach_ns_ > 0.3 * updates ? Traits::Update::kForeach
                                                  : Traits::Update::kLoop;
    }
    if (conv_ns_ > 0) out_.channels_last = last_ns_ / conv_ns_;
    recomputation();
    if (tasks_ > 0) out_.graph_share = graphed_ / tasks_;
    if (all_ns_ > 0) out_.compiled_share = compiled_ns_ / all_ns_;
  }

  // What no task shows: ranges of loaders and optimizers, and what was recorded at all.
  void events() {
    if (t_.distributed.present && t_.distributed.world_size > 0) out_.world = t_.distributed.world_size;
    for (const graph::Layer& layer : g_.layers) out_.layer_ranges |= !layer.synthetic;
    for (std::size_t e = 0; e < t_.size(); ++e) {
      const trace::EventKind kind = t_.kind(e);
      if (t_.end(e) < step_.start || t_.events.start[e] > step_.end) continue;
      if (kind == trace::EventKind::kPython) out_.python_frames = true;
      if (kind == trace::EventKind::kOp && !out_.shapes) {
        const trace::OpInputs* inputs = t_.args.inputs(t_.events.args[e]);
        out_.shapes = inputs != nullptr && inputs->dims.valid();
      }
      if (kind != trace::EventKind::kAnnotation && kind != trace::EventKind::kOp) continue;
      const std::string_view name = t_.name(e);
      constexpr std::string_view kOptimizer = "Optimizer.step#";
      if (name.starts_with(kOptimizer)) {
        const std::string_view rest = name.substr(kOptimizer.size());
        out_.optimizer = std::string(rest.substr(0, rest.find('.')));
      }
      const trace::LoaderRange loader = trace::loader_range(name);
      if (loader == trace::LoaderRange::kWaitsForWorkers) out_.loader = "in worker processes";
      if (loader == trace::LoaderRange::kLoads && out_.loader.empty()) out_.loader = "in the main process";
    }
  }

  const trace::Trace& t_;
  const trace::Step& step_;
  const graph::Graph& g_;
  const work::Works& works_;
  Traits out_;
  std::array<double, work::kDtypes> by_flops_ = {}, by_time_ = {};
  double all_ns_ = 0, compiled_ns_ = 0, conv_ns_ = 0, last_ns_ = 0, tasks_ = 0, graphed_ = 0;
  double fused_ns_ = 0, foreach_ns_ = 0, loop_ns_ = 0;
};

}  // namespace

Traits traits_of(const trace::Trace& trace, const trace::Step& step, const graph::Graph& graph,
                 const work::Works& works) {
  return Reader(trace, step, graph, works).read();
}

}  // namespace foretrace::compare
