#pragma once
// Families by name: of framework operations, and of kernels where no operation shows.

#include <string_view>

#include "foretrace/work/work.hpp"

namespace foretrace::work {

/// How an operation's arguments are to be read; several operations share one signature.
enum class Form : std::uint8_t {
  kNone,           ///< family only
  kMm,             ///< (a, b)
  kAddmm,          ///< (bias, a, b)
  kBmm,            ///< (a, b), batched
  kBaddbmm,        ///< (bias, a, b), batched
  kLinear,         ///< (input, weight, bias)
  kConvCudnn,      ///< (input, weight, padding, stride, dilation, groups, …)
  kConvGeneric,    ///< (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, …)
  kConvDepthwise,  ///< (input, weight, kernel_size, bias, stride, padding, dilation)
  kConvBackward,   ///< (grad, input, weight, bias_sizes, stride, …, groups at 9, output_mask at 10)
  kAttention,      ///< (query, key, value, …)
  kAttentionGrad,  ///< (grad, query, key, value, …)
  kBatchNorm,      ///< (input, weight, …)
  kBatchNormGrad,  ///< (input, grad, weight, …) in either order
  kLayerNorm,      ///< (input, normalized_shape, …)
  kLayerNormGrad,  ///< (grad, input, normalized_shape, …)
  kSoftmax,        ///< (input, dim, …)
  kSoftmaxGrad,    ///< (grad, output, dim, …)
  kElementwise,    ///< reads every tensor argument, writes one
  kInPlace,        ///< reads every tensor argument, writes the first
  kCompare,        ///< writes bool
  kFill,           ///< writes the first
  kCopy,           ///< (destination, source)
  kCat,            ///< (tensors, dim)
  kDropout,        ///< writes output and mask
  kReduction,      ///< (input, dims, keepdim, …)
  kEmbedding,      ///< (weight, indices)
  kEmbeddingGrad,  ///< (grad, indices, rows, …)
  kGather,         ///< reads and writes as many as the index (or the output)
  kAlong,          ///< sorting, prefix sums, transforms: rows along one dimension or several
  kPooling,        ///< (input, kernel, stride, …)
  kPoolingGrad,    ///< (grad, input, …)
  kLoss,           ///< (input, target, …)
  kLossGrad,       ///< (grad, input, target, …)
  kRnn,            ///< (input, weights, …)
  kForeach,        ///< tensor lists, each read; the first written
};

struct OpClass {
  Family family = Family::kOther;
  Form form = Form::kNone;
  bool backward = false;
};

/// "aten::addmm" -> {kGemm, kAddmm}; {kOther, kNone} when the name says nothing ("ProfilerStep#3", a user's range).
OpClass classify_op(std::string_view name);

/// The family a kernel's own name shows; kOther when it shows none.
Family family_of_kernel(std::string_view kernel);
/// Does the name say that this kernel computes a data gradient (kConvDataGrad) or a weight gradient (kConvWeightGrad)?
/// kOther when it says neither; kCopy for layout changes and scaling that belong to what follows; kReduction for those that
/// belong to what came before.
Family conv_part_of_kernel(std::string_view kernel);
/// Is this fp32 operation's kernel using TF32 tensor cores?
bool is_tf32_kernel(std::string_view kernel);
/// Whether a compiler wrote the kernel for this model (TorchInductor's Triton kernels), instead of a library.
bool is_generated_kernel(std::string_view kernel);
/// The element type a kernel's name carries, kOther when none.
Dtype dtype_of_kernel(std::string_view kernel);

}  // namespace foretrace::work
