// The driver. It applies what-ifs in order, proves the graph sound after each, times them, simulates, and puts a band
// around the answer; no what-if does any of this itself.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "foretrace/whatif/whatif.hpp"
#include "whatif/bands.hpp"
#include "whatif/checked_commit.hpp"
#include "whatif/simulate_model.hpp"

namespace foretrace::whatif {

std::string worst_origin(const graph::Graph& g) {
  // Weighed by time: the least certain origin that carries at least a hundredth of the GPU's time.
  std::array<double, 4> time = {};
  double all = 0;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t])) continue;
    time[static_cast<std::size_t>(g.origin[t])] += static_cast<double>(g.cost[t]);
    all += static_cast<double>(g.cost[t]);
  }
  for (std::size_t o = 4; o-- > 1;) {
    if (time[o] >= 0.01 * all) return std::string(to_string(static_cast<graph::Origin>(o)));
  }
  return std::string(to_string(graph::Origin::kMeasured));
}

namespace {

bool knows_shapes(const Model& model) {
  return std::any_of(model.works.begin(), model.works.end(),
                     [](const hardware::Work& w) { return w.family != hardware::Family::kMemory && w.has_shape(); });
}

}  // namespace

Prediction predict(const Model& base, const std::vector<Use>& uses, std::optional<Ns> measured, Detail detail) {
  Prediction p;
  for (const Use& use : uses) p.whatif += (p.whatif.empty() ? "" : " + ") + use.text;
  Model model = base;
  p.validated = true;
  for (const Use& use : uses) {
    const auto begin = std::chrono::steady_clock::now();
    if (use.whatif->needs == "shapes" && !knows_shapes(model)) {
      p.declined = fmt::format("{}: the trace records no shapes of operations (profile with record_shapes=True)",
                               use.whatif->name);
      return p;
    }
    Draft draft(model.graph, model.trace, model.chains);
    if (Status applied = use.whatif->apply(model, draft, use.parameters); !applied) {
      p.declined = fmt::format("{}: {}", use.whatif->name, applied.error().message);
      return p;
    }
    if (draft.changed() == 0) {
      p.declined = fmt::format("{}: nothing in this step would change", use.whatif->name);
      return p;
    }
    const std::uint64_t shares = model.graph.notes.dropped_soft;
    Result<graph::Graph> changed = checked_commit(draft);
    if (!changed) {
      p.declined = fmt::format("{}: {}", use.whatif->name, changed.error().message);
      return p;
    }
    if (changed->notes.dropped_soft > shares)
      model.not_modelled.emplace_back("kernels of several streams that keep each other from the GPU");
    model.graph = std::move(*changed);
    model.applied.push_back(use.whatif->name);
    if (!use.whatif->not_modelled.empty()) model.not_modelled.push_back(use.whatif->not_modelled);
    if (!use.whatif->validated) {
      p.validated = false;
      model.not_modelled.push_back(use.whatif->name + " is not validated against measurements");
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    p.steps.push_back({use.text, draft.changed(), took.count()});
  }

  // What the calibrated baseline still misses of the measured step is missed after the change too, in proportion.
  const Ns simulated_base = simulate_model(base, {}).timeline.step;
  const double residual =
      measured && simulated_base > 0 ? static_cast<double>(*measured) / static_cast<double>(simulated_base) : 1.0;
  const Ns simulated = simulate_model(model, {}).timeline.step;
  p.step = std::llround(static_cast<double>(simulated) * residual);
  const Ns reference = measured.value_or(simulated_base);
  p.speedup = p.step > 0 ? static_cast<double>(reference) / static_cast<double>(p.step) : 0;
  for (std::size_t t = 0; t < model.graph.size(); ++t) {
    if (graph::is_gpu(model.graph.kind[t])) p.gpu_time += model.graph.cost[t];
  }
  if (detail == Detail::kFull) {
    Band band = band_around(model, base, simulated);
    const auto in_full = [&](Ns ns) { return static_cast<Ns>(static_cast<double>(ns) * residual); };
    p.low = in_full(band.low);
    p.high = in_full(band.high);
    for (BandPart& part : band.parts) {
      part.down = in_full(part.down);
      part.up = in_full(part.up);
    }
    p.band = std::move(band.parts);
    p.gpu_families = family_times(model);
  }
  if (model.memory) {
    memory::recompute(*model.memory);
    p.peak_bytes = model.memory->peak_bytes;
    const bool fits = static_cast<double>(*p.peak_bytes + hardware::kDriverBytes) <= model.device.memory_gb * 1e9;
    const bool moved = model.device.name != base.device.name;
    const bool other_batch = std::find(model.applied.begin(), model.applied.end(), "batch") != model.applied.end();
    if (other_batch && detail == Detail::kFull && model.device.memory_gb > 0) {
      const double room = model.device.memory_gb * 1e9 - static_cast<double>(hardware::kDriverBytes);
      p.largest_batch = model.samples * memory::largest_batch(*model.memory, room);
    }
    if (moved && !fits) {
      model.not_modelled.push_back(fmt::format("the step does not fit into {}: its peak is {:.1f} of {:.0f} GB",
                                               model.device.name, static_cast<double>(*p.peak_bytes) / 1e9,
                                               model.device.memory_gb));
    }
  }
  p.samples = model.samples;
  p.origin = worst_origin(model.graph);
  p.not_modelled = model.not_modelled;
  p.graph = std::move(model.graph);
  return p;
}

}  // namespace foretrace::whatif
