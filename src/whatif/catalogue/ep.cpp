#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/sharding/experts.hpp"
#include "whatif/sharding/group.hpp"

namespace foretrace::whatif {
namespace {

using hardware::Collective;

// Tokens to the GPUs that have their experts and back, in both passes.
class Exchanges {
 public:
  Exchanges(const Model& m, Group& group, const std::vector<Row>& rows, const ExpertDivision& d)
      : m_(m), group_(group), d_(d), forward_(d.flow.units.size()), backward_(d.flow.units.size()) {
    for (const Row& row : rows) {
      const std::uint32_t e = m.works[row.work].op_event;
      const std::uint32_t unit = d.unit_of(e);
      if (unit != kNone) (d.flow.unit_of(e) != kNone ? forward_ : backward_)[unit].push_back(&row);
    }
  }

  void add() {
    for (const ExpertLayer& layer : d_.experts.layers) {
      std::vector<const Row*> ahead, back;
      for (const std::uint32_t u : layer.first) {
        ahead.insert(ahead.end(), forward_[u].begin(), forward_[u].end());
        back.insert(back.end(), backward_[u].begin(), backward_[u].end());
      }
      const auto earlier = [](const Row* a, const Row* b) { return a->begin < b->begin; };
      std::stable_sort(ahead.begin(), ahead.end(), earlier);
      std::stable_sort(back.begin(), back.end(), earlier);
      const Product& in = d_.experts.products[layer.first.front()];
      const Product& out = d_.experts.products[layer.last];
      const std::int64_t bytes = written(layer.last);
      move(ahead, false, {in, in.in, in.input_bytes, false, true}, "expert parallel: dispatch");
      move(forward_[layer.last], true, {out, out.out, bytes, true, false}, "expert parallel: combine");
      move(backward_[layer.last], false, {out, out.out, bytes, false, true}, "expert parallel: gradient of combine");
      move(back, true, {in, in.in, in.input_bytes, true, false}, "expert parallel: gradient of dispatch");
    }
  }

 private:
  struct Tokens {
    const Product& product;
    std::int64_t columns, bytes;  // of a token: numbers, and bytes of each
    bool before, behind;          // where it is copied into the order of the other side
  };

  // In front of the first of some rows or behind the last, as often as they run.
  void move(const std::vector<const Row*>& rows, bool last, const Tokens& t, const char* name) {
    if (rows.empty()) return;
    const Row& row = last ? *rows.back() : *rows.front();
    const auto runs = static_cast<std::size_t>(times_run(m_, row));
    const std::size_t run = std::max<std::size_t>(1, row.tasks.size() / runs);
    const double elements = static_cast<double>(t.product.experts * t.product.rows * t.columns) * d_.samples * d_.load;
    std::optional<work::Work> copy;
    if (d_.experts.count > d_.size) {  // one expert has its tokens in order
      copy = work::relayout_work(std::llround(elements), t.bytes == 2 ? work::Dtype::kBf16 : work::Dtype::kFp32);
    }
    for (std::size_t i = 0; i + run <= row.tasks.size(); i += run) {
      const std::uint32_t task = row.tasks[last ? i + run - 1 : i];
      const Place at = last ? place_behind(m_.graph, task) : place_before(m_.graph, task);
      group_.meet({.from = at,
                   .at = at,
                   .kind = Collective::kAllToAll,
                   .bytes = elements * static_cast<double>(t.bytes),
                   .phase = m_.graph.phase[task],
                   .name = name,
                   .before = t.before ? copy : std::nullopt,
                   .behind = t.behind ? copy : std::nullopt});
    }
  }

  // Bytes of a number that a product writes.
  [[nodiscard]] std::int64_t written(std::uint32_t unit) const {
    for (const Row* row : forward_[unit]) {
      const work::Work& w = m_.works[row->work];
      if (is_product(w)) return work::is_half(w.out_dtype) ? 2 : 4;
    }
    return 4;
  }

  const Model& m_;
  Group& group_;
  const ExpertDivision& d_;
  std::vector<std::vector<const Row*>> forward_, backward_;  // by unit
};

Status apply_ep(Model& m, Draft& draft, const Parameters& p) {
  const auto size = static_cast<std::int64_t>(p.number("size"));
  if (size == 1) {
    draft.note_change();  // one GPU has all experts
    return {};
  }
  FORETRACE_TRY(const std::unique_ptr<Group> group, Group::make(m, draft, p));
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  FORETRACE_TRY(const Experts experts, find_experts(m, *flow));
  if (experts.count % size != 0) {
    return fail(ErrorCode::kDeclined, fmt::format("{} experts cannot be divided over {} GPUs", experts.count, size),
                "choose a size that divides them");
  }
  const double imbalance = p.number("imbalance");
  const ExpertDivision division{.experts = experts,
                                .flow = *flow,
                                .size = size,
                                .load = p.number("capacity") * imbalance,
                                .samples = m.pass_samples,
                                .uncertainty = std::abs(std::log(imbalance))};
  const std::vector<Row> rows = rows_of(m, draft);
  if (p.text("reduce") == "1" && missing(m, Need::kBackward).empty()) {
    std::set<std::int64_t> weights;
    for (const Product& e : experts.products) {
      if (e.known()) weights.insert(e.weight());
    }
    FORETRACE_TRY_VOID(group->reduce_gradients([&](const Gradient& g) { return weights.contains(g.elements); }));
  }
  Exchanges(m, *group, rows, division).add();
  group->finish();
  divide_experts(m, draft, rows, division);
  if (imbalance != 1)
    m.not_modelled.push_back(fmt::format(
        "how tokens spread over experts: the fullest GPU is taken to have {:g} times the mean, as asked", imbalance));
  m.workers *= static_cast<int>(size);
  m.replicas *= static_cast<int>(size);
  return {};
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> out = group_parameters();
  const auto factor = [&](std::string name, std::string about) {
    out.push_back(
        {.name = std::move(name), .about = std::move(about), .default_value = "1", .type = ParameterType::kNumber});
  };
  factor("imbalance", "tokens of the fullest GPU over the mean; the band has it too");
  factor("capacity", "tokens that each expert takes, as a multiple of the trace's");
  out.push_back({"reduce", "0: gradients of what all GPUs have are not reduced", "1", {"1", "0"}});
  return out;
}

const Registered kRegistered(
    {.name = "ep",
     .about = "expert parallel: the experts of every layer divided over several GPUs, each with a batch of its own",
     .parameters = parameters(),
     .assumes = "every GPU has its part of the experts and all else whole; tokens go to their experts and back by "
                "all-to-all in both passes, not hidden; gradients of all but the experts are reduced over the GPUs",
     .source = "GShard (arXiv 2006.16668), Megatron-LM, DeepSpeed-MoE",
     .not_modelled = "the exchange of how many tokens go where, and kernels that overlap experts with the exchange",
     .needs = {Need::kShapes},
     .changes = Changes::kWorkers,
     .parts = {.memory = Part::kModelled},
     .code = "parallelize_module(moe.experts, mesh[\"ep\"], ExpertParallel())",
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_ep,
     .check = check_group,
     .whole_program = "a compiled program's kernels do not tell which product they belong to"});

}  // namespace
}  // namespace foretrace::whatif
