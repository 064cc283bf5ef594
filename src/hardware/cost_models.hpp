#pragma once
// The cost models by family. Times in microseconds; 0 when the work is outside what the model covers. Each model is built
// from hardware quantities (rates, bandwidth, SMs, clock) times shares measured on an H200 with PyTorch 2.11, CUDA 13.0 and
// cuDNN 9.19, so that it speaks of other devices too. Beside each constant stands what it was read from, and the error that
// remains: "held out" is on training steps whose kernels had no part in choosing it.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graph/latencies.hpp"
#include "hardware/cost.hpp"
#include "hardware/neighbours.hpp"

namespace foretrace::hardware {

using work::Access;
using work::Arithmetic;
using work::Attention;
using work::BatchNorm;
using work::Convolution;
using work::Dtype;
using work::Family;
using work::Gather;
using work::Gemm;
using work::is_half;
using work::MemoryCopy;
using work::Pointwise;
using work::Pooling;
using work::Recurrent;
using work::Rows;
using work::Work;

/// A modelled time and the spread of log(measured / modelled) around it.
struct ModelledTime {
  double us = 0;
  double sigma = 0;
};

// Each takes the head of the work and its kind.
/// The law of products (cost_product.hpp), and what measured ones tell beside it.
ModelledTime gemm_model(const Work& work, const Gemm& gemm, const Device& device);
/// One kernel for all time steps of a layer.
bool persistent_rnn(Dtype dtype, const Recurrent& rnn);
/// Element-wise work, copies, casts, optimizers: by the law of what streams (cost_streaming.hpp).
ModelledTime pointwise_model(const Work& work, const Pointwise& pointwise, const Device& device);
/// Copies and fills by the driver.
ModelledTime memory_model(const Work& work, const MemoryCopy& copy, const Device& device);
/// Products, convolutions, attention, recurrent layers, norms, softmax, pooling, losses, reductions, sorting, index and gather: the share of what the device
/// could do that measured operations of like shape reach (measured.hpp). 0 where nothing like it was measured.
ModelledTime measured_model(const Work& work, const Device& device);
/// The same where it is known what an operation takes that differs in its sizes, element type or layout: a measured neighbour
/// more, or what is like it in another pool. 0 where neither holds.
ModelledTime measured_model_beside(const Work& work, const Work& known, double known_us, const Device& device);

/// How well the measured operations of one pool tell each other: log(predicted / measured). For tools/fit_kernels.py.
struct MeasuredPool {
  std::string name;  ///< "conv fwd grouped fp16 nhwc"
  std::vector<Neighbours::Sample> samples;
  std::vector<double> layer_left_out;  ///< each without its group: of a convolution all batch sizes of the layer
  std::vector<double>
      shape_left_out;  ///< each without its shape, however it was measured: the layer's other batches are known
};
std::vector<MeasuredPool> measured_pools();
/// The same where all convolutions of one group count, dilation, filter size or stride are left out together.
struct LeftOutFamily {
  std::string pool, what;
  std::vector<double> errors;
};
std::vector<LeftOutFamily> left_out_families();
/// The same where the operation is known as it was before a change: at another batch size, in fp32, in the other layout.
struct LeftOutChange {
  std::string pool, what;
  std::vector<double> errors;
};
std::vector<LeftOutChange> left_out_changes();
/// Scales fitted anew: what kernels/*.scales.csv holds.
struct PoolScales {
  std::string pool;
  std::size_t samples = 0;
  double spread = 0, from_fp32 = 0, from_layout = 0, tuned = 0;
  Scales scales;
  std::size_t features = 0;
};
/// Of the pools whose names start with `only`. `further`: the search goes on from the scales they have.
std::vector<PoolScales> fit_pools(std::string_view only, bool further);

/// What a kernel takes that does nothing: as the table of latencies has it; no figure of a device file says otherwise elsewhere.
inline double empty_kernel_us() { return 1e-3 * static_cast<double>(graph::usual_latencies().empty_kernel); }

/// Elements per clock and SM, as a rate in elements per microsecond.
inline double element_rate(double per_clock_and_sm, const Device& device) {
  return per_clock_and_sm * device.sm_count * clock_of(device);
}
/// Bytes moved at the streaming rate, in microseconds.
inline double stream_us(double bytes, const Device& device) { return bytes / (device.streaming_gbs() * 1e3); }

}  // namespace foretrace::hardware
