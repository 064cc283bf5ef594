#include "whatif/model/step_facts.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "graph/call_roles.hpp"
#include "whatif/model/backward_end.hpp"
#include "whatif/model/graph_facts.hpp"
#include "whatif/model/op_chains.hpp"
#include "work/op_names.hpp"

namespace foretrace::whatif {

namespace {

using graph::Graph;
using graph::Phase;
using graph::TaskKind;
using work::Family;
using work::Work;

// Updates that do all their arithmetic in one kernel: PyTorch's, Apex's and DeepSpeed's, and a compiled one.
const std::initializer_list<std::string_view> kFusedUpdates = {"_fused_adam", "_fused_sgd", "_fused_adagrad",
                                                               "FusedAdam",   "FusedSgd",   "FusedAdagrad",
                                                               "AdamFunctor", "LAMBStage",  "triton_for_fused"};
// Lists of tensors also clip gradients and zero them; only an update adds to parameters or averages its states.
const std::initializer_list<std::string_view> kForeachUpdates = {"_foreach_add", "_foreach_lerp", "_foreach_sub",
                                                                 "_foreach_addc"};
const std::initializer_list<std::string_view> kForeachKernels = {"PointwiseOpScalar", "TernaryOpScalar"};

// What no derivative formula calls: in a backward pass it is the forward pass run again.
bool only_forward(std::string_view op) {
  constexpr std::array<std::string_view, 19> kNames = {
      "aten::linear",         "aten::conv1d",     "aten::conv2d",
      "aten::conv3d",         "aten::layer_norm", "aten::native_layer_norm",
      "aten::batch_norm",     "aten::group_norm", "aten::native_group_norm",
      "aten::rms_norm",       "aten::dropout",    "aten::native_dropout",
      "aten::gelu",           "aten::silu",       "aten::relu",
      "aten::relu_",          "aten::embedding",  "aten::scaled_dot_product_attention",
      "aten::_fused_rms_norm"};
  return std::find(kNames.begin(), kNames.end(), op) != kNames.end();
}

class FactFinder {
 public:
  explicit FactFinder(const Model& m) : m_(m), g_(m.graph) {}

  StepFacts run() {
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (graph::is_gpu(g_.kind[t])) task(t);
    }
    products();
    look_for_recomputation();
    f_.passes = passes();
    f_.compiled = f_.compiled || compiled_regions();
    f_.graphs = in_graphs_ > 0;
    f_.graphed = f_.graphs && launched_alone_ * 10 <= in_graphs_;
    f_.offloads = to_host_ >= kFewestCopies && from_host_ >= kFewestCopies;
    return f_;
  }

 private:
  static constexpr std::size_t kFewestCopies = 4;  // one or two may be anything: a batch, a loss

  void task(std::uint32_t t) {
    const std::string_view name = g_.task_name(t);
    const bool known = g_.launch[t].valid();
    if (known && graph::is_graph_launch(g_.task_name(g_.launch[t].index()))) {
      ++in_graphs_;
    } else if (known && g_.kind[t] == TaskKind::kKernel && g_.phase[t] != Phase::kData) {
      ++launched_alone_;
    }
    if (g_.kind[t] == TaskKind::kMemcpy) {
      to_host_ += contains(name, "DtoH") && g_.phase[t] == Phase::kForward ? 1u : 0u;
      from_host_ += contains(name, "HtoD") && g_.phase[t] == Phase::kBackward ? 1u : 0u;
    }
    if (g_.kind[t] == TaskKind::kCollective) collective(t, name);
    if (g_.kind[t] != TaskKind::kKernel) return;
    f_.compiled = f_.compiled || (work::is_generated_kernel(name) && contains(name, "_fused_"));
    const bool for_op = g_.op[t].valid() && !m_.trace->name(g_.op[t].index()).empty();
    const Update op = for_op ? update_of_op(g_.op[t].index()) : Update{};
    const Update kernel = update_of_kernel(t);
    if (op.fused || kernel.fused) f_.fused_update = true;
    if (g_.phase[t] != Phase::kOptimizer && for_op) return;
    if (op.foreach || (!for_op && kernel.foreach)) f_.foreach_update = true;
  }

  /// What a name says of an update. Names repeat, and each is looked at once.
  struct Update {
    bool known = false, fused = false, foreach = false;
  };
  Update update_of_kernel(std::uint32_t t) {
    if (of_kernel_.empty()) of_kernel_.resize(g_.strings.size());
    Update& u = of_kernel_[g_.name[t].index()];
    if (u.known) return u;
    const std::string_view name = g_.task_name(t);
    const bool lists = contains(name, "multi_tensor_apply") || name.starts_with("triton_for_");
    u = {true, lists && contains_any(name, kFusedUpdates), lists && contains_any(name, kForeachKernels)};
    return u;
  }
  Update update_of_op(std::size_t event) {
    if (of_op_.empty()) of_op_.resize(m_.trace->strings.size());
    Update& u = of_op_[m_.trace->events.name[event].index()];
    if (u.known) return u;
    const std::string_view name = m_.trace->name(event);
    u = {true, contains_any(name, kFusedUpdates), contains_any(name, kForeachUpdates)};
    return u;
  }

  // Gradients travel in what is started behind the forward pass.
  void collective(std::uint32_t t, std::string_view name) {
    if (!g_.event[t].valid() || !g_.launch[t].valid() || g_.phase[g_.launch[t].index()] == Phase::kForward) return;
    const trace::CollectiveInfo* info = m_.trace->args.collective(m_.trace->events.args[g_.event[t].index()]);
    std::int64_t workers = info != nullptr ? info->group_size : trace::kAbsent;
    if (workers < 2) workers = m_.trace->distributed.world_size;
    if (workers < 2) return;
    f_.workers = std::max(f_.workers, static_cast<std::size_t>(workers));
    const bool divided = contains(name, "ReduceScatter") || contains(name, "AllGather");
    f_.sharded = f_.sharded || divided;
    const std::string_view type =
        info != nullptr && info->dtype.valid() ? m_.trace->strings[info->dtype] : std::string_view();
    const bool half = type == "Half" || type == "BFloat16" || contains(name, "_f16") || contains(name, "_bf16");
    f_.half_gradients = f_.half_gradients || (half && !divided);
    if (contains(name, "AllReduce")) ++f_.reductions;
  }

  void products() {
    Ns convolutions = 0;
    Ns innermost = 0;  // of them, with channels innermost
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      const std::uint32_t row = m_.works.row_of(t);
      if (row == kNone || !graph::is_gpu(g_.kind[t])) continue;
      const Work& w = m_.works[row];
      if (w.family == Family::kAttention) f_.fused_attention = true;
      if (!is_product(w) || w.family == Family::kAttention) continue;
      const bool cudnn = is_conv(w) || w.family == Family::kRnn;
      if (w.family != Family::kRnn && is_half(w.dtype)) f_.half_products = true;
      if (w.dtype == work::Dtype::kTf32) (cudnn ? f_.tf32_convolutions : f_.tf32_products) = true;
      if (!is_conv(w)) continue;
      convolutions += g_.cost[t];
      if (channels_last(w)) innermost += g_.cost[t];
    }
    f_.channels_last = convolutions > 0 && innermost >= convolutions / 1000 * 999;
  }

  void look_for_recomputation() {
    if (m_.trace == nullptr || m_.chains == nullptr) return;
    const std::vector<std::uint32_t> again = recomputed_tasks(*m_.trace, g_, *m_.chains);
    f_.recomputes = !again.empty();
    for (const std::uint32_t t : again) {
      if (!g_.layer[t].valid()) continue;
      const graph::Layer& layer = g_.layers[g_.layer[t].index()];
      if (!layer.synthetic) f_.recomputed.emplace(g_.strings[layer.name]);
    }
  }

  // Backward passes that end on the main thread between two updates, where each has a forward pass like the others'. (Two losses
  // of two networks are no accumulation.)
  [[nodiscard]] std::size_t passes() const {
    const graph::GraphLane& main = g_.lanes[g_.main_lane];
    const std::set<std::uint32_t> ends = backward_ends(g_);
    std::size_t most = 1;
    std::vector<std::size_t> launches = {0};  // of forward passes since the last update
    for (std::uint32_t t = main.begin; t < main.end; ++t) {
      if (ends.contains(t)) {
        launches.push_back(0);
      } else if (g_.kind[t] == TaskKind::kCall && g_.phase[t] == Phase::kForward) {
        ++launches.back();
      } else if (g_.kind[t] == TaskKind::kCall && g_.phase[t] == Phase::kOptimizer) {
        most = std::max(most, equal_passes(launches));
        launches = {0};
      }
    }
    return std::max(most, equal_passes(launches));
  }

  static std::size_t equal_passes(std::vector<std::size_t> launches) {
    constexpr std::size_t kFewestLaunches = 4;
    launches.pop_back();  // what follows the last pass is none
    if (launches.size() < 2) return 1;
    const auto [least, most] = std::minmax_element(launches.begin(), launches.end());
    return *least >= kFewestLaunches && *least * 10 >= *most * 9 ? launches.size() : 1;
  }

  [[nodiscard]] bool compiled_regions() const {
    if (m_.trace == nullptr) return false;
    const StringTable& names = m_.trace->strings;
    for (std::uint32_t i = 0; i < names.size(); ++i) {
      const std::string_view name = names[StringId{i}];
      if (name.starts_with("Torch-Compiled Region") || name.starts_with("CompiledFunction")) return true;
    }
    return false;
  }

  const Model& m_;
  const Graph& g_;
  StepFacts f_;
  std::vector<Update> of_kernel_, of_op_;           // by name, of the graph and of the trace
  std::size_t to_host_ = 0, from_host_ = 0;         // copies
  std::size_t in_graphs_ = 0, launched_alone_ = 0;  // GPU tasks
};

}  // namespace

std::vector<std::uint32_t> recomputed_tasks(const trace::Trace& trace, const Graph& g, const OpChains& chains) {
  // The derivatives of products are mm and bmm. Only gradients written by hand call matmul: it shows nothing by itself, and is
  // the forward pass where layers around it run again.
  const auto runs_forward = [&](std::uint32_t op, bool matmul_too) {
    for (; op != kNone; op = chains.around(op)) {
      if (only_forward(trace.name(op)) || (matmul_too && trace.name(op) == "aten::matmul")) return true;
    }
    return false;
  };
  const auto tasks_again = [&](bool matmul_too) {
    std::vector<std::uint32_t> again;
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      if (!graph::is_gpu(g.kind[t]) || g.phase[t] != Phase::kBackward || !g.op[t].valid()) continue;
      if (runs_forward(g.op[t].value, matmul_too)) again.push_back(t);
    }
    return again;
  };
  std::size_t forward = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) && g.phase[t] == Phase::kForward) ++forward;
  }
  // A gradient written by hand may compute a cheap tensor again; a checkpoint runs layers.
  const std::size_t layers_again = tasks_again(false).size();
  if (layers_again == 0 || layers_again * 10 < forward) return {};
  return tasks_again(true);
}

bool recomputes(const StepFacts& has, std::string_view module) {
  return std::any_of(has.recomputed.begin(), has.recomputed.end(), [&](std::string_view layer) {
    return layer.starts_with(module) && (layer.size() == module.size() || layer[module.size()] == '.');
  });
}

std::shared_ptr<const StepFacts> GraphFacts::step(const Model& model) const {
  std::call_once(step_found_, [&] { step_ = std::make_shared<const StepFacts>(FactFinder(model).run()); });
  return step_;
}

std::shared_ptr<const StepFacts> step_facts(const Model& model) {
  return model.facts ? model.facts->step(model) : std::make_shared<const StepFacts>(FactFinder(model).run());
}

std::function<std::string(const Model&, const Parameters&)> if_step_has(bool StepFacts::* fact, std::string sentence) {
  return [fact, sentence = std::move(sentence)](const Model& model, const Parameters&) {
    return (*step_facts(model)).*fact ? sentence : std::string();
  };
}

}  // namespace foretrace::whatif
