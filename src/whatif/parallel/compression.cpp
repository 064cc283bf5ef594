// Gradient compressions: what is sent and what compressing costs. Bytes sent follow the methods' own
// descriptions; what compressing costs is counted for hooks written in PyTorch, operation by operation: bytes each moves through
// memory, the kernels it launches, the CPU time of calling it, and whether the CPU waits for the GPU.

#include <algorithm>
#include <cmath>

#include "hardware/figures.hpp"
#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

Compressed compress(const Model& m, const Gradients& gradients, const Parallelism& s, int workers,
                    const Bucket& bucket) {
  Compressed c;
  const auto bytes = static_cast<double>(bucket.bytes);
  const double elements = bytes / static_cast<double>(gradients.bytes_per_element);
  const auto ns = [&](double us) { return m.cpu_time(us, host::CpuPhase::kBackward); };
  // One operation of a hook written in PyTorch; PowerSGD's Python for a tensor is a dozen small ones for a matrix (two products,
  // the orthogonalisation, views and copies), a copy for a vector.
  const host::HostCosts::Compression& host = m.host.compression;
  switch (s.compression) {
    case Compression::kNone:
      c.messages = {bytes};
      break;
    case Compression::kFp16:
      // Cast, divide in half, reduce, cast back. Sums in half precision move the same bytes more slowly.
      c.messages = {2 * elements};
      c.before_bytes = 10 * elements;
      c.before_kernels = 2;
      c.behind_bytes = 6 * elements;
      c.behind_kernels = 1;
      c.slower = hardware::measured_figures(m.device).half_sum;
      break;
    case Compression::kPowerSgd: {
      // Vectors go uncompressed; each matrix of n x m as two factors of rank r. Three collectives, one behind the other.
      double vectors = 0;
      double left = 0;
      double right = 0;
      int matrices = 0;
      for (const std::uint32_t i : bucket.gradients) {
        const Gradient& g = gradients.list[i];
        const auto n = static_cast<double>(g.rows);
        const double columns = g.rows > 0 ? static_cast<double>(g.elements) / n : 0;
        const double low = (n + columns) * s.rank;
        if (g.rows <= 1 || low * 2 >= static_cast<double>(g.elements)) {  // PyTorch's min_compression_rate of 2
          vectors += static_cast<double>(g.elements);
          c.cpu += ns(host.powersgd_vector_us);
        } else {
          left += n * s.rank;
          right += columns * s.rank;
          ++matrices;
          c.cpu += ns(host.powersgd_matrix_us);
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
      const bool sampled = s.compression == Compression::kDgc;  // its threshold comes from a sample of 1 %
      c.kind = hardware::Collective::kAllGather;
      c.messages = {8 * kept * workers};
      // Error feedback and the magnitude (20), then either five passes of a radix selection, or momentum, comparison and
      // compaction; small kernels for the selected ones.
      c.before_bytes = (sampled ? 57 : 44) * elements;
      c.before_kernels = sampled ? 42 : 29;
      c.behind_bytes = 12 * elements + 12 * kept * workers;
      c.behind_kernels = 2 + workers;
      c.cpu = ns(host.op_us * (sampled ? 40 : 28));
      c.waits = true;  // the number selected; the zero written where they were
      break;
    }
    case Compression::kQsgd:
      // 8 bits and a norm, rounded at random; added up at each worker, so gathered.
      c.kind = hardware::Collective::kAllGather;
      c.messages = {(elements + 4) * workers};
      c.before_bytes = 89 * elements;  // norm, magnitude, scale, floor, random, two comparisons, sign, cast, join
      c.before_kernels = 17;
      c.behind_bytes = (12 + 25 * workers) * elements;  // per worker: cast, scale, add
      c.behind_kernels = 2 + 5 * workers;
      c.cpu = ns(host.op_us * (33 + 4 * workers));
      break;
    case Compression::kTernGrad:
      // 2 bits and a maximum, four elements to a byte.
      c.kind = hardware::Collective::kAllGather;
      c.messages = {(elements / 4 + 4) * workers};
      c.before_bytes = 73 * elements;
      c.before_kernels = 24;
      c.behind_bytes = (12 + 36 * workers) * elements;
      c.behind_kernels = 2 + 8 * workers;
      c.cpu = ns(host.op_us * (40 + 8 * workers));
      c.waits = true;  // the table of shifts comes from the host
      break;
  }
  return c;
}

}  // namespace foretrace::whatif
