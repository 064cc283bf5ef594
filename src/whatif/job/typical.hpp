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

/// Tasks of `mine` and what the same task of `other` costs, in order of `mine`. Tasks are the same by lane, kind, name and place among
/// those; where one rank has more of a kind than the other, none of that kind are paired. Collectives are never paired.
std::vector<std::pair<std::uint32_t, Ns>> costs_elsewhere(const graph::Graph& mine, const graph::Graph& other,
                                                          bool gpu);

}  // namespace foretrace::whatif
