// Recurrent layers, as PyTorch asks cuDNN for them.

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

// PyTorch asks cuDNN for its persistent kernel (recurrent weights stay on chip, one launch a layer) in fp16 alone, and only for
// the shapes on its list (ATen/native/cudnn/RNN.cpp).
bool persistent_rnn(Dtype dtype, const Recurrent& r) {
  return dtype == Dtype::kFp16 && r.layers == 1 && r.directions == 1 && r.hidden <= 1024 && r.hidden % 128 == 0 &&
         r.inputs % 128 == 0 && r.batch % 8 == 0 && r.batch <= 128;
}

}  // namespace foretrace::hardware
