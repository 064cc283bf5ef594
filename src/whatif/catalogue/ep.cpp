#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/gpus.hpp"
#include "whatif/sharding/experts.hpp"
#include "whatif/sharding/group.hpp"
#include "whatif/sharding/pass_rows.hpp"

namespace foretrace::whatif {
namespace {

using hardware::Collective;

// Tokens to the GPUs that have their experts and back, in both passes.
class Exchanges {
 public:
  Exchanges(const Model& m, Group& group, const std::vector<Row>& rows, const ExpertDivision& d)
      : m_(m), group_(group), d_(d), rows_(m, rows, d) {}

  void add() {
    for (const ExpertLayer& layer : d_.experts.layers) {
      const Product& in = d_.experts.products[layer.first.front()];
      const Product& out = d_.experts.products[layer.last];
      const std::int64_t bytes = rows_.written(layer.last);
      move(rows_.forward(layer.first), false, {in, in.in, in.input_bytes, false, true}, "expert parallel: dispatch");
      move(rows_.forward(layer.last), true, {out, out.out, bytes, true, false}, "expert parallel: combine");
      move(rows_.backward(layer.last), false, {out, out.out, bytes, false, true},
           "expert parallel: gradient of combine");
      move(rows_.backward(layer.first), true, {in, in.in, in.input_bytes, true, false},
           "expert parallel: gradient of dispatch");
    }
  }

 private:
  struct Tokens {
    const Product& product;
    std::int64_t columns, bytes;  // of a token: numbers, and bytes of each
    bool before, behind;          // where it is copied into the order of the other side
  };

  // In front of the first of some rows or behind the last, as often as they run.
  void move(const PassRows::Rows& rows, bool last, const Tokens& t, const char* name) {
    const double elements = static_cast<double>(t.product.experts * t.product.rows * t.columns) * d_.samples * d_.load;
    std::optional<work::Work> copy;
    if (d_.experts.count > d_.size) {  // one expert has its tokens in order
      copy = work::relayout_work(std::llround(elements), t.bytes == 2 ? work::Dtype::kBf16 : work::Dtype::kFp32);
    }
    for (const std::uint32_t task : rows_.tasks(rows, last)) {
      const Place at = last ? place_behind(m_.graph, task) : place_before(m_.graph, task);
      group_.add_collective({.from = at,
                             .at = at,
                             .kind = Collective::kAllToAll,
                             .bytes = elements * static_cast<double>(t.bytes),
                             .phase = m_.graph.phase[task],
                             .name = name,
                             .before = t.before ? copy : std::nullopt,
                             .behind = t.behind ? copy : std::nullopt});
    }
  }

  const Model& m_;
  Group& group_;
  const ExpertDivision& d_;
  PassRows rows_;
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
        "how tokens spread over experts: the fullest GPU is assumed to have {:g} times the mean", imbalance));
  return multiply_gpus(m, size, Batches::kOwn);
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
     .whole_program = "a compiled program's kernels do not show which product they belong to"});

}  // namespace
}  // namespace foretrace::whatif
