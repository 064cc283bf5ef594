#include "whatif/rewrite/fusion.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/text.hpp"
#include "whatif/rewrite/compiling.hpp"

namespace foretrace::whatif {

namespace {

using work::Family;
using work::Work;

bool normalises_rows(std::string_view op) {
  return contains_any(op, {"layer_norm", "rms_norm", "group_norm", "instance_norm"});
}
bool normalises_channels(std::string_view op) { return contains(op, "batch_norm"); }
bool drops(std::string_view op) { return contains(op, "dropout"); }
bool is_slow(std::string_view op) { return contains_any(op, {"gelu", "tanh", "mish", "erf", "softplus"}); }
/// Needs what it read, or what it wrote, for its gradient.
bool nonlinear(std::string_view op) { return (keeps_input(op) || keeps_result(op)) && !contains(op, "_norm"); }

// Products a residual connection goes around: those of attention and of a gated MLP are four at most.
constexpr std::uint32_t kResidualReach = 4;

class FusionPlanner {
 public:
  FusionPlanner(const Model& m, const std::vector<Row>& rows, const Dataflow& flow,
                const std::vector<std::uint32_t>& region)
      : linked_(m, rows, flow, region),
        samples_(m.pass_samples),
        device_(m.device),
        flow_(flow),
        region_(region),
        units_(linked_.all),
        consumers_(linked_.consumers) {}

  FusionPlan run() {
    group();
    for (std::size_t g = 0; g < plan_.fused.size(); ++g) measure(static_cast<std::uint32_t>(g));
    place_rows_of_products();
    place_rows_of_views();
    locate_units();
    return std::move(plan_);
  }

 private:
  const Work& work(std::uint32_t row) const { return linked_.work(row); }

  std::uint32_t root(std::uint32_t u) {
    while (joined_[u] != u) u = joined_[u] = joined_[joined_[u]];
    return u;
  }

  void group() {
    joined_.resize(units_.size());
    std::iota(joined_.begin(), joined_.end(), 0U);
    for (std::uint32_t u = 0; u < units_.size(); ++u) {
      if (!units_[u].fusible) continue;
      for (const auto& [v, n] : units_[u].inputs) {
        const std::uint32_t p = flow_.values[v].producer;
        if (p == kNone || !units_[p].fusible || units_[p].level != units_[u].level ||
            units_[p].region != units_[u].region)
          continue;
        joined_[root(u)] = root(p);
      }
    }
    plan_.group_of_unit.assign(units_.size(), kNone);
    internal_.assign(flow_.values.size(), 0);
    std::map<std::uint32_t, std::uint32_t> place;
    for (std::uint32_t u = 0; u < units_.size(); ++u) {
      if (!units_[u].fusible) continue;
      const auto [it, added] = place.emplace(root(u), static_cast<std::uint32_t>(plan_.fused.size()));
      if (added) plan_.fused.emplace_back();
      Fused& f = plan_.fused[it->second];
      f.units.push_back(u);
      plan_.group_of_unit[u] = it->second;
      f.forward_rows.insert(f.forward_rows.end(), units_[u].forward.begin(), units_[u].forward.end());
      f.backward_rows.insert(f.backward_rows.end(), units_[u].backward.begin(), units_[u].backward.end());
      for (const auto& [v, n] : units_[u].inputs) {
        const std::uint32_t p = flow_.values[v].producer;
        if (p != kNone && plan_.group_of_unit[p] == it->second) internal_[v] = 1;
      }
    }
  }

  /// Does its backward pass read what it read? So do the operations it is fused with.
  bool needs_input(std::uint32_t unit) const {
    if (!units_[unit].fusible) return true;
    const std::vector<std::uint32_t>& all = plan_.fused[plan_.group_of_unit[unit]].units;
    return std::any_of(all.begin(), all.end(), [&](std::uint32_t u) {
      const std::string_view name = flow_.units[u].name;
      // A norm keeps what it normalised, which is counted with its own group; what was added up for it is not needed.
      return nonlinear(name) || (u == unit && contains(name, "_norm"));
    });
  }

  // The data flow is that of the trace; a what-if before this one may have changed how many samples go through it.
  double elements_of(std::uint32_t value) const {
    if (flow_.values[value].shape.empty()) return 0;
    return static_cast<double>(work::elements_of(flow_.values[value].shape)) * samples_;
  }

  // Values of one shape are distinguished by guesses (dataflow.hpp). One that the kernel which made it has used, and that another
  // kernel far behind seems to read, is such a guess gone wrong: residual connections reach over one block of products.
  bool used_up(std::uint32_t value, std::uint32_t reader) const {
    const std::uint32_t p = flow_.values[value].producer;
    if (p == kNone || reader == kNone || plan_.group_of_unit[p] == kNone || plan_.group_of_unit[p] == reader)
      return false;
    const std::uint32_t far = units_[plan_.fused[reader].units.front()].level;
    return internal_[value] != 0 && far > units_[p].level + kResidualReach;
  }

  void measure(std::uint32_t g) {
    Fused& f = plan_.fused[g];
    std::map<std::uint32_t, double> read;  // value from outside -> elements
    double largest = 0;
    bool gradient = false, nonlinear_any = false, softmax = false;
    double norms = 0, norm_elements = 0, made_for_norms = 0, statistics = 0, dropped = 0, slow = 0, slow_backward = 1,
           sums = 0;
    bool batch_norm = false;
    for (const std::uint32_t u : f.units) {
      const std::string_view name = flow_.units[u].name;
      double elements = 0;
      for (const auto& [v, n] : units_[u].inputs) {
        elements = std::max(elements, n);
        const std::uint32_t p = flow_.values[v].producer;
        if (p != kNone && plan_.group_of_unit[p] == g) continue;
        if (used_up(v, g)) continue;
        double& most = read[v];
        most = std::max(most, n);
      }
      largest = std::max(largest, elements);
      gradient = gradient || linked_.has_gradient(u);
      nonlinear_any = nonlinear_any || nonlinear(name);
      softmax = softmax || contains(name, "softmax");
      if (drops(name)) dropped += elements;
      if (is_slow(name)) slow = std::max(slow, elements);
      if (contains(name, "gelu")) slow_backward = gelu_gradient(device_);
      if (normalises_rows(name)) {
        norms += 1;
        norm_elements += elements;
        const std::uint32_t p =
            units_[u].inputs.empty() ? kNone : flow_.values[units_[u].inputs.front().first].producer;
        if (p != kNone && plan_.group_of_unit[p] == g) made_for_norms += elements;
      }
      if (normalises_channels(name) && !units_[u].inputs.empty()) {
        batch_norm = true;
        statistics += units_[u].inputs.front().second * linked_.element_size(units_[u].inputs.front().first);
      }
      for (const std::uint32_t r : units_[u].backward) {
        if (work(r).family == Family::kReduction && !normalises_rows(name)) sums += 1;
      }
    }
    double in = 0, gradients_out = 0;
    for (const auto& [v, n] : read) {
      const double bytes = n * linked_.element_size(v);
      in += bytes;
      const std::uint32_t p = flow_.values[v].producer;
      if (p != kNone && linked_.has_gradient(p)) gradients_out += bytes;
    }
    double out = 0, gradients_in = 0, of_norms = 0, unheld = 0;
    for (const std::uint32_t u : f.units) {
      for (const std::uint32_t v : flow_.units[u].outputs) {
        double plain = 0, cast = 0, held = 0, held_cast = 0;
        const double own = linked_.element_size(v);
        const double n = std::max(elements_of(v), 0.0) > 0 ? elements_of(v) : largest;
        if (consumers_[v].empty() && u == f.units.back()) plain = n * own;
        for (const std::uint32_t c : consumers_[v]) {
          if (plan_.group_of_unit[c] == g || used_up(v, plan_.group_of_unit[c])) continue;
          const double wanted = units_[c].product ? linked_.product_size(c) : own;
          if (wanted > 0 && wanted != own) {
            cast = n * wanted;
            if (linked_.has_gradient(c)) held_cast = n * wanted;
          } else {
            plain = n * own;
            if (linked_.has_gradient(c) && needs_input(c)) held = n * own;
          }
          const double gradient_bytes = linked_.has_gradient(c) ? n * (wanted > 0 ? wanted : own) : 0;
          gradients_in += gradient_bytes;
          if (normalises_rows(flow_.units[u].name)) of_norms += gradient_bytes;
        }
        out += plain + cast;
        f.held += held + held_cast;
        if (held == 0) unheld += plain;
      }
    }
    f.forward.bytes = in + out;
    f.forward.random = dropped;
    f.forward.slow = slow;
    if (batch_norm) {
      f.forward.statistics = statistics;
      f.forward.finishing = 1;
    }
    if (!gradient) return;
    // Kept for the backward pass in addition to what is written anyway: which elements dropout kept, and what norms normalised.
    // The latter is there already where it comes from outside, and may be among what is written for others; what products keep
    // are results of norms.
    const double saved_norm = unheld < made_for_norms * 2 ? made_for_norms * 4 : 0;
    const double saved_softmax = softmax && dropped > 0 ? largest * 4 : 0;
    const double kept = dropped + saved_norm + saved_softmax;
    f.held += kept + (saved_norm == 0 ? std::min(unheld, made_for_norms * 4) : 0);
    f.forward.bytes += kept;
    // In backward: gradients of all uses, what was kept, what nonlinear operations read.
    double saved = dropped + (norms > 0 ? norm_elements * 4 : 0) + (softmax ? largest * 4 : 0);
    if (batch_norm || (nonlinear_any && norms == 0 && !softmax)) saved += in;
    f.backward.bytes = gradients_in + saved + gradients_out;
    f.backward.slow = slow * slow_backward;
    f.backward.in_place = !batch_norm;
    if (batch_norm) {
      f.backward.columns = gradients_in + saved;
      f.backward.finishing = 2;
    }
    if (norms > 0 || sums > 0) {
      // A norm's weight wants the gradient of its result and what was normalised; a weight by hand wants all.
      f.backward.columns += norms > 0 ? of_norms + norm_elements * 4 : gradients_in + saved;
      f.backward.finishing += norms > 0 ? static_cast<std::uint32_t>(2 * norms) : 1U;
    }
  }

  // Rows of products that are no product: casts and copies of their operands, sums for biases.
  void place_rows_of_products() {
    for (std::uint32_t u = 0; u < units_.size(); ++u) {
      const FusionUnit& unit = units_[u];
      if (unit.fusible || unit.loss || unit.region == kNone || is_library_attention(flow_.units[u].name)) continue;
      for (const bool backward : {false, true}) {
        for (const std::uint32_t r : backward ? unit.backward : unit.forward) {
          const Work& w = work(r);
          if (!generates(w)) {
            plan_.calls.push_back(r);
            continue;
          }
          const std::uint32_t g =
              w.family == Family::kCopy || w.family == Family::kElementwise ? group_of_operand(u, w) : kNone;
          if (g != kNone) {
            auto& into = backward ? plan_.fused[g].backward_rows : plan_.fused[g].forward_rows;
            into.push_back(r);
            continue;
          }
          // A bias's gradient is summed and converted in one.
          if (backward && w.family == Family::kCopy && sums_into(unit, w.elements)) {
            plan_.merged.push_back(r);
            continue;
          }
          const bool sum = w.family == Family::kReduction;
          plan_.alone.emplace_back(r, Generated{.bytes = w.bytes(), .finishing = sum ? 1U : 0U, .copy = !sum});
        }
      }
    }
  }

  bool sums_into(const FusionUnit& unit, std::int64_t elements) const {
    return elements > 0 && std::any_of(unit.backward.begin(), unit.backward.end(), [&](std::uint32_t r) {
             const Work& w = work(r);
             return w.family == Family::kReduction && w.elements > elements && w.elements % elements == 0;
           });
  }

  // The gradient of a view is a copy or a sum into zeros: part of the kernel that takes the gradient of what the view shows.
  void place_rows_of_views() {
    for (std::uint32_t u = 0; u < units_.size(); ++u) {
      if (flow_.units[u].computes || units_[u].backward.empty()) continue;
      std::uint32_t found = kNone;
      if (!flow_.units[u].inputs.empty()) {
        const std::uint32_t p = flow_.values[flow_.content(flow_.units[u].inputs.front().value)].producer;
        if (p != kNone) found = plan_.group_of_unit[p];
      }
      for (const std::uint32_t r : units_[u].backward) {
        if (region_[r] == kNone || !generates(work(r))) continue;
        if (found != kNone && plan_.fused[found].backward.any())
          plan_.fused[found].backward_rows.push_back(r);
        else
          plan_.alone.emplace_back(r, Generated{.bytes = work(r).bytes(), .copy = true});
      }
    }
  }

  void locate_units() {
    plan_.where.resize(units_.size());
    for (std::uint32_t u = 0; u < units_.size(); ++u) {
      const bool works = flow_.units[u].computes && !units_[u].forward.empty();
      if (units_[u].loss)
        plan_.where[u] = FusionPlan::kOutside;
      else if (!works)
        plan_.where[u] = FusionPlan::kView;
      else
        plan_.where[u] = units_[u].region == kNone ? FusionPlan::kOutside : FusionPlan::kInside;
    }
  }

  // The fused operations that wrote the operand a copy is made of, and whose backward pass takes its gradient.
  std::uint32_t group_of_operand(std::uint32_t u, const Work& w) const {
    for (const auto& [v, n] : units_[u].inputs) {
      if (n != static_cast<double>(w.elements)) continue;
      const std::uint32_t p = flow_.values[v].producer;
      if (p != kNone && plan_.group_of_unit[p] != kNone) return plan_.group_of_unit[p];
    }
    return kNone;
  }

  const FusionUnits linked_;
  const double samples_;
  const hardware::Device& device_;
  const Dataflow& flow_;
  const std::vector<std::uint32_t>& region_;
  const std::vector<FusionUnit>& units_;
  const std::vector<std::vector<std::uint32_t>>& consumers_;
  std::vector<std::uint32_t> joined_;
  std::vector<char> internal_;  // by value: read by the group that makes it
  FusionPlan plan_;
};

}  // namespace

FusionPlan plan_fusion(const Model& model, const std::vector<Row>& rows, const Dataflow& flow,
                       const std::vector<std::uint32_t>& region) {
  return FusionPlanner(model, rows, flow, region).run();
}

}  // namespace foretrace::whatif
