#pragma once
// Limits of PyTorch's multi_tensor_apply (aten/src/ATen/native/cuda/MultiTensorApply.cuh), which runs one operation over lists of
// tensors: a launch takes as many chunks and tensors as fit into its arguments.

#include <array>

namespace foretrace::hardware::multi_tensor {

inline constexpr double kChunk = 65536;          ///< elements a block works on
inline constexpr double kBlocksPerLaunch = 320;  ///< one per chunk
/// Tensors in a launch, by how many lists it is given: one, two, …
inline constexpr std::array<double, 5> kTensorsPerLaunch = {110, 64, 48, 36, 30};

}  // namespace foretrace::hardware::multi_tensor
