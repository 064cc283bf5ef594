// One row per operation that launched GPU work: its arguments give the sizes, its kernels the rest.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/text.hpp"
#include "foretrace/work/work.hpp"
#include "work/conv_parts.hpp"
#include "work/conv_unsaid.hpp"
#include "work/describe_compiled.hpp"
#include "work/describe_op.hpp"

namespace foretrace::work {

namespace {

using graph::Graph;
using graph::TaskKind;

class Describer {
 public:
  Describer(const trace::Trace& trace, const Graph& graph) : trace_(trace), g_(graph) {}

  Works run() {
    works_.of_task.resize(g_.size(), kNone);
    for (const graph::GraphLane& lane : g_.lanes) {
      if (lane.kind != graph::GraphLaneKind::kGpu) continue;
      const std::uint32_t part =
          std::max<std::uint32_t>(1, (lane.end - lane.begin) / std::max<std::uint32_t>(1, g_.copies));
      for (std::uint32_t t = lane.begin; t < lane.end; ++t) place(t, (t - lane.begin) / part);
    }
    place_compiled();
    for (Group& group : groups_) describe(group);
    for (const CompiledGroup& group : compiled_groups_) assign(group.tasks, describe_compiled(*group.op));
    take_sizes_from_gradients(works_, trace_);
    find_layout(works_, trace_, g_);
    find_weight_gradients();
    spread_tuning();
    return std::move(works_);
  }

 private:
  struct Group {
    std::uint32_t op;
    std::vector<std::uint32_t> tasks;
  };

  struct CompiledTask {
    std::uint32_t copy;
    Ns start;
    std::uint32_t task;
    const trace::CompiledOp* op;
  };

  struct CompiledGroup {
    const trace::CompiledOp* op;
    std::vector<std::uint32_t> tasks;
  };

  // Operations and argument tuples repeat; each distinct pair is read once.
  struct Template {
    OpClass what;
    Work work;
    bool wants_data = true, wants_weight = true;  // convolution's backward
  };

  std::string_view kernel(std::uint32_t t) const { return g_.task_name(t); }

  void place(std::uint32_t t, std::uint32_t copy) {
    if (!graph::is_gpu(g_.kind[t])) return;
    if (is_compiled(t, copy)) return;
    const EventId op = g_.op[t];
    if (g_.kind[t] == TaskKind::kCollective || !op.valid()) {
      alone(t, op);
      return;
    }
    const std::uint64_t key = (static_cast<std::uint64_t>(copy) << 32) | op.value;
    const auto [it, added] = by_op_.try_emplace(key, static_cast<std::uint32_t>(groups_.size()));
    if (added) groups_.push_back({op.value, {}});
    groups_[it->second].tasks.push_back(t);
  }

  bool is_compiled(std::uint32_t t, std::uint32_t copy) {
    if (!g_.event[t].valid()) return false;
    const ArgsId args = trace_.events.args[g_.event[t].index()];
    if (!args.valid()) return false;
    const auto [it, added] = compiled_.try_emplace(args.value);
    if (added) it->second = trace::compiled_op(trace_, args);
    if (!it->second) return false;
    compiled_tasks_.push_back({copy, g_.measured[t], t, &*it->second});
    return true;
  }

  // Where a compiler says what a kernel computes, one row per operation of its program: the kernels that follow the first
  // one share it, on whatever stream.
  void place_compiled() {
    std::stable_sort(compiled_tasks_.begin(), compiled_tasks_.end(), [](const CompiledTask& a, const CompiledTask& b) {
      return std::tie(a.copy, a.start) < std::tie(b.copy, b.start);
    });
    std::map<std::pair<std::uint32_t, std::string_view>, std::uint32_t> open;  // copy, operation -> group
    for (const CompiledTask& c : compiled_tasks_) {
      const auto [group, first] = open.try_emplace({c.copy, c.op->operation}, 0U);
      if (first || c.op->part == 0) {
        group->second = static_cast<std::uint32_t>(compiled_groups_.size());
        compiled_groups_.push_back({c.op, {}});
      }
      compiled_groups_[group->second].tasks.push_back(c.task);
    }
  }

  // Shapes without types (NVTX ranges carry none): the type is that of the longest kernel, by its name.
  std::string_view untyped(const Group& group) const {
    const trace::OpInputs* inputs = trace_.args.inputs(trace_.events.args[group.op]);
    if (inputs == nullptr || inputs->types.valid()) return {};
    Dtype seen = Dtype::kOther;
    Ns longest = -1;
    for (const std::uint32_t t : group.tasks) {
      if (g_.cost[t] <= longest || dtype_of_kernel(kernel(t)) == Dtype::kOther) continue;
      longest = g_.cost[t];
      seen = dtype_of_kernel(kernel(t));
    }
    if (seen == Dtype::kFp16) return "c10::Half";
    if (seen == Dtype::kBf16) return "c10::BFloat16";
    return seen == Dtype::kFp64 ? "double" : "float";
  }

  const Template& look_up(const Group& group) {
    const std::uint32_t op = group.op;
    const StringId name = trace_.events.name[op];
    const ArgsId args = trace_.events.args[op];
    const std::string_view type = untyped(group);
    const std::uint64_t key = (static_cast<std::uint64_t>(name.value) << 32) | args.value;
    const auto [it, added] = templates_.try_emplace({key, type});
    if (added) {
      Template& t = it->second;
      t.what = classify_op(trace_.strings[name]);
      const OpView view(trace_, args, type);
      t.work = describe_op(t.what, trace_.strings[name], view);
      t.work.op = name;
      if (const std::vector<bool> mask = view.flags(10); t.what.form == Form::kConvBackward && mask.size() == 3) {
        t.wants_data = mask[0];
        t.wants_weight = mask[1];
      }
    }
    return it->second;
  }

  // Gives tasks one row, completed by what their kernels tell.
  void assign(std::span<const std::uint32_t> tasks, Work work) {
    Ns longest = -1;
    bool tensor_cores = false;
    Dtype seen = Dtype::kOther;
    work.kernels = static_cast<std::uint32_t>(tasks.size());
    for (const std::uint32_t t : tasks) {
      if (g_.cost[t] > longest) {
        longest = g_.cost[t];
        seen = dtype_of_kernel(kernel(t));
      }
      tensor_cores = tensor_cores || is_tf32_kernel(kernel(t));
      // Named operations say themselves whether they are gradients; a forward one may run again in the backward pass.
      if (g_.phase[t] == graph::Phase::kBackward && (work.family == Family::kGemm || !work.op.valid()))
        work.backward = true;
      if (g_.phase[t] == graph::Phase::kOptimizer &&
          (work.family == Family::kElementwise || work.family == Family::kReduction)) {
        work.become(Family::kOptimizer);
      }
    }
    if (std::holds_alternative<Gather>(work.kind)) {
      for (const std::uint32_t t : tasks) {
        const trace::KernelLaunch* launch = g_.event[t].valid() ? trace_.launch(g_.event[t].index()) : nullptr;
        if (launch != nullptr) describe_index_launch(work, kernel(t), *launch);
      }
    }
    const bool products = is_product(work) && work.family != Family::kAttention;
    if (work.elements == 0 && seen != Dtype::kOther) work.dtype = work.out_dtype = seen;
    if (products && work.dtype == Dtype::kFp32 && tensor_cores) work.dtype = Dtype::kTf32;
    const auto* pointwise = std::get_if<Pointwise>(&work.kind);
    if (work.family == Family::kCopy && pointwise->tensors > 1) opaque_type(work, tasks);
    const std::uint32_t row = works_.add(work);
    for (const std::uint32_t t : tasks) works_.of_task[t] = row;
  }

  // Concatenations are compiled for element sizes, not types: "OpaqueType<2u>".
  void opaque_type(Work& work, std::span<const std::uint32_t> tasks) const {
    for (const std::uint32_t t : tasks) {
      if (!contains(kernel(t), "OpaqueType<2u>")) continue;
      work = with_dtype(work, Dtype::kFp16);
      return;
    }
  }

  void alone(std::uint32_t t, EventId op) {
    const bool collective = g_.kind[t] == TaskKind::kCollective;
    Work work(collective ? Family::kCommunication : family_of_kernel(kernel(t)));
    if (op.valid()) {
      work.op = trace_.events.name[op.index()];
      work.op_event = op.value;
    }
    if (g_.event[t].valid()) {
      if (const trace::CopyIds* copy = trace_.copy(g_.event[t].index()); copy != nullptr && copy->bytes > 0) {
        sized_copy(work, t, copy->bytes);
      }
    }
    const std::uint32_t one[] = {t};
    assign(one, work);
  }

  void sized_copy(Work& work, std::uint32_t t, std::int64_t bytes) const {
    work.elements = bytes;
    work.bytes_written = static_cast<double>(bytes);
    work.bytes_read = g_.kind[t] == TaskKind::kMemset ? 0 : static_cast<double>(bytes);
    work.fixed_read = work.bytes_read;
    work.fixed_written = work.bytes_written;
    // By whatever name.
    if (work.family != Family::kCommunication) work.become(Family::kMemory);
    if (auto* copy = std::get_if<MemoryCopy>(&work.kind)) {
      copy->host = contains(kernel(t), "HtoD") || contains(kernel(t), "DtoH");
    }
  }

  void describe(Group& group) {
    const Template& known = look_up(group);
    Work work = known.work;
    work.op_event = group.op;
    // A host-device copy or a fill by the driver is no kernel of the operation's family.
    const bool only_memory = std::none_of(group.tasks.begin(), group.tasks.end(),
                                          [&](std::uint32_t t) { return g_.kind[t] == TaskKind::kKernel; });
    if (known.what.family == Family::kOther || only_memory) {
      for (const std::uint32_t t : group.tasks) alone(t, EventId{group.op});
      return;
    }
    if (known.what.form != Form::kConvBackward) {
      assign(group.tasks, work);
      return;
    }
    // Launch order: the call's id orders tasks over all streams.
    std::stable_sort(group.tasks.begin(), group.tasks.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return g_.launch[a].value < g_.launch[b].value; });
    std::vector<std::string_view> names;
    names.reserve(group.tasks.size());
    for (const std::uint32_t t : group.tasks) names.push_back(kernel(t));
    const std::vector<ConvPart> parts = conv_parts(names, known.wants_data, known.wants_weight);
    const Family data = work.family == Family::kConvForward ? Family::kConvForward : Family::kConvDataGrad;
    for (const ConvPart part : {ConvPart::kData, ConvPart::kWeight}) {
      std::vector<std::uint32_t> mine;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i] == part) mine.push_back(group.tasks[i]);
      }
      if (mine.empty()) continue;
      work.family = part == ConvPart::kData ? data : Family::kConvWeightGrad;
      if (const auto* conv = std::get_if<Convolution>(&work.kind); conv != nullptr && conv->input[0] > 0) refresh(work);
      assign(mine, work);
    }
  }

  // Whether the library tries its algorithms is a switch of the process, and forward convolutions alone record it.
  void spread_tuning() {
    const bool tuned = std::any_of(works_.rows.begin(), works_.rows.end(), [](const Work& w) {
      const auto* conv = std::get_if<Convolution>(&w.kind);
      return conv != nullptr && conv->tuned;
    });
    if (!tuned) return;
    for (Work& w : works_.rows) {
      if (auto* conv = std::get_if<Convolution>(&w.kind)) conv->tuned = true;
    }
  }

  // A forward product (M x K)(K x N) has two gradients: of the samples, over N, and of the weights, over M. The dimensions
  // are the same three; the one that is summed over shows which it is. Where two are equal the framework's order does:
  // samples first.
  void find_weight_gradients() {
    // A compiled program says itself what is summed over.
    const auto says = [](const CompiledGroup& group) { return group.op->sums_samples; };
    if (std::any_of(compiled_groups_.begin(), compiled_groups_.end(), says)) return;
    std::map<std::array<std::int64_t, 3>, std::int64_t> samples;  // sorted dimensions -> M
    const auto sorted = [](const Gemm& g) {
      std::array<std::int64_t, 3> d{g.m, g.n, g.k};
      std::sort(d.begin(), d.end());
      return d;
    };
    for (const Work& w : works_.rows) {
      const auto* g = std::get_if<Gemm>(&w.kind);
      if (g != nullptr && !w.backward && g->batch == 1 && g->m > 0) samples.try_emplace(sorted(*g), g->m);
    }
    std::map<std::array<std::int64_t, 3>, bool> second;
    for (Work& w : works_.rows) {
      auto* g = std::get_if<Gemm>(&w.kind);
      if (g == nullptr || !w.backward || g->batch != 1 || g->m <= 0) continue;
      const auto it = samples.find(sorted(*g));
      if (it == samples.end() || g->k != it->second) continue;
      const auto& d = it->first;
      const bool ambiguous = std::count(d.begin(), d.end(), it->second) > 1;
      bool& is_second = second[d];
      g->weight_grad = !ambiguous || is_second;
      if (ambiguous) is_second = !is_second;
    }
  }

  const trace::Trace& trace_;
  const Graph& g_;
  Works works_;
  std::vector<Group> groups_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_op_;
  std::map<std::pair<std::uint64_t, std::string_view>, Template> templates_;      // operation and arguments, type
  std::unordered_map<std::uint32_t, std::optional<trace::CompiledOp>> compiled_;  // by argument tuple
  std::vector<CompiledTask> compiled_tasks_;
  std::vector<CompiledGroup> compiled_groups_;
};

}  // namespace

Works describe(const trace::Trace& trace, const graph::Graph& graph) { return Describer(trace, graph).run(); }

}  // namespace foretrace::work
