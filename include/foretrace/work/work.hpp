#pragma once
// What an operation computes on the GPU, from its shapes, element types and kernel names: the input of the cost models. A part
// common to all work, and a kind with the sizes of its family.
//
//   Work product = gemm_work(1, 4096, 3072, 768, Dtype::kFp32);
//   Work half = with_dtype(product, Dtype::kFp16);             // the same operation in half precision
//   if (const auto* gemm = std::get_if<Gemm>(&half.kind)) row = static_cast<std::size_t>(gemm->m);

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "foretrace/base/types.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::work {

// Element types of tensors.

/// Element types that run at different rates.
enum class Dtype : std::uint8_t { kFp32, kTf32, kFp16, kBf16, kFp64, kInt, kOther, kFp8 };
inline constexpr std::size_t kDtypes = 8;
std::string_view to_string(Dtype dtype);
/// Bytes of one element in memory (tf32 is stored as fp32).
std::int64_t bytes_of(Dtype dtype);
/// From a trace's spelling: "float", "c10::Half", "c10::BFloat16", "double", "long int", …
Dtype parse_dtype(std::string_view text);
constexpr bool is_half(Dtype dtype) { return dtype == Dtype::kFp16 || dtype == Dtype::kBf16; }

// The sizes of an operation, by kind of work. Sizes in elements unless named otherwise; 0
// means "not known" (traces without shapes).

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
  enum class Operation : std::uint8_t { kMaximum, kAverage, kAdaptive, kNearest, kLinear, kCubic, kOther };
  std::array<std::int64_t, 4> input{};  ///< N C H W
  Operation operation = Operation::kOther;
  bool channels_last = false;
  std::int64_t outputs = 0;  ///< elements of the output
  std::int64_t window = 1;   ///< elements of the input each of them looks at
  friend bool operator==(const Pooling&, const Pooling&) = default;
};

/// Layer norm, softmax, losses, reductions: so many independent rows of so many elements. For a reduction, Work::access shows
/// how they are: kContiguous one behind the other, kTransposed in planes of every sample, else column by column.
struct Rows {
  /// What is done to a row where the family does not say it: a norm without means, the logarithm of a softmax, or what is no sum.
  /// Transforms: each of `columns` complex or real numbers.
  enum class Operation : std::uint8_t { kDefault, kRms, kLog, kSort, kTopK, kScan, kTransform };
  std::int64_t rows = 0, columns = 0;
  bool groups = false;  ///< a group norm: the rows are groups of channels, and kernels of its own work on them
  Operation operation = Operation::kDefault;
  std::int64_t kept = 0;  ///< of each row: the k of topk
  /// Of a group norm: how many samples, and the channels of each. Of a sum over planes: how many contiguous runs each sum covers.
  std::int64_t samples = 0, channels = 0;
  friend bool operator==(const Rows&, const Rows&) = default;
};

/// Embedding, index, gather, scatter: as many rows as there are indices, each of so many elements that are behind one another.
struct Gather {
  enum class Operation : std::uint8_t {
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
  Operation operation = Operation::kOther;
  std::int64_t table = 0;  ///< rows of the table
  std::int64_t sets = 1;   ///< the same indices in each of so many tables: x[:, index]
  std::int64_t bags = 0;   ///< sums that are written, where rows go into bags
  bool parameter = false;  ///< the table is one, and has as many rows whatever the batch
  /// Whether values of several indices that name the same place are added up there.
  [[nodiscard]] bool adds_up() const {
    return operation == Operation::kAdded || operation == Operation::kScattered || operation == Operation::kSorted;
  }
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

/// std::monostate: communication and unknown work.
using Kind = std::variant<std::monostate, Gemm, Convolution, Attention, Recurrent, BatchNorm, Pooling, Rows, Gather,
                          Pointwise, MemoryCopy>;
/// The kind of all work of a family, with no sizes yet.
Kind kind_of(Family family);

/// How an operation accesses its tensors; decides which kernel the framework picks. Not used for products.
enum class Access : std::uint8_t {
  kContiguous,    ///< same shape, same order, same element type: vectorised loads
  kMixed,         ///< contiguous with different element types (fp16 + fp32, a cast from half): scalar loads
  kStrided,       ///< broadcast, sliced or permuted with the innermost dimension kept: an index calculation per element
  kMixedStrided,  ///< both
  kTransposed,    ///< another innermost dimension: uncoalesced
};
std::string_view to_string(Access access);

/// One operation's GPU work (all kernels of one framework operation share it). 0 and empty mean "not known" (traces without
/// shapes): such work has a family, and cost models do not know it.
struct Work {
  Work() = default;
  explicit Work(Family f) : family(f), kind(kind_of(f)) {}

  Family family = Family::kOther;
  Dtype dtype = Dtype::kFp32;      ///< of the arithmetic's inputs
  Dtype out_dtype = Dtype::kFp32;  ///< of what is written
  Access access = Access::kContiguous;
  bool backward = false;
  bool of_parameters = false;      ///< works on parameters: does not grow with the batch
  std::uint32_t kernels = 0;       ///< GPU tasks that share this description
  std::uint32_t op_event = kNone;  ///< the operation that launched it
  StringId op;                     ///< trace string: "aten::addmm"; empty for GPU tasks without an operation
  double flops = 0;                ///< multiply-adds count two
  double bytes_read = 0, bytes_written = 0;
  /// Of those, bytes that keep their type when `dtype` changes (indices, masks).
  double fixed_read = 0, fixed_written = 0;
  /// Of a compiled program's product: elements of the operand that does not depend on the samples, its weight.
  std::int64_t weight_elements = 0;
  /// What it took in strict fp32 on the trace's GPU, in ns, where a what-if made it TF32; 0 otherwise. A GPU without TF32 does
  /// it as before.
  double strict_ns = 0;
  /// Of log time: how far the model that gave its cost may be off, where a change gave it one; 0 otherwise.
  double sigma = 0;
  bool written = false;       ///< by whoever makes the change: no library has the kernel
  std::int64_t elements = 0;  ///< of the main tensor: what element-wise work and norms write, what reductions read
  Kind kind;                  ///< always the family's

  [[nodiscard]] double bytes() const { return bytes_read + bytes_written; }
  /// False where the trace recorded no shapes: only the family is known.
  [[nodiscard]] bool has_shape() const { return flops > 0 || bytes() > 0; }
  /// Work of another family on the same tensors. Sizes that only the old kind has are forgotten.
  void become(Family other);
};

inline bool is_product(const Work& work) { return is_product(work.family); }
inline bool is_conv(const Work& work) { return std::holds_alternative<Convolution>(work.kind); }
inline bool is_depthwise(const Work& work) {
  const auto* conv = std::get_if<Convolution>(&work.kind);
  return conv != nullptr && conv->depthwise();
}
/// Of convolutions, batch norms and pooling; false for all others.
bool channels_last(const Work& work);

// ---- Making and changing descriptions -----------------------------------------------------------------------------------

/// batch x (m x k) * (k x n).
Work gemm_work(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, Dtype dtype);
/// Fused attention; the scores never reach memory.
Work attention_work(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys,
                    std::int64_t head_size, Dtype dtype, bool backward, bool causal = false, bool dropout = false);
/// A cast of `elements` from one element type to another.
Work cast_work(std::int64_t elements, Dtype from, Dtype to);
/// A convolution library's copy of a tensor into the other memory layout, NCHW to NHWC or back.
Work relayout_work(std::int64_t elements, Dtype dtype);
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
/// Recomputes flops and bytes of products and of work by index from their dimensions; others are left as they are.
void refresh(Work& work);

// What the GPU tasks of a graph compute: a table of descriptions, and the row of each task.
//
//   work::Works works = work::describe(trace, graph);
//   double flops = 0;
//   if (const work::Work* w = works.of(task)) flops += w->flops;
//
// One row describes one framework operation, whatever number of kernels it launched: an `aten::mm` with a memset, a GEMM and
// a split-K reduction is one row, and its measured time is the sum of the three. The exception is a convolution's backward
// operation, whose kernels are divided into a data-gradient row and a weight-gradient row.

struct Works {
  std::vector<Work> rows;
  Column<std::uint32_t> of_task;  ///< by task of the graph: a row, kNone where it has no description

  [[nodiscard]] std::size_t size() const { return rows.size(); }
  const Work& operator[](std::size_t row) const { return rows[row]; }
  /// The row of a task, kNone for those without a description.
  [[nodiscard]] std::uint32_t row_of(std::size_t task) const { return task < of_task.size() ? of_task[task] : kNone; }
  /// What a task computes; null where it has no description.
  [[nodiscard]] const Work* of(std::size_t task) const {
    const std::uint32_t row = row_of(task);
    return row == kNone ? nullptr : &rows[row];
  }
  /// A new row, for tasks to come.
  std::uint32_t add(const Work& work) {
    rows.push_back(work);
    return static_cast<std::uint32_t>(rows.size() - 1);
  }
};

/// Describes all GPU tasks of a graph from their operations, shapes, element types and kernel names.
Works describe(const trace::Trace& trace, const graph::Graph& graph);

}  // namespace foretrace::work
