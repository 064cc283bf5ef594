#include "hardware/cost_recurrent.hpp"

#include "hardware/choice/chooser.hpp"

namespace foretrace::hardware {

namespace {

double as_double(std::int64_t v) { return static_cast<double>(v); }

}  // namespace

std::string recurrent_kind(const Work& w, const Recurrent& r) {
  std::string kind = w.backward ? "bwd " : "fwd ";
  kind.append(is_half(w.dtype) ? "half" : w.dtype == Dtype::kTf32 ? "tf32" : "fp32");
  return kind.append(suffix(recurrent_kernel(w, r)));
}

double recurrent_us(const Work& w, const Recurrent& r, const TransferWeights& weights, const Laws& laws,
                    const Device& d) {
  if (r.batch <= 0 || r.steps <= 0 || r.inputs <= 0 || r.hidden <= 0 || r.layers <= 0) return 0;
  const RecurrentWeights* found = laws.recurrent(recurrent_kind(w, r), d);
  if (found == nullptr || !(d.streaming_gbs() > 0)) return 0;
  const RecurrentWeights& p = *found;
  const std::int64_t gates = r.gates * r.hidden;
  const std::int64_t all = r.batch * r.steps;
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return best_product_us(work::gemm_work(1, m, n, k, w.dtype), weights, d);
  };
  const double clock = clock_of(d) / 1e3;
  const double bytes = as_double(bytes_of(w.dtype));
  // The cell reads its gates and writes the state, its output and its memory; a kernel that waits follows the clock.
  const double cell = stream_us(as_double(r.batch * r.hidden) * as_double(r.gates + 3) * bytes, d);
  double step = p.cell / clock + p.move * cell;
  if (recurrent_kernel(w, r) != RecurrentKernel::kByStep) {
    const double multiplied = as_double(r.gates) * as_double(r.hidden) * as_double(r.hidden);
    step += (p.weights * multiplied / 1e5 + p.samples * multiplied * as_double(r.batch) / 1e7) / clock;
  } else {
    step += p.recurrent * (w.backward ? product(r.batch, r.hidden, gates) : product(r.batch, gates, r.hidden));
  }
  double us = 0;
  for (std::int64_t layer = 0; layer < r.layers; ++layer) {
    const std::int64_t inputs = layer == 0 ? r.inputs : r.hidden * r.directions;
    us += as_double(r.steps) * step + p.begin / clock;
    us += p.product * (w.backward
                           ? product(all, inputs, gates) + product(gates, inputs, all) + product(gates, r.hidden, all)
                           : product(all, gates, inputs));
  }
  // Layers and directions run concurrently and slow each other down.
  const double slowdown = r.layers > 1 || r.directions > 1 ? 1 + p.concurrency : 1.0;
  const double tail = stream_us(as_double(all) * as_double(gates) * bytes, d) * as_double(r.layers);
  return p.start + (slowdown * us + p.tail * tail) * as_double(r.directions);
}

}  // namespace foretrace::hardware
