#include "hardware/shared_memory.hpp"

#include <algorithm>

namespace foretrace::hardware {

using work::Work;

namespace {

// PyTorch's softmax of long rows (SoftMax.cu): a block reads its row for the maximum, for the sum and for the result; the gradient for the
// sum and for the result, where that of log_softmax sums one of its two inputs. Rows of up to 48 KB stay in shared memory.
double bytes_read_again(const Work& w, const Device& whole) {
  const auto* rows = std::get_if<work::Rows>(&w.kind);
  if (w.family != work::Family::kSoftmax || rows == nullptr || rows->rows <= 0) return 0;
  constexpr double kSharedRow = 48e3;
  constexpr int kThreads = 1024;  // of a block for a long row
  const double input_row = static_cast<double>(rows->columns) * static_cast<double>(work::bytes_of(w.dtype));
  if (input_row <= kSharedRow) return 0;
  const double blocks = static_cast<double>(whole.sm_count) * std::max(1, whole.threads_per_sm / kThreads);
  const double in_flight = std::min(blocks, static_cast<double>(rows->rows)) / static_cast<double>(rows->rows);
  if (in_flight * w.bytes() <= whole.l2_mb * 1e6) return 0;
  if (!w.backward) return 2 * w.bytes_read;
  return rows->operation == work::Rows::Operation::kLog ? w.bytes_read / 2 : w.bytes_read;
}

}  // namespace

Parts parts_of_gpu(const Device& device) {
  const Result<Device> whole = find_device(device.name);
  if (!whole || device.sm_count <= 0 || device.sm_count >= whole->sm_count) return {};
  return {static_cast<double>(whole->sm_count) / device.sm_count, *whole};
}

double bytes_to_memory(const Work& w, const Device& whole) {
  return std::max(0.0, w.bytes() + bytes_read_again(w, whole) - whole.l2_mb * 1e6);
}

double least_in_step_ns(const Work& w, const Parts& parts) {
  const double gbs = parts.whole.streaming_gbs();
  return parts.count > 1 && gbs > 0 ? parts.count * bytes_to_memory(w, parts.whole) / gbs : 0;
}

}  // namespace foretrace::hardware
