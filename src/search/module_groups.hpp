#pragma once
// Modules that decisions are made for one by one: repeated blocks, and the layers outside of them.

#include <string>
#include <vector>

#include "foretrace/whatif/model.hpp"

namespace foretrace::search {

struct ModuleGroup {
  std::string name;  ///< qualified name of the module
  Ns products = 0;   ///< GPU time of its matrix products and convolutions, both passes
  Ns others = 0;     ///< of element-wise operations, copies and normalisations: what a compiler fuses
};

/// In the order of their forward pass; empty where the trace names no layers.
std::vector<ModuleGroup> module_groups(const whatif::Model& model);

/// Names of the `count` groups that weigh most, in the order of their forward pass. Equal ones: the earlier first.
std::vector<std::string> heaviest(const std::vector<ModuleGroup>& groups, Ns ModuleGroup::* weight, std::size_t count);

/// How many groups to try next, when `now` of `all` are chosen: one fewer, one more, half and twice as many.
std::vector<std::size_t> near_counts(std::size_t now, std::size_t all);

}  // namespace foretrace::search
