#pragma once
// The cost models by family. Times in microseconds; 0 when the work is outside what the model covers. Each model is built
// from hardware quantities (rates, bandwidth, SMs) times shares that were measured on an H200, so that it speaks of other
// devices too; the constants and their errors stand beside the formulas.

#include "foretrace/hardware/work.hpp"

namespace foretrace::hardware {

/// A modelled time and the spread of log(measured / modelled) around it.
struct Model {
  double us = 0;
  double sigma = 0.3;
};

Model gemm_model(const Work& work, const Device& device);
Model conv_model(const Work& work, const Device& device);
Model attention_model(const Work& work, const Device& device);
Model rnn_model(const Work& work, const Device& device);
/// Everything that is limited by memory: element-wise, copies, norms, softmax, reductions, embedding, pooling, loss,
/// optimizer, host copies.
Model memory_model(const Work& work, const Device& device);

/// Bytes moved at the streaming rate, in microseconds.
inline double stream_us(double bytes, const Device& device) { return bytes / (device.streaming_gbs() * 1e3); }

}  // namespace foretrace::hardware
