#pragma once
// A recurrent layer as its parts, for its ratio between two GPUs.

#include "hardware/cost_models.hpp"
#include "hardware/transfer_product.hpp"

namespace foretrace::hardware {

/// One product over all time steps, then step by step the recurrent product and the cell that waits for it; backward the same the other way
/// round and the gradients of both weights. In microseconds; 0 where sizes are not known. Grows with every size, never with a better
/// figure of the device.
///
/// Against 324 operations in bf16 measured on an H200 (data/h200-operations/rnn.csv.gz; LSTM, GRU and plain, one to three layers) the
/// forward ones are missed by -4 % in the median, half of them by less than 20 %, backward ones by 4 and 35 %; the roofline of the
/// same operations is a factor of 3 to 40 below them, because steps wait.
double recurrent_us(const Work& work, const Recurrent& rnn, const TransferWeights& weights, const Device& device);

}  // namespace foretrace::hardware
