#pragma once
// What an operation computes on the GPU, from its shapes, element types and kernel names: the input of the cost models. A head
// that all work has, and a kind with the sizes of its family.
//
//   Work product = gemm_work(1, 4096, 3072, 768, Dtype::kFp32);
//   Work half = with_dtype(product, Dtype::kFp16);             // the same operation in half precision
//   if (const auto* gemm = std::get_if<Gemm>(&half.kind)) row = static_cast<std::size_t>(gemm->m);

#include <cstdint>
#include <string_view>
#include <variant>

#include "foretrace/base/ids.hpp"
#include "foretrace/work/dtype.hpp"
#include "foretrace/work/kinds.hpp"

namespace foretrace::work {

/// How an operation walks its tensors; decides which kernel the framework picks. Products do not ask.
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
  /// What it took in strict fp32 on the trace's GPU, in ns, where a what-if made it TF32; 0 otherwise. A GPU without TF32 does
  /// it as before.
  double strict_ns = 0;
  /// Of log time: how far the model that gave its cost may be off, where a change gave it one; 0 otherwise.
  double sigma = 0;
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

}  // namespace foretrace::work
