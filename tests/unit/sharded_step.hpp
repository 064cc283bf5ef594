#pragma once
// What tests of steps divided over several GPUs ask of a prediction.

#include "hardware/collective.hpp"
#include "measured_step.hpp"

namespace foretrace::test {

inline std::int64_t collectives_named(const whatif::Prediction& p, std::string_view name) {
  std::int64_t n = 0;
  for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
    const bool collective = p.graph.kind[t] == graph::TaskKind::kCollective;
    n += collective && p.graph.task_name(t).find(name) != std::string_view::npos ? 1 : 0;
  }
  return n;
}

/// Time of all collectives with this name.
inline Ns time_of(const whatif::Prediction& p, std::string_view name) {
  Ns all = 0;
  for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
    const bool collective = p.graph.kind[t] == graph::TaskKind::kCollective;
    if (collective && p.graph.task_name(t).find(name) != std::string_view::npos) all += p.graph.cost[t];
  }
  return all;
}

inline Ns cost_of(hardware::Collective kind, double bytes, int ranks) {
  const hardware::FabricCollectives model(hardware::fabric_from("DGX-H100").value());
  return model.cost({kind, bytes, ranks}).ns;
}

/// Rows of tokens in the step, from what its embedding looks up.
inline double tokens(const std::string& name) {
  const whatif::Model& m = measured_step(name).model;
  std::int64_t most = 0;
  for (const work::Work& w : m.works.rows) {
    if (const auto* g = std::get_if<work::Gemm>(&w.kind); g != nullptr && !w.backward && g->batch == 1)
      most = std::max(most, g->m);
  }
  return static_cast<double>(most);
}

/// One of states and activations must not rise with the number of GPUs.
inline void expect_no_more(const whatif::Prediction& now, const whatif::Prediction& before, const std::string& what) {
  EXPECT_LE(*now.peak_bytes, *before.peak_bytes) << what;
  EXPECT_LE(now.peak_parts->activations, before.peak_parts->activations) << what;
  EXPECT_LE(now.peak_parts->optimizer_states, before.peak_parts->optimizer_states) << what;
  EXPECT_LE(now.peak_parts->parameters, before.peak_parts->parameters) << what;
}

}  // namespace foretrace::test
