#pragma once
// The typical rank of each class of ranks, and its tasks next to those of another rank.

#include <cstdint>
#include <utility>
#include <vector>

#include "whatif/job/job_models.hpp"

namespace foretrace::whatif {

/// By slot: the rank of its class whose work of this kind (kernels and copies of the GPU, or the CPU's) is the lower median. The
/// class is what does the same work by construction.
std::vector<std::uint32_t> typical_ranks(const JobModels& job, bool gpu);

/// Tasks of `mine` and what they would cost on `other`, in order of `mine` (ranks/exchange.hpp). Tasks are the same by lane, kind, name and
/// place among those. Collectives are left out.
std::vector<std::pair<std::uint32_t, Ns>> costs_elsewhere(const graph::Graph& mine, const graph::Graph& other,
                                                          bool gpu);

}  // namespace foretrace::whatif
