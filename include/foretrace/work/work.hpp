#pragma once
// What an operation computes on the GPU, from its shapes, element types and kernel names: the input of the cost models.
//
//   Work product = gemm_work(1, 4096, 3072, 768, Dtype::kFp32);
//   Work half = with_dtype(product, Dtype::kFp16);             // the same operation in half precision

#include <array>
#include <cstdint>
#include <string_view>

#include "foretrace/base/ids.hpp"
#include "foretrace/work/dtype.hpp"

namespace foretrace::work {

enum class Family : std::uint8_t {
  kGemm,  ///< mm, addmm, bmm, linear
  kConvForward,
  kConvDataGrad,
  kConvWeightGrad,
  kAttention,  ///< fused attention
  kBatchNorm,
  kLayerNorm,  ///< layer, group, RMS norm in one kernel
  kSoftmax,
  kElementwise,
  kReduction,
  kCopy,  ///< copies, casts, permutations
  kOptimizer,
  kEmbedding,  ///< embedding, index, gather, scatter
  kPooling,
  kLoss,
  kRnn,
  kCommunication,
  kMemory,  ///< memcpy, memset
  kOther,
};
inline constexpr std::size_t kFamilies = 19;
std::string_view to_string(Family family);

/// How an element-wise operation or copy walks its tensors; decides which kernel the framework picks.
enum class Access : std::uint8_t {
  kContiguous,    ///< same shape, same order, same element type: vectorised loads
  kMixed,         ///< contiguous with different element types (fp16 + fp32, a cast from half): scalar loads
  kStrided,       ///< broadcast, sliced or permuted with the innermost dimension kept: an index calculation per element
  kMixedStrided,  ///< both
  kTransposed,    ///< another innermost dimension: uncoalesced
};
std::string_view to_string(Access access);

/// What kind of arithmetic, where kernels of one family differ by it.
enum class Arithmetic : std::uint8_t {
  kPlain,
  kFill,     ///< writes only
  kGelu,     ///< error function or tanh per element
  kSilu,     ///< one exponential per element
  kDropout,  ///< random numbers
  kMax,      ///< pooling by maximum, with indices
  kAverage,  ///< pooling by mean
  kScatter,  ///< adds rows up where an index says
};

/// One operation's GPU work (all kernels of one framework operation share it). Sizes in elements unless named otherwise.
/// 0 and empty mean "not known" (traces without shapes): such rows have a family, and predict() does not know them.
struct Work {
  Family family = Family::kOther;
  Dtype dtype = Dtype::kFp32;      ///< of the arithmetic's inputs
  Dtype out_dtype = Dtype::kFp32;  ///< of what is written
  bool backward = false;
  Access access = Access::kContiguous;
  Arithmetic arithmetic = Arithmetic::kPlain;
  double flops = 0;  ///< multiply-adds count two
  double bytes_read = 0, bytes_written = 0;
  double fixed_read = 0,
         fixed_written = 0;  ///< of those, bytes that keep their type when `dtype` changes (indices, masks)
  std::int64_t batch = 1, m = 0, n = 0, k = 0;      ///< GEMM
  bool weight_grad = false;                         ///< GEMM that sums over the samples: its k grows with the batch
  bool a_transposed = false, b_transposed = false;  ///< GEMM operands whose rows (a: m, b: k) are contiguous in memory
  // Convolution: input N C H W, output channels O, kernel R S, stride, groups, output P Q. Batch norm and pooling use input.
  std::array<std::int64_t, 4> input{};
  std::int64_t out_channels = 0, kernel_h = 0, kernel_w = 0, stride = 1, groups = 1, out_h = 0, out_w = 0;
  bool channels_last = false;
  // Attention: batch x heads x queries x keys x head size.
  std::int64_t heads = 0, queries = 0, keys = 0, head_size = 0;
  bool causal = false, dropout = false;
  // Norm, softmax, loss, reduction: `rows` independent rows of `columns` elements; embedding: indices x row length.
  std::int64_t rows = 0, columns = 0;
  // RNN: `batch` sequences of `steps`, `k` inputs, `hidden` units, `layers` x `directions`; gates from the cell type.
  std::int64_t steps = 0, hidden = 0, layers = 0, directions = 1, gates = 1;
  std::int64_t elements = 0;       ///< of the main tensor (output of element-wise, input of reductions)
  std::int64_t tensors = 1;        ///< tensors one operation works on (foreach and fused optimizers, cat)
  StringId op;                     ///< trace string: "aten::addmm"; empty for GPU tasks without an operation
  std::uint32_t op_event = kNone;  ///< the operation that launched it
  std::uint32_t kernels = 0;       ///< GPU tasks that share this row
  bool host = false;               ///< a copy from or to the host's memory
  bool of_parameters = false;      ///< works on parameters: does not grow with the batch

  [[nodiscard]] double bytes() const { return bytes_read + bytes_written; }
  /// False where the trace recorded no shapes: only the family is known.
  [[nodiscard]] bool has_shape() const { return flops > 0 || bytes() > 0; }
  /// Largest power of two that divides every dimension a GEMM's kernel loads or stores along: 8 half-precision elements are
  /// one 16-byte access. The number of rows does not matter.
  [[nodiscard]] std::int64_t alignment() const;
  [[nodiscard]] bool is_conv() const { return family >= Family::kConvForward && family <= Family::kConvWeightGrad; }
};

// ---- Making and changing descriptions -----------------------------------------------------------------------------------

/// batch x (m x k) * (k x n).
Work gemm_work(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, Dtype dtype);
/// Fused attention; the scores never reach memory.
Work attention_work(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys,
                    std::int64_t head_size, Dtype dtype, bool backward, bool causal = false, bool dropout = false);
/// A cast of `elements` from one element type to another.
Work cast_work(std::int64_t elements, Dtype from, Dtype to);
/// An element-wise kernel that reads `inputs` tensors of `elements` and writes `outputs`, all of one type.
Work elementwise_work(std::int64_t elements, int inputs, int outputs, Dtype dtype);
/// One pass of an optimizer over its parameters: bytes read and written per parameter, over `tensors` tensors.
Work optimizer_work(std::int64_t parameters, double bytes_read, double bytes_written, std::int64_t tensors);
/// A copy on the device, or (`host`) over the link to the host.
Work memory_work(std::int64_t bytes, bool host = false);

/// The same operation with other element types: bytes and alignment follow, shapes stay. Tensors that were of another type
/// than `work.dtype` (indices, masks, statistics) keep theirs.
Work with_dtype(const Work& work, Dtype dtype);
/// The same operation on `x` times the samples. GEMMs grow in k when they are weight gradients, in batch when they are
/// batched, else in m; work that does not depend on the samples (optimizer, casts of weights) must not be passed in.
Work with_batch(const Work& work, double x);
/// The same convolution, norm or pooling in the other memory layout.
Work with_layout(const Work& work, bool channels_last);
/// Recomputes flops and bytes of GEMMs, convolutions and attention from their dimensions; others are left as they are.
void refresh(Work& work);

}  // namespace foretrace::work
