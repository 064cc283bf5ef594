// N workers from one: the scheme is written into a draft of one worker's step, which stands for all of them (they do the
// same work and take part in every collective).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/suggest.hpp"
#include "hardware/collective.hpp"
#include "hardware/figures.hpp"
#include "whatif/model/gpus.hpp"
#include "whatif/parallel/builder.hpp"
#include "whatif/parallel/gradients.hpp"
#include "whatif/parallel/in_step.hpp"

namespace foretrace::whatif {

namespace {

struct SchemeEntry {
  std::string_view name;
  Scheme scheme;
  Status (*apply)(Builder& builder);
};
// One line for each scheme.
constexpr std::array kSchemes = {
    SchemeEntry{"ddp", Scheme::kDdp, apply_ddp},
    SchemeEntry{"fsdp", Scheme::kFsdp, apply_fsdp},
    SchemeEntry{"zero1", Scheme::kZero1, apply_zero1},
    SchemeEntry{"zero2", Scheme::kZero2, apply_zero2},
    SchemeEntry{"zero3", Scheme::kFsdp, apply_fsdp},
    SchemeEntry{"ps", Scheme::kPs, apply_ps},
    SchemeEntry{"p3", Scheme::kP3, apply_p3},
    SchemeEntry{"blueconnect", Scheme::kBlueConnect, apply_blueconnect},
    SchemeEntry{"horovod", Scheme::kHorovod, apply_horovod},
};

// In the order of the enumeration.
constexpr std::array<std::string_view, 7> kCompressions = {"none", "fp16", "powersgd", "topk",
                                                           "dgc",  "qsgd", "terngrad"};

const SchemeEntry* entry_of(Scheme scheme) {
  for (const SchemeEntry& e : kSchemes) {
    if (e.scheme == scheme) return &e;
  }
  return nullptr;
}

}  // namespace

// Blom's approximation of the order statistic.
double expected_maximum(int n) {
  if (n < 2) return 0;
  const double p = (n - 0.375) / (n + 0.25);
  // Inverse of the normal distribution: Hastings' rational approximation (Abramowitz and Stegun 26.2.23).
  const double q = std::sqrt(-2 * std::log(1 - p));
  return q -
         (2.515517 + 0.802853 * q + 0.010328 * q * q) / (1 + 1.432788 * q + 0.189269 * q * q + 0.001308 * q * q * q);
}

void slow_down(Draft& draft, const Graph& g, double factor) {
  if (factor == 1) return;
  Query computation;
  computation.gpu = true;
  computation.where = [&](std::uint32_t t) { return g.kind[t] != TaskKind::kCollective; };
  draft.scale(draft.select(computation), factor);
}

double slowest_of(const Model& model, int workers) {
  return 1 + expected_maximum(workers) * hardware::measured_figures(model.device).gpu_repeat;
}

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
  return fail(ErrorCode::kUsage, fmt::format("'{}' is not a scheme for several workers", text),
              fmt::format("one of: {}", fmt::join(scheme_names(), ", ")));
}

std::string_view to_string(Compression compression) { return kCompressions[static_cast<std::size_t>(compression)]; }

std::vector<std::string> compression_names() { return {kCompressions.begin(), kCompressions.end()}; }

Result<Compression> parse_compression(std::string_view text) {
  const auto found = std::find(kCompressions.begin(), kCompressions.end(), text);
  if (found != kCompressions.end()) return static_cast<Compression>(found - kCompressions.begin());
  return fail(ErrorCode::kUsage, fmt::format("'{}' is not a gradient compression", text),
              fmt::format("one of: {}", fmt::join(kCompressions.begin() + 1, kCompressions.end(), ", ")));
}

namespace {

Status check_plan(const std::vector<GradientRange>& buckets, const Gradients& gradients) {
  if (buckets.empty() || buckets.back().last + std::size_t{1} == gradients.list.size()) return {};
  return fail(ErrorCode::kDeclined,
              fmt::format("the strategy's buckets hold {} gradients, the step has {}",
                          buckets.back().last + std::size_t{1}, gradients.list.size()),
              "it was found for another model");
}

}  // namespace

Status apply_parallelism(Model& model, Draft& draft, const Parallelism& how, const Cluster& cluster) {
  const SchemeEntry* entry = entry_of(how.scheme);
  if (entry == nullptr) return fail(ErrorCode::kUsage, "this scheme is not known");
  if (cluster.workers < 2) {
    slow_down(draft, model.graph, how.slow_worker);
    return {};
  }
  FORETRACE_TRY(const Gradients gradients, find_gradients(model));
  FORETRACE_TRY_VOID(check_plan(how.buckets, gradients));
  // Workers differ by what a GPU's steps differ by; the slowest of them sets the pace.
  slow_down(draft, model.graph, how.slow_worker * slowest_of(model, cluster.workers));
  run_in_step(model, draft, cluster.workers);
  Builder builder(model, draft, gradients, how, cluster);
  FORETRACE_TRY_VOID(entry->apply(builder));
  FORETRACE_TRY_VOID(multiply_gpus(model, cluster.workers, Batches::kOwn));
  model.buckets = plan_of(gradients, how).size();
  if (!gradients.guessed.empty()) model.not_modelled.push_back(gradients.guessed);
  if (how.slow_worker == 1) model.not_modelled.emplace_back("workers that differ by more than a GPU's typical spread");
  return {};
}

// The what-if of the scheme, with `apply` bound to this network instead of to the name of one.
Use parallel_use(const Parallelism& how, std::shared_ptr<const hardware::CollectiveModel> collectives, int workers,
                 int gpus_per_node) {
  const Result<const WhatIf*> known = find_whatif(to_string(how.scheme));
  FORETRACE_CHECK(known.has_value());
  auto own = std::make_shared<WhatIf>(**known);
  // What is bound below is no longer a parameter, but for what WhatIf::unvalidated names.
  Parameters parameters;
  if (how.scheme == Scheme::kP3) parameters.set("sender", how.sends_on_training_thread ? "training" : "thread", true);
  const std::string text = fmt::format("{}:workers={}", own->name, workers);
  own->apply = [how, collectives = std::move(collectives), workers, gpus_per_node](Model& model, Draft& draft,
                                                                                   const Parameters& /*bound above*/) {
    return apply_parallelism(model, draft, how, {collectives.get(), workers, gpus_per_node});
  };
  return {own.get(), parameters, text, own};
}

}  // namespace foretrace::whatif
