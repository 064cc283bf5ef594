#include "graph/gpu_layers.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "graph/call_roles.hpp"
#include "trace/compiled_op.hpp"

namespace foretrace::graph {

LayerId LayerNames::of(std::string_view name, std::string_view type, bool synthetic) {
  std::string key(name);
  key += '\x1f';
  key += type;
  const auto [it, inserted] = known_.try_emplace(std::move(key), LayerId{g_.layers.size()});
  if (inserted) g_.layers.push_back({g_.strings.intern(name), g_.strings.intern(type), synthetic});
  return it->second;
}

namespace {

// "at::native::reduce" of "void at::native::(anonymous namespace)::reduce<4>(int*)"; what is no signature stays as it is.
std::string kernel_family(std::string_view name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  constexpr std::string_view kVoid = "void ";
  if (name.starts_with(kVoid)) name.remove_prefix(kVoid.size());
  std::string out(name);
  for (std::size_t at = out.find(kAnonymous); at != std::string::npos; at = out.find(kAnonymous, at)) {
    out.erase(at, kAnonymous.size());
  }
  out.resize(std::min(out.size(), out.find_first_of("<(")));
  while (out.ends_with(' ')) out.pop_back();
  return out.empty() ? std::string(name) : out;
}

class GpuLayers {
 public:
  GpuLayers(const trace::Trace& trace, Graph& graph, LayerNames& names) : t_(trace), g_(graph), names_(names) {}

  void run() {
    for (const GraphLane& lane : g_.lanes) {
      if (lane.kind == GraphLaneKind::kGpu) assign_gpu(lane);
    }
    assign_cuda_graphs();
    assign_compiled();
  }

 private:
  void assign_gpu(const GraphLane& lane) {
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      if (g_.launch[t].valid()) {
        g_.phase[t] = g_.phase[g_.launch[t].index()];
        g_.layer[t] = g_.layer[g_.launch[t].index()];
      }
      if (g_.kind[t] == TaskKind::kCollective) {
        g_.phase[t] = Phase::kCommunication;
        g_.layer[t] = names_.of("(communication)", "", true);
      } else if (g_.kind[t] == TaskKind::kMemcpy && (g_.phase[t] == Phase::kForward || g_.phase[t] == Phase::kOther)) {
        const std::string_view name = g_.task_name(t);
        if (contains(name, "HtoD") || contains(name, "DtoH")) {
          g_.phase[t] = Phase::kData;
          g_.layer[t] = names_.of("(data)", "", true);
        }
      }
    }
  }

  // Kernels of a CUDA graph share one launch, so host ranges say nothing about them. Their names tell where backward
  // begins and ends; a guess that nothing in the trace can confirm.
  void assign_cuda_graphs() {
    std::vector<std::uint32_t> tasks;
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (is_gpu(g_.kind[t]) && g_.launch[t].valid() && is_graph_launch(g_.task_name(g_.launch[t].index()))) {
        tasks.push_back(t);
      }
    }
    if (tasks.empty()) return;
    std::sort(tasks.begin(), tasks.end(), [&](std::uint32_t a, std::uint32_t b) {
      return g_.measured[a] != g_.measured[b] ? g_.measured[a] < g_.measured[b] : a < b;
    });
    const auto backward = [&](std::uint32_t t) {
      const std::string_view name = g_.task_name(t);
      for (const std::string_view word : {"backward", "Backward", "bprop", "dgrad", "wgrad"}) {
        if (name.find(word) != std::string_view::npos) return true;
      }
      return false;
    };
    const auto first = std::find_if(tasks.begin(), tasks.end(), backward);
    const auto last = std::find_if(tasks.rbegin(), tasks.rend(), backward).base();
    for (auto it = tasks.begin(); it != tasks.end(); ++it) {
      g_.phase[*it] = it < first ? Phase::kForward : it < last ? Phase::kBackward : Phase::kOptimizer;
      g_.layer[*it] = names_.of(kernel_family(g_.task_name(*it)), "", true);
    }
  }

  // What the program's compiler recorded about its kernels holds, wherever they were launched.
  void assign_compiled() {
    struct Place {
      bool known = false;
      Phase phase = Phase::kOther;
      LayerId layer;
    };
    std::unordered_map<std::uint32_t, Place> places;  // by argument tuple
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (!is_gpu(g_.kind[t]) || !g_.event[t].valid()) continue;
      const ArgsId args = t_.events.args[g_.event[t].index()];
      if (!args.valid()) continue;
      const auto [it, inserted] = places.try_emplace(args.value);
      if (const auto op = inserted ? trace::compiled_op(t_, args) : std::nullopt) {
        it->second.known = true;
        it->second.phase = op->family == "collective" ? Phase::kCommunication
                           : op->phase == "backward"  ? Phase::kBackward
                           : op->phase == "optimizer" ? Phase::kOptimizer
                                                      : Phase::kForward;
        if (it->second.phase == Phase::kCommunication) {
          it->second.layer = names_.of("(communication)", "", true);
        } else if (it->second.phase == Phase::kOptimizer) {
          it->second.layer = names_.of("(optimizer)", "", true);
        } else if (op->layer.empty()) {
          it->second.layer = names_.of(kernel_family(g_.task_name(t)), "", true);
        } else {
          it->second.layer = names_.of(op->layer, "", op->layer.starts_with('('));
        }
      }
      if (!it->second.known) continue;
      g_.phase[t] = it->second.phase;
      g_.layer[t] = it->second.layer;
    }
  }

  const trace::Trace& t_;
  Graph& g_;
  LayerNames& names_;
};

}  // namespace

void assign_gpu_layers(const trace::Trace& trace, Graph& graph, LayerNames& names) {
  GpuLayers(trace, graph, names).run();
}

}  // namespace foretrace::graph
