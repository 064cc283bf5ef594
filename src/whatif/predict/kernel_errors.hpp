#pragma once
// Errors of kernel times in a changed step, by what limits the kernels.

#include <array>
#include <string_view>

#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

/// What holds a kernel back decides how its model errs: an element-wise kernel, a norm and a cast all wait for memory.
inline constexpr std::array<std::string_view, 5> kErrorFamilies = {"gemm", "convolution", "attention", "rnn",
                                                                   "bandwidth"};
/// Its index in kErrorFamilies.
std::size_t error_family(work::Family family);

work::Family family_of(const Model& model, std::size_t task);

/// Whether a change replaced a library's kernel by one that has to be written for it.
bool is_written(const Model& model, std::size_t task);

/// What kernels add to a band by what the cost models say of each one, of log time. Kernels of the same work err alike, others on their
/// own. What steps showed on average covers that where a step has many kernels; one that rests on few, or on kernels unlike any
/// measured one, is less certain. On a GPU whose kernels nobody measured all modelled ones of a family err together, as they do when
/// they are moved there.
struct KernelSigmas {
  double scaled = 0;                                                  ///< all scaled kernels together
  std::array<double, kErrorFamilies.size()> modelled{}, elsewhere{};  ///< modelled ones of each family
};

KernelSigmas kernel_sigmas(const Model& model);

}  // namespace foretrace::whatif
