
#include "hardware/cost.hpp"
#include "whatif/rewrite/compiling.hpp"

namespace foretrace::whatif {

namespace {

using work::Family;
using work::Work;

constexpr std::int64_t kAligned = 8;  // half-precision elements in one access of 16 bytes

std::int64_t padded(std::int64_t n) { return (n + kAligned - 1) / kAligned * kAligned; }

// Copies of the operands that get longer, read and written.
double copied(const work::Gemm& was, const work::Gemm& becomes, double element) {
  const double m = static_cast<double>(was.m), n = static_cast<double>(was.n), k = static_cast<double>(was.k);
  double bytes = 0;
  if (was.m != becomes.m || was.k != becomes.k) bytes += 2 * m * k * element;
  if (was.n != becomes.n || was.k != becomes.k) bytes += 2 * n * k * element;
  return bytes * static_cast<double>(was.batch);
}

}  // namespace

void pad_products(Compiling& c) {
  for (std::uint32_t r = 0; r < c.rows.size(); ++r) {
    const Row& row = c.rows[r];
    const Work w = c.model.works[row.work];
    const auto* gemm = std::get_if<work::Gemm>(&w.kind);
    if (c.region[r] == kNone || gemm == nullptr || !is_half(w.dtype) || gemm->alignment() >= kAligned) continue;
    if (row.phase != Phase::kForward && row.phase != Phase::kBackward) continue;
    Work becomes = w;
    auto& to = std::get<work::Gemm>(becomes.kind);
    to.m = gemm->weight_grad ? padded(gemm->m) : gemm->m;
    to.n = padded(gemm->n);
    to.k = padded(gemm->k);
    refresh(becomes);
    const hardware::Cost cost = rescale_row(c.model, row, becomes);
    if (!cost.known) continue;
    const double copies =
        times_run(c.model, row) * time_of(Generated{.bytes = copied(*gemm, to, 2), .copy = true}, c.model.device);
    // The compiler times both.
    if (cost.ns + copies >= static_cast<double>(row.time)) continue;
    set_row(c.model, c.draft, row, cost.ns + copies, becomes, graph::Origin::kModelled);
    c.launches[row.phase == Phase::kForward ? 0 : 1] += 2;
  }
}

void move_channels(Compiling& c) {
  // The compiler weighs kinds of convolutions by how much faster (below 1) or slower its authors found them with channels
  // innermost, and moves all or none: the numbers are its own (PyTorch, torch/_inductor/graph.py, decide_layout_opt).
  double before = 0, after = 0;
  for (std::uint32_t r = 0; r < c.rows.size(); ++r) {
    const Work& w = c.model.works[c.rows[r].work];
    if (c.region[r] == kNone || w.family != Family::kConvForward || w.backward) continue;
    const auto& conv = std::get<work::Convolution>(w.kind);
    const std::int64_t in = conv.channels_per_group(), out = conv.out_channels;
    double factor = 0.823;  // all others: of the compiler's source, as those below
    if (conv.groups > 1 && in > 1)
      factor = 1.358;
    else if (out * 2 <= in && conv.kernel_h > 1)
      factor = 0.725;
    else if (in <= 64 && out <= 64)
      factor = 0.783;
    before += w.flops;
    after += factor * w.flops;
  }
  if (after > before) return;
  for (std::uint32_t r = 0; r < c.rows.size(); ++r) {
    const Work& w = c.model.works[c.rows[r].work];
    if (c.region[r] == kNone || !is_conv(w) || channels_last(w)) continue;
    const Work becomes = with_layout(w, true);
    if (const hardware::Cost cost = rescale_row(c.model, c.rows[r], becomes); cost.known)
      set_row(c.model, c.draft, c.rows[r], cost, becomes);
  }
}

}  // namespace foretrace::whatif
