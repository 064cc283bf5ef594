#pragma once
// What a GPU task computes, from its operation, shapes, element types and kernel name: the input of the cost models.
//
//   std::vector<Work> works = describe_work(trace, graph);     // graph.work[task] is a row of works
//   Work half = with_dtype(works[row], Dtype::kFp16);          // the same operation in half precision
//   Cost cost = rescale(measured_ns, works[row], device, half, device);
//
// One row describes one framework operation, whatever number of kernels it launched: an `aten::mm` with a memset, a GEMM and
// a split-K reduction is one row, and its measured time is the sum of the three. The exception is a convolution's backward
// operation, whose kernels are divided into a data-gradient row and a weight-gradient row.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::hardware {

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
  std::int64_t elements = 0;              ///< of the main tensor (output of element-wise, input of reductions)
  std::int64_t tensors = 1;               ///< tensors one operation works on (foreach and fused optimizers, cat)
  StringId op;                            ///< trace string: "aten::addmm"; empty for GPU tasks without an operation
  std::uint32_t op_event = 0xFFFF'FFFFu;  ///< the operation that launched it
  double waves = 0;                       ///< waves of blocks of its longest kernel; 0 when the trace does not tell
  std::uint32_t kernels = 0;              ///< GPU tasks that share this row
  bool host = false;                      ///< a copy from or to the host's memory
  bool of_parameters = false;             ///< works on parameters: does not grow with the batch

  [[nodiscard]] double bytes() const { return bytes_read + bytes_written; }
  /// False where the trace recorded no shapes: only the family is known.
  [[nodiscard]] bool has_shape() const { return flops > 0 || bytes() > 0; }
  /// Largest power of two that divides every dimension a GEMM's kernel loads or stores along: 8 half-precision elements are
  /// one 16-byte access. The number of rows does not matter.
  [[nodiscard]] std::int64_t alignment() const;
  [[nodiscard]] bool is_conv() const { return family >= Family::kConvForward && family <= Family::kConvWeightGrad; }
};

/// Describes all GPU tasks of a graph: fills graph.work with rows of the returned table.
std::vector<Work> describe_work(const trace::Trace& trace, graph::Graph& graph);

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

// ---- Cost ---------------------------------------------------------------------------------------------------------------

/// The time, in ns, a piece of work takes on a device, and how it was found.
struct Cost {
  double ns = 0;
  graph::Origin origin = graph::Origin::kAnalytic;
  double sigma = 0.1;  ///< of log time: error of this family's model
  bool known = false;  ///< false: outside what the models cover; do not use
};

/// Absolute model: from tables and hardware figures. Whole operation, all its kernels.
Cost predict(const Work& work, const Device& device);
/// Anchored model: `measured_ns` is what `was` took on `from`; scales it by the ratio of predictions, bounded by what the
/// hardware can do. The way to change precision, layout, shape or GPU of a measured operation. Where nothing changes the
/// measured time comes back as it is.
Cost rescale(double measured_ns, const Work& was, const Device& from, const Work& becomes, const Device& to);
/// How many kernels a product runs as when `work` differs in precision, layout or algorithm from what was measured with
/// `measured` kernels: never more, and few where the libraries' algorithms for the new one need few.
std::size_t kernels_of(const Work& work, std::size_t measured);
/// No kernel can be faster: the larger of bytes over peak bandwidth (L2 aside) and operations over peak rate. 0 when neither
/// is known.
double roofline_ns(const Work& work, const Device& device);

}  // namespace foretrace::hardware
