#pragma once
// A recurrent layer as its parts, for its ratio between two GPUs.

#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"

namespace foretrace::hardware {

/// One product over all time steps, then step by step the recurrent product and the cell that waits for it; backward the same the other way
/// round and the gradients of both weights. In microseconds; 0 where sizes are not known. Grows with every size, never with a better
/// figure of the device.
///
/// Against 324 operations in bf16 measured on an H200 (data/h200-operations/rnn.csv.gz; LSTM, GRU and plain, one to three layers): forward 4 % too
/// much in the median and half of them within 21 %, backward 5 % too little and 28; log time spreads by 0.38 and 0.45 around it. Around
/// the roofline it spreads by 1.7: measured times are 11 to 1000 times as long, because steps wait.
double recurrent_us(const Work& work, const Recurrent& rnn, const TransferWeights& weights, const Device& device);

}  // namespace foretrace::hardware
