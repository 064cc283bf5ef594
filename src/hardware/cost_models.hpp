#pragma once
// The cost model's estimates. Times in microseconds; 0 when the work is outside what the model covers. Laws are built from hardware
// quantities (rates, bandwidth, SMs, clock), so that they hold for other devices too; residuals were measured on an H200 with PyTorch
// 2.11, CUDA 13.0 and cuDNN 9.19.

#include "hardware/cost.hpp"
#include "hardware/neighbours.hpp"
#include "trace/latencies.hpp"

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

/// A modelled time, and the spread of log(measured / modelled) around it.
struct Estimate {
  double us = 0;
  double sigma = 0;
};

class Tables;

/// Element-wise work, copies, casts, optimizers: by the law of work that streams (cost_streaming.hpp).
Estimate pointwise_model(const Work& work, const Pointwise& pointwise, const Tables& tables, const Device& device);
/// Copies and fills by the driver.
Estimate memory_model(const Work& work, const MemoryCopy& copy, const Tables& tables, const Device& device);
/// Any work: its law times the residual of the nearest measured kernels. 0 where there is neither.
Estimate estimate(const Work& work, const Tables& tables, const Device& device);

/// A kernel that does nothing.
inline double empty_kernel_us() { return 1e-3 * static_cast<double>(trace::default_latencies().empty_kernel); }

/// Bytes moved at the streaming rate, in microseconds.
inline double stream_us(double bytes, const Device& device) { return bytes / (device.streaming_gbs() * 1e3); }

}  // namespace foretrace::hardware
