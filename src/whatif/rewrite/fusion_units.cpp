#include "whatif/rewrite/fusion_units.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace foretrace::whatif {

using work::Family;
using work::Work;

namespace {

double size_of(work::Dtype dtype) { return static_cast<double>(work::bytes_of(dtype)); }

}  // namespace

bool generates(const Work& w) {
  return w.family == Family::kElementwise || w.family == Family::kCopy || w.family == Family::kReduction ||
         w.family == Family::kLayerNorm || w.family == Family::kBatchNorm || w.family == Family::kSoftmax;
}

bool computes_loss(std::string_view op) {
  return contains_any(op, {"log_softmax", "_loss", "cross_entropy", "kl_div"});
}

FusionUnits::FusionUnits(const Model& model, const std::vector<Row>& rows, const Dataflow& flow,
                         const std::vector<std::uint32_t>& region)
    : m_(model), rows_(rows), flow_(flow) {
  attribute_rows();
  link();
  classify(region);
}

void FusionUnits::attribute_rows() {
  all.resize(flow_.units.size());
  for (std::uint32_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    const std::uint32_t event = work(r).op_event;
    if (event == kNone) continue;
    if (row.phase == Phase::kForward) {
      if (const std::uint32_t u = flow_.unit_of(event); u != kNone) all[u].forward.push_back(r);
    } else if (row.phase == Phase::kBackward) {
      // What a change before this one put there names the operation of the forward pass.
      std::uint32_t u = flow_.backward_of(event).unit;
      if (u == kNone) u = flow_.unit_of(event);
      if (u != kNone) all[u].backward.push_back(r);
    }
  }
}

void FusionUnits::link() {
  consumers.resize(flow_.values.size());
  for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
    if (!flow_.units[u].computes) continue;
    for (const Input& in : flow_.units[u].inputs) {
      const std::uint32_t v = flow_.content(in.value);
      all[u].inputs.emplace_back(v, static_cast<double>(in.elements) * m_.pass_samples);
      consumers[v].push_back(u);
    }
  }
}

void FusionUnits::classify(const std::vector<std::uint32_t>& region) {
  for (std::uint32_t u = 0; u < all.size(); ++u) {
    FusionUnit& unit = all[u];
    const std::string_view name = flow_.units[u].name;
    unit.loss = computes_loss(name);
    unit.product = std::any_of(unit.forward.begin(), unit.forward.end(), [&](auto r) { return is_product(work(r)); });
    if (unit.forward.empty()) continue;
    unit.region = region[unit.forward.front()];
    unit.fusible = !unit.loss && unit.region != kNone && !unit.inputs.empty() &&
                   std::all_of(unit.forward.begin(), unit.forward.end(), [&](auto r) { return generates(work(r)); });
  }
  // What only leads to the loss (a cast of the logits) is outside the compiled model, as the loss is.
  for (std::size_t u = all.size(); u-- > 0;) {
    if (!all[u].fusible) continue;
    bool read = false, only_loss = true;
    for (const std::uint32_t v : flow_.units[u].outputs) {
      for (const std::uint32_t c : consumers[v]) {
        read = true;
        only_loss = only_loss && all[c].loss;
      }
    }
    if (read && only_loss) {
      all[u].fusible = false;
      all[u].loss = true;
      all[u].region = kNone;
    }
  }
  for (FusionUnit& unit : all) {
    for (const auto& [v, n] : unit.inputs) {
      const std::uint32_t p = flow_.values[v].producer;
      if (p != kNone) unit.level = std::max(unit.level, all[p].level + (all[p].fusible ? 0U : 1U));
    }
  }
}

double FusionUnits::element_size(std::uint32_t value) const {
  const std::uint32_t p = flow_.values[value].producer;
  if (p == kNone || all[p].forward.empty()) return 4;
  // Of a product that casts its operands the product's own row shows.
  for (const std::uint32_t r : all[p].forward) {
    if (is_product(work(r))) return size_of(work(r).out_dtype);
  }
  return size_of(work(all[p].forward.back()).out_dtype);
}
double FusionUnits::product_size(std::uint32_t unit) const {
  for (const std::uint32_t r : all[unit].forward) {
    if (is_product(work(r))) return size_of(work(r).dtype);
  }
  return 0;
}
}  // namespace foretrace::whatif
