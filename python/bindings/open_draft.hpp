#pragma once
// A draft while a user's what-if, a Python function, writes into it. What the library takes on trust from its own what-ifs
// is checked here: task ids, kinds of neighbours, costs.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/memory/memory.hpp"
#include "foretrace/whatif/draft.hpp"
#include "foretrace/whatif/model.hpp"

namespace foretrace::python {

using TaskIds = nanobind::ndarray<const std::int64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using EventIds = nanobind::ndarray<const std::uint32_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Numbers = nanobind::ndarray<const double, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

/// What a block of memory holds, in the order of memory::Kind.
inline constexpr std::array<std::string_view, memory::kKinds> kMemoryKinds = {"parameters and states", "gradients",
                                                                              "activations", "temporaries", "input"};

class OpenDraft {
 public:
  OpenDraft(whatif::Model& model, whatif::Draft& draft) : model_(&model), draft_(&draft) {}
  OpenDraft(const OpenDraft&) = delete;
  OpenDraft& operator=(const OpenDraft&) = delete;

  /// The function has returned: writes down its schedule, and turns every later use into an error.
  void finish();
  void close() { draft_ = nullptr; }

  struct Filter {
    std::optional<std::string> kind, phase;
    std::string name, op, layer, after, shape;
    bool gpu = false;
    std::optional<std::uint32_t> lane;
  };
  nanobind::object select(const Filter& filter);
  nanobind::object cost(const TaskIds& tasks);
  graph::Graph* graph();

  void scale(const TaskIds& tasks, const Numbers& factors);
  void set(const TaskIds& tasks, const Numbers& costs);
  void remove(const TaskIds& tasks, bool with_launch);
  /// One kernel behind each of `after`; what is not given is taken from the task it follows.
  nanobind::object insert(const std::string& name, const TaskIds& after, const Numbers& costs, std::string_view kind,
                          const std::optional<TaskIds>& cpu_after, const std::optional<Numbers>& cpu_costs,
                          const std::optional<std::string>& phase);
  nanobind::object insert_cpu(const std::string& name, const TaskIds& after, const Numbers& costs);
  std::int64_t insert_wait(const std::string& name, std::int64_t after, const TaskIds& waits_for, double lag);
  std::int64_t add_lane(const std::string& name, std::string_view kind);
  std::int64_t append(std::int64_t lane, const std::string& name, double cost, std::string_view kind,
                      std::string_view phase);
  void depend(const TaskIds& from, const TaskIds& to, double lag, std::string_view kind);
  void schedule(const TaskIds& tasks, const Numbers& priorities);
  void not_modelled(std::string text);
  /// Names of operations by their events, as Graph::op has them.
  nanobind::list op_names(const EventIds& events);
  /// So many times as many samples in a step.
  void scale_batch(double factor);

  // The memory of the step (open_draft_memory.cpp). Blocks are named by their place in the curve.
  bool has_memory();
  nanobind::object memory_column(std::string_view name);
  std::int64_t memory_peak();
  nanobind::object memory_select(const std::optional<std::string>& kind, const std::optional<std::string>& phase,
                                 const std::string& op, const std::string& layer);
  void memory_scale(const TaskIds& blocks, const Numbers& factors);
  void memory_free(const TaskIds& blocks, const TaskIds& positions);
  void memory_add(std::int64_t bytes, std::string_view kind, std::int64_t allocated, std::optional<std::int64_t> freed);
  void memory_scale_batch(double factor);

 private:
  struct TaskInfo {
    graph::TaskKind kind;
    graph::Phase phase;
    graph::LayerId layer;
    std::uint32_t launch, lane;
  };
  /// The draft, or an error when the function that wrote into it has returned.
  whatif::Draft& draft();
  memory::Curve& memory();
  memory::Block& block(std::int64_t id);
  std::uint32_t task(std::int64_t id);
  whatif::Selection tasks(const TaskIds& ids);
  TaskInfo info(std::uint32_t task);
  std::uint32_t cpu_task(std::int64_t id);
  Ns launch_cost(std::uint32_t after);

  /// Blocks keep their places until the function has returned; then the added ones take theirs.
  void add_blocks();

  whatif::Model* model_;
  whatif::Draft* draft_;
  std::vector<TaskInfo> added_;
  std::vector<memory::Block> added_blocks_;
  std::vector<graph::GraphLaneKind> lanes_added_;
  std::vector<std::pair<std::uint32_t, double>> priorities_;
};

}  // namespace foretrace::python
