// N workers from one: the scheme is written into a draft of one worker's step, which stands for all of them (they do the
// same work and meet in every collective), and simulated.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/suggest.hpp"
#include "whatif/bands.hpp"
#include "whatif/parallel/builder.hpp"
#include "whatif/simulate_model.hpp"

namespace foretrace::whatif {

namespace {

struct SchemeEntry {
  std::string_view name;
  Scheme scheme;
  Status (*apply)(Builder& builder);
  bool validated;  // has truth rows
};
// One line for each scheme.
constexpr std::array kSchemes = {
    SchemeEntry{"ddp", Scheme::kDdp, apply_ddp, true},
    SchemeEntry{"fsdp", Scheme::kFsdp, apply_fsdp, true},
    SchemeEntry{"zero1", Scheme::kZero1, apply_zero1, true},
    SchemeEntry{"zero2", Scheme::kZero2, apply_zero2, true},
    SchemeEntry{"zero3", Scheme::kFsdp, apply_fsdp, true},
    SchemeEntry{"ps", Scheme::kPs, apply_ps, true},
    SchemeEntry{"p3", Scheme::kP3, apply_p3, false},
    SchemeEntry{"blueconnect", Scheme::kBlueConnect, apply_blueconnect, true},
    SchemeEntry{"horovod", Scheme::kHorovod, apply_horovod, true},
};

constexpr std::array<std::pair<std::string_view, Compression>, 7> kCompressions = {
    {{"none", Compression::kNone},
     {"fp16", Compression::kFp16},
     {"powersgd", Compression::kPowerSgd},
     {"topk", Compression::kTopK},
     {"dgc", Compression::kDgc},
     {"qsgd", Compression::kQsgd},
     {"terngrad", Compression::kTernGrad}}};

const SchemeEntry* entry_of(Scheme scheme) {
  for (const SchemeEntry& e : kSchemes) {
    if (e.scheme == scheme) return &e;
  }
  return nullptr;
}

// The mean of the largest of n draws from a normal distribution, in standard deviations (Blom's approximation of the order
// statistic): 0.56 of 2, 1.03 of 4, 3.97 of 16,384.
double expected_maximum(int n) {
  if (n < 2) return 0;
  const double p = (n - 0.375) / (n + 0.25);
  // Inverse of the normal distribution: Hastings' rational approximation (Abramowitz and Stegun 26.2.23).
  const double q = std::sqrt(-2 * std::log(1 - p));
  return q -
         (2.515517 + 0.802853 * q + 0.010328 * q * q) / (1 + 1.432788 * q + 0.189269 * q * q + 0.001308 * q * q * q);
}

// All computation of a worker takes `factor` times as long.
void slow_down(Draft& draft, const Graph& g, double factor) {
  if (factor == 1) return;
  Query computation;
  computation.gpu = true;
  computation.where = [&](std::uint32_t t) { return g.kind[t] != TaskKind::kCollective; };
  draft.scale(draft.select(computation), factor);
}

}  // namespace

std::string_view to_string(Scheme scheme) {
  const SchemeEntry* e = entry_of(scheme);
  return e != nullptr ? e->name : "?";
}

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const SchemeEntry& e : kSchemes) names.emplace_back(e.name);
  return names;
}

Result<Scheme> parse_scheme(std::string_view text) {
  for (const SchemeEntry& e : kSchemes) {
    if (e.name == text) return e.scheme;
  }
  std::string all;
  for (const SchemeEntry& e : kSchemes) all += (all.empty() ? "" : ", ") + std::string(e.name);
  return fail(ErrorCode::kUsage, fmt::format("'{}' is not a way to train on several workers", text), "one of: " + all);
}

std::string_view to_string(Compression compression) {
  return kCompressions[static_cast<std::size_t>(compression)].first;
}

Result<Compression> parse_compression(std::string_view text) {
  for (const auto& [name, value] : kCompressions) {
    if (name == text) return value;
  }
  return fail(ErrorCode::kUsage, fmt::format("'{}' is not a gradient compression", text),
              "one of: fp16, powersgd, topk, dgc, qsgd, terngrad");
}

Status apply_strategy(Model& model, Draft& draft, const Gradients& gradients, const Strategy& strategy,
                      const Cluster& cluster) {
  const SchemeEntry* entry = entry_of(strategy.scheme);
  if (entry == nullptr) return fail(ErrorCode::kUsage, "this scheme is not known");
  Builder builder(model, draft, gradients, strategy, cluster);
  return entry->apply(builder);
}

Result<ScalePrediction> predict_scale(const Model& base, std::optional<Ns> measured, const Strategy& strategy,
                                      const Cluster& cluster, Detail detail) {
  if (cluster.workers < 1) return fail(ErrorCode::kUsage, "the number of workers must be at least 1");
  ScalePrediction p;
  p.workers = cluster.workers;
  const simulate::SteadyState alone = simulate_model(base, {});
  const Ns simulated_base = alone.timeline.step;
  const Ns one = measured.value_or(simulated_base);
  // What the simulation misses of the measured step lies in the computation, which N workers do just the same.
  const Ns missed = one - simulated_base;
  Model model = base;
  Draft draft(base.graph, base.trace);
  // Workers differ by what a GPU's steps differ by; the slowest of them sets the pace.
  const double spread = 1 + expected_maximum(cluster.workers) * CpuPrior{}.sigma_gpu;
  if (cluster.workers > 1) {
    FORETRACE_TRY(const Gradients gradients, find_gradients(base));
    slow_down(draft, base.graph, strategy.slow_worker * spread);
    FORETRACE_TRY_VOID(apply_strategy(model, draft, gradients, strategy, cluster));
    p.buckets = plan_of(gradients, strategy).size();
    if (!gradients.guessed.empty()) model.not_modelled.push_back(gradients.guessed);
    model.graph = draft.commit();
    FORETRACE_TRY_VOID(graph::verify(model.graph));
  } else if (strategy.slow_worker != 1) {
    slow_down(draft, base.graph, strategy.slow_worker);
    model.graph = draft.commit();
  }
  const simulate::SteadyState run = simulate_model(model, {});
  const graph::Graph& timed = run.graph_of(model.graph);
  const simulate::Breakdown parts = simulate::breakdown(timed, run.timeline);
  p.step = std::max<Ns>(1, run.timeline.step + missed);
  p.exposed_communication = parts.exposed_communication / run.copies;
  p.communication = parts.communication / run.copies;
  p.efficiency = static_cast<double>(one) / static_cast<double>(p.step);
  if (detail == Detail::kFull) {
    const Band band = band_around(model, base, run.timeline.step);
    p.low = std::max<Ns>(0, band.low + missed);
    p.high = band.high + missed;
  }
  if (model.memory) {
    memory::recompute(*model.memory);
    p.peak_bytes = model.memory->peak_bytes;
  }
  p.origin = worst_origin(model.graph);
  p.validated = entry_of(strategy.scheme)->validated;
  p.not_modelled = model.not_modelled;
  if (cluster.workers > 1) {
    if (!p.validated) {
      p.not_modelled.push_back(fmt::format("{} is not validated against measurements", to_string(strategy.scheme)));
    }
    if (strategy.slow_worker == 1) p.not_modelled.emplace_back("workers that differ by more than a GPU's usual spread");
  }
  p.graph = std::move(model.graph);
  return p;
}

}  // namespace foretrace::whatif
