#pragma once
// The law of work that streams (element-wise, copies, casts, optimizers; norms and reductions when they move to another GPU): a start-up time, and
// memory traffic and the handling of elements, which overlap in part. What-ifs compute each from sizes (cost_pointwise.cpp), the
// transfer from the measured time (transfer_same.cpp).

#include <string>

#include "hardware/cost_models.hpp"
#include "hardware/laws.hpp"
#include "hardware/transfer.hpp"

namespace foretrace::hardware {

/// What bounds a kernel on a device, in microseconds.
struct Streamed {
  double start = 0;    ///< no figure of the device shortens it
  double memory = 0;   ///< its bytes at the bandwidth that is reached
  double handled = 0;  ///< its elements at the rate SMs handle them
};
/// Never falls as a part grows.
double streaming_us(const Streamed& parts, const StreamingWeights& weights);

// The law for each shape of work, in microseconds. What-ifs ask with the shipped parameters, tools/fit_laws.py with those it tries.

/// One kernel over contiguous, strided or converted elements.
double elementwise_us(double bytes, double elements, const StreamingWeights& weights, const Device& device);
/// One operation over a list of tensors (multi_tensor_apply); `lists`: how many lists it reads.
double tensor_lists_us(double bytes, double elements, double tensors, double lists, const StreamingWeights& weights,
                       const Device& device);
/// cuDNN's direct kernel for grouped convolutions: `depth` multiplications follow each other in one thread.
double direct_convolution_us(double multiplications, double depth, const StreamingWeights& weights,
                             const Device& device);

/// Elements that an SM handles in a clock, as elements per microsecond on this device: instructions an SM issues, not its lanes,
/// decide.
double handling_rate(double per_clock, const Device& device);
/// Arithmetic in fp32 TFLOP/s that a kernel of so many blocks (0: not known) can use.
double usable_tflops(std::int64_t blocks, const Device& device);

/// same_kernel_us of transfer.hpp with these parameters.
double same_kernel_us(double measured_us, const Moved& moved, const KernelShape& shape, const Device& from,
                      const Device& to, double from_gbs, const StreamingWeights& weights);

/// Whose parameters element-wise work follows: "copy mixed half".
std::string streaming_kind(const Work& work, const Pointwise& pointwise);
/// Of kernels that stay the same on another GPU, whatever they compute.
const StreamingWeights& any_streaming();

}  // namespace foretrace::hardware
