#include "foretrace/work/work.hpp"

namespace foretrace::work {

std::string_view to_string(Family family) {
  static constexpr std::array<std::string_view, kFamilies> kNames = {
      "gemm",          "conv forward", "conv data grad", "conv weight grad",
      "attention",     "batch norm",   "layer norm",     "softmax",
      "elementwise",   "reduction",    "copy",           "optimizer",
      "embedding",     "pooling",      "loss",           "rnn",
      "communication", "memory",       "other"};
  return kNames[static_cast<std::size_t>(family)];
}

std::int64_t Gemm::alignment() const {
  const std::int64_t a = a_transposed ? m : k;
  const std::int64_t b = b_transposed ? k : n;
  std::int64_t power = 1;
  while (power < 16 && a % (power * 2) == 0 && b % (power * 2) == 0 && n % (power * 2) == 0) power *= 2;
  return power;
}

Kind kind_of(Family family) {
  switch (family) {
    case Family::kGemm:
      return Gemm{};
    case Family::kConvForward:
    case Family::kConvDataGrad:
    case Family::kConvWeightGrad:
      return Convolution{};
    case Family::kAttention:
      return Attention{};
    case Family::kRnn:
      return Recurrent{};
    case Family::kBatchNorm:
      return BatchNorm{};
    case Family::kPooling:
      return Pooling{};
    case Family::kLayerNorm:
    case Family::kSoftmax:
    case Family::kReduction:
    case Family::kLoss:
      return Rows{};
    case Family::kEmbedding:
      return Gather{};
    case Family::kElementwise:
    case Family::kCopy:
    case Family::kOptimizer:
      return Pointwise{};
    case Family::kMemory:
      return MemoryCopy{};
    case Family::kCommunication:
    case Family::kOther:
      break;
  }
  return std::monostate{};
}

}  // namespace foretrace::work
