#pragma once
// The sizes of an operation, by kind: what a product has, a convolution has not. Sizes in elements unless named otherwise; 0
// means "not known" (traces without shapes).

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

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
  kReduction,  ///< sums; also sorting, prefix sums and Fourier transforms: what goes along rows
  kCopy,       ///< copies, casts, permutations
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
/// Families whose time is multiplication, and whose library picks the kernel by size, element type and GPU: products,
/// convolutions, attention, recurrent layers.
constexpr bool is_product(Family family) {
  return family == Family::kGemm || family == Family::kConvForward || family == Family::kConvDataGrad ||
         family == Family::kConvWeightGrad || family == Family::kAttention || family == Family::kRnn;
}

/// batch x (m x k) * (k x n).
struct Gemm {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool weight_grad = false;                         ///< sums over the samples: its k grows with the batch
  bool a_transposed = false, b_transposed = false;  ///< operands whose rows (a: m, b: k) are contiguous in memory

  /// Largest power of two that divides every dimension its kernel loads or stores along: 8 half-precision elements are one
  /// 16-byte access. The number of rows does not matter.
  [[nodiscard]] std::int64_t alignment() const;
  friend bool operator==(const Gemm&, const Gemm&) = default;
};

/// A convolution and both its gradients, which have the sizes of the forward one.
struct Convolution {
  std::array<std::int64_t, 4> input{};  ///< N C H W
  std::int64_t out_channels = 0, kernel_h = 0, kernel_w = 0, stride = 1, groups = 1, out_h = 0, out_w = 0;
  bool channels_last = false;
  std::int64_t dilation = 1;
  std::int64_t dimensions = 2;  ///< of a sample: a line has 1, a volume 3 (its depth is part of the height)
  bool tuned = false;           ///< the library tried its algorithms on this very shape (benchmark) instead of guessing

  [[nodiscard]] std::int64_t channels_per_group() const { return input[1] / (groups > 1 ? groups : 1); }
  /// One or two channels to a group: no product at all, and kernels of its own.
  [[nodiscard]] bool depthwise() const { return groups > 1 && channels_per_group() <= 2; }
  friend bool operator==(const Convolution&, const Convolution&) = default;
};

/// Fused attention: batch x heads x queries x keys x head size.
struct Attention {
  std::int64_t batch = 1, heads = 0, queries = 0, keys = 0, head_size = 0;
  bool causal = false, dropout = false;
  bool masked = false;      ///< a mask or a bias for every query and key
  std::int64_t shared = 1;  ///< heads of queries that share one head of keys and values (grouped queries)
  friend bool operator==(const Attention&, const Attention&) = default;
};

/// `batch` sequences of `steps`, each step of `inputs` numbers; `layers` x `directions` of `hidden` units with so many gates.
struct Recurrent {
  std::int64_t batch = 1, steps = 0, inputs = 0, hidden = 0, layers = 0, directions = 1, gates = 1;
  friend bool operator==(const Recurrent&, const Recurrent&) = default;
};

struct BatchNorm {
  std::array<std::int64_t, 4> input{};  ///< N C H W
  std::int64_t channels = 0, channel_elements = 0;
  bool channels_last = false;
  friend bool operator==(const BatchNorm&, const BatchNorm&) = default;
};

struct Pooling {
  /// Adaptive: averages over windows as large as the output asks for. The last three interpolate.
  enum class Of : std::uint8_t { kMaximum, kAverage, kAdaptive, kNearest, kLinear, kCubic, kOther };
  std::array<std::int64_t, 4> input{};  ///< N C H W
  Of of = Of::kOther;
  bool channels_last = false;
  std::int64_t outputs = 0;  ///< elements of the output
  std::int64_t window = 1;   ///< elements of the input each of them looks at
  friend bool operator==(const Pooling&, const Pooling&) = default;
};

/// Layer norm, softmax, losses, reductions: so many independent rows of so many elements. For a reduction, Work::access tells
/// how they lie: kContiguous one behind the other, kTransposed in planes of every sample, else column by column.
struct Rows {
  /// What is done to a row where the family does not say it: a norm without means, the logarithm of a softmax, or what is no sum.
  /// Transforms: each of `columns` complex or real numbers.
  enum class Of : std::uint8_t { kUsual, kRms, kLog, kSort, kTopK, kScan, kTransform };
  std::int64_t rows = 0, columns = 0;
  bool groups = false;  ///< a group norm: the rows are groups of channels, and kernels of its own work on them
  Of of = Of::kUsual;
  std::int64_t kept = 0;  ///< of each row: the k of topk
  /// Of a group norm: how many samples, and the channels of each. Of a sum over planes: the stretches each sum is over.
  std::int64_t samples = 0, channels = 0;
  friend bool operator==(const Rows&, const Rows&) = default;
};

/// Embedding, index, gather, scatter: as many rows as there are indices, each of so many elements that lie behind one another.
struct Gather {
  enum class Of : std::uint8_t {
    kTaken,      ///< rows out of a table: embedding, index_select, index, gather
    kWritten,    ///< rows into a table: index_put, scatter, index_copy
    kAdded,      ///< onto a table, one atomic addition for every element: index_add
    kScattered,  ///< the same with an index for every element: scatter_add
    kSorted,  ///< onto a table, indices sorted first, so that each run is added up in order: index_put that accumulates
    kTableGrad,  ///< an embedding's gradient: the same, runs cut into pieces
    kBags,       ///< the sums of bags of rows
    kBagsGrad,
    kOther,  ///< masks, samplers: how much they move depends on the values
  };
  std::int64_t rows = 0, columns = 0;
  Of of = Of::kOther;
  std::int64_t table = 0;  ///< rows of the table
  std::int64_t sets = 1;   ///< the same indices in each of so many tables: x[:, index]
  std::int64_t bags = 0;   ///< sums that are written, where rows go into bags
  bool parameter = false;  ///< the table is one, and has as many rows whatever the batch
  /// Where several indices may say the same place, and what they bring is added up there.
  [[nodiscard]] bool adds_up() const { return of == Of::kAdded || of == Of::kScattered || of == Of::kSorted; }
  friend bool operator==(const Gather&, const Gather&) = default;
};

/// What is computed per element, where kernels differ by it.
enum class Arithmetic : std::uint8_t {
  kPlain,
  kFill,      ///< writes only
  kGelu,      ///< error function or tanh
  kSilu,      ///< one exponential
  kDropout,   ///< random numbers
  kRelayout,  ///< nothing: elements in another order, a tile at a time (cuDNN's NCHW to NHWC and back)
};

/// Element-wise operations, copies, optimizers.
struct Pointwise {
  Arithmetic arithmetic = Arithmetic::kPlain;
  std::int64_t tensors = 1;  ///< that one operation works on (foreach and fused optimizers, cat)
  friend bool operator==(const Pointwise&, const Pointwise&) = default;
};

/// A copy or fill by the driver.
struct MemoryCopy {
  bool host = false;  ///< from or to the host's memory
  friend bool operator==(const MemoryCopy&, const MemoryCopy&) = default;
};

/// std::monostate: communication, and what nobody knows.
using Kind = std::variant<std::monostate, Gemm, Convolution, Attention, Recurrent, BatchNorm, Pooling, Rows, Gather,
                          Pointwise, MemoryCopy>;
/// The kind of all work of a family, with no sizes yet.
Kind kind_of(Family family);

}  // namespace foretrace::work
