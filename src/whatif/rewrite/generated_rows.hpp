#pragma once
// Kernels that XLA generated for a program: what they take when they move other bytes. The measured kernels of a framework say nothing about
// them: a fusion that sums also writes whatever else its group of operations computes.

#include "hardware/cost.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// How a kernel's blocks fill the GPU.
struct Filling {
  double blocks = 0;    ///< that were launched; 0: unknown
  double resident = 0;  ///< that the GPU holds at once
};

/// One run of a generated kernel that took `ns`, and what it then becomes.
///
///   187 µs for 800 MB at 4.3 TB/s; in half precision 400 MB: 94 µs
///   12 µs for 8 MB, which memory delivers in 2; in half precision 4 MB: 11 µs
///   12 µs for 8 MB in 32 blocks on 132 SMs; for twice the samples 64 blocks: 12.5 µs
double generated_ns(double ns, const work::Work& was, const work::Work& becomes, const Filling& filling,
                    double short_kernel, const hardware::Device& device);

/// Whether this is a kernel of a compiled program that is no library's product.
bool is_generated(const Model& model, const work::Work& work);

/// The same for a row of a step.
hardware::Cost rescale_generated(const Model& model, const Row& row, const work::Work& becomes);

}  // namespace foretrace::whatif
