#pragma once
// What a GPU task computes, from its operation, shapes, element types and kernel name: the input of the cost models.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::hardware {

enum class Family : std::uint8_t {
  kGemm,          ///< mm, addmm, bmm, linear
  kConvForward,
  kConvDataGrad,
  kConvWeightGrad,
  kAttention,     ///< fused attention
  kBatchNorm,
  kLayerNorm,     ///< layer, group, RMS norm in one kernel
  kSoftmax,
  kElementwise,
  kReduction,
  kCopy,          ///< copies, casts, permutations
  kOptimizer,
  kEmbedding,     ///< embedding, index, gather, scatter
  kPooling,
  kLoss,
  kRnn,
  kCommunication,
  kMemory,        ///< memcpy, memset
  kOther,
};
inline constexpr std::size_t kFamilies = 19;
std::string_view to_string(Family family);

/// One operation's GPU work (all kernels of one framework operation share it). Sizes in elements unless named otherwise.
struct Work {
  Family family = Family::kOther;
  Dtype dtype = Dtype::kFp32;           ///< of the arithmetic's inputs
  bool backward = false;
  double flops = 0;
  double bytes_read = 0, bytes_written = 0;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;                  ///< GEMM
  // Convolution: input N C H W, output channels O, kernel R S, stride, groups, output P Q.
  std::array<std::int64_t, 4> input{};
  std::int64_t out_channels = 0, kernel_h = 0, kernel_w = 0, stride = 1, groups = 1, out_h = 0, out_w = 0;
  bool channels_last = false;
  // Attention: batch x heads x queries x keys x head size.
  std::int64_t heads = 0, queries = 0, keys = 0, head_size = 0;
  std::int64_t elements = 0;            ///< of the main tensor (output of element-wise, input of reductions)
  StringId op;                          ///< trace string: "aten::addmm"
  std::uint32_t op_event = 0xFFFF'FFFFu;  ///< the operation that launched it
  double waves = 0;
};

/// Describes all GPU tasks of a graph: fills graph.work with rows of the returned table.
std::vector<Work> describe_work(const trace::Trace& trace, graph::Graph& graph);

/// The time, in ns, a piece of work takes on a device, and how it was found.
struct Cost {
  double ns = 0;
  graph::Origin origin = graph::Origin::kAnalytic;
  double sigma = 0.1;   ///< of log time: error of this family's model
  bool known = false;   ///< false: outside what the models cover; do not use
};

/// Absolute model: from tables and hardware figures. Whole operation, all its kernels.
Cost predict(const Work& work, const Device& device);
/// Anchored model: `measured_ns` is what `was` took on `from`; scales it by the ratio of predictions, bounded by what the
/// hardware can do. The way to change precision, layout, shape or GPU of a measured operation.
Cost rescale(double measured_ns, const Work& was, const Device& from, const Work& becomes, const Device& to);

}  // namespace foretrace::hardware
