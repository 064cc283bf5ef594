#include "hardware/transfer_rnn.hpp"

namespace foretrace::hardware {

namespace {

// The kernel of a cell in small batches takes 2.2 to 2.4 us on an H200 (elemWiseRNNcell and LSTM_elementWise_bp1 of rnn.csv.gz), one of
// them whatever it does: the rest is latency and follows the clock.
constexpr double kCellUs = 1.3;
constexpr double kCellClockMhz = 1980;

double cell_us(const Recurrent& r, Dtype dtype, const Device& d) {
  const double clock = d.clock_mhz > 0 ? d.clock_mhz : kUsualClockMhz;
  // Gates in; the state, its output and the cell's memory out.
  const double bytes =
      static_cast<double>(r.batch * r.hidden) * static_cast<double>(r.gates + 3) * static_cast<double>(bytes_of(dtype));
  return empty_kernel_us() + kCellUs * kCellClockMhz / clock + stream_us(bytes, d);
}

}  // namespace

double recurrent_us(const Work& work, const Recurrent& r, const TransferWeights& weights, const Device& device) {
  if (r.batch <= 0 || r.steps <= 0 || r.inputs <= 0 || r.hidden <= 0 || r.layers <= 0) return 0;
  const std::int64_t gates = r.gates * r.hidden;
  const std::int64_t all = r.batch * r.steps;
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return best_product_us(work::gemm_work(1, m, n, k, work.dtype), weights, device);
  };
  const double steps = static_cast<double>(r.steps);
  const double recurrent = work.backward ? product(r.batch, r.hidden, gates) : product(r.batch, gates, r.hidden);
  double us = 0;
  for (std::int64_t layer = 0; layer < r.layers; ++layer) {
    const std::int64_t inputs = layer == 0 ? r.inputs : r.hidden * r.directions;
    us += steps * (recurrent + cell_us(r, work.dtype, device));
    us += work.backward ? product(all, inputs, gates) + product(gates, inputs, all) + product(gates, r.hidden, all)
                        : product(all, gates, inputs);
  }
  return us * static_cast<double>(r.directions);
}

}  // namespace foretrace::hardware
