// Gradient compressions: what goes over the wire and what compressing costs. Bytes are counted from the methods' own
// descriptions; the kernels are element-wise passes, products with a thin matrix (PowerSGD) or a selection (top-k).

#include <algorithm>
#include <cmath>

#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

namespace {

// PowerSGD's Python per tensor: a dozen small operations for a matrix (two products, the orthogonalisation, views and copies),
// a copy for a vector. From the steps of ResNet-50 and BERT-base on two ranks (data/h200-ranks), which are bound by it.
constexpr Ns kPerMatrix = 400'000;
constexpr Ns kPerVector = 40'000;

}  // namespace

Compressed compress(const Builder& b, const Bucket& bucket) {
  Compressed c;
  const Strategy& s = b.strategy;
  const auto bytes = static_cast<double>(bucket.bytes);
  const double elements = bytes / static_cast<double>(b.gradients.bytes_per_element);
  const double workers = b.cluster.workers;
  switch (s.compression) {
    case Compression::kNone:
      c.messages = {bytes};
      break;
    case Compression::kFp16:
      // Cast, divide in half, reduce, cast back. Sums in half precision move the same bytes 1.0 to 1.2 times as slowly
      // (all-reduces of 1 to 64 MiB in data/h200-ranks/collectives.jsonl).
      c.messages = {2 * elements};
      c.before_bytes = 10 * elements;
      c.before_kernels = 2;
      c.behind_bytes = 6 * elements;
      c.behind_kernels = 1;
      c.slower = 1.1;
      break;
    case Compression::kPowerSgd: {
      // Vectors go uncompressed; each matrix of n x m as two factors of rank r. Three collectives, one behind the other.
      double vectors = 0;
      double left = 0;
      double right = 0;
      int matrices = 0;
      for (const std::uint32_t i : bucket.gradients) {
        const Gradient& g = b.gradients.list[i];
        const auto n = static_cast<double>(g.rows);
        const double m = g.rows > 0 ? static_cast<double>(g.elements) / n : 0;
        const double low = (n + m) * s.rank;
        if (g.rows <= 1 || low * 2 >= static_cast<double>(g.elements)) {  // PyTorch's min_compression_rate of 2
          vectors += static_cast<double>(g.elements);
          c.cpu += kPerVector;
        } else {
          left += n * s.rank;
          right += m * s.rank;
          ++matrices;
          c.cpu += kPerMatrix;
        }
      }
      c.messages = {4 * vectors, 4 * left, 4 * right};
      // Error feedback (read two, write two), two products that read the matrix, one that writes it, the new error.
      c.before_bytes = 16 * elements;
      c.before_kernels = 2 + matrices;
      c.between_bytes = 4 * elements;
      c.between_kernels = matrices * 2;
      c.behind_bytes = 16 * elements;
      c.behind_kernels = 2 + matrices;
      break;
    }
    case Compression::kTopK:
    case Compression::kDgc: {
      // The largest share of elements with their indices, gathered from all: n times as much arrives as one sends.
      const double kept = std::max(1.0, elements * s.ratio);
      c.kind = hardware::Collective::kAllGather;
      c.messages = {8 * kept * workers};
      const bool sampled = s.compression == Compression::kDgc;  // its threshold comes from a sample of 1 %
      c.before_bytes =
          (sampled ? 8 : 32) * elements + (sampled ? 12 * elements : 8 * elements);  // select; error feedback
      c.before_kernels = sampled ? 6 : 5;
      c.behind_bytes = 4 * elements + 12 * kept * workers;
      c.behind_kernels = 2;
      break;
    }
    case Compression::kQsgd:
    case Compression::kTernGrad: {
      // 8 bits and a norm, or 2 bits and a maximum, per element; added up at each worker, so gathered.
      const double bits = s.compression == Compression::kQsgd ? 8 : 2;
      c.kind = hardware::Collective::kAllGather;
      c.messages = {elements * bits / 8 * workers};
      c.before_bytes = 4 * elements + 8 * elements + elements * bits / 8;
      c.before_kernels = 4;
      c.behind_bytes = workers * elements * bits / 8 + 4 * elements;
      c.behind_kernels = 2;
      break;
    }
  }
  return c;
}

}  // namespace foretrace::whatif
