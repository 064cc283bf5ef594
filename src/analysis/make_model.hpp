#pragma once
// The model that what-ifs change, from a trace.

#include <optional>

#include "foretrace/host/measured_step.hpp"
#include "foretrace/whatif/model.hpp"

namespace foretrace::analysis {

/// The model of a step, ready for what-ifs. `replayed`: the step simulated unchanged.
Result<whatif::Model> make_model(const trace::Trace& trace, const trace::Step& step, const graph::Graph& graph,
                                 Ns replayed, std::optional<Ns> measured, const host::CpuPrior& prior = {});

}  // namespace foretrace::analysis
