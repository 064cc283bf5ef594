// FLOP and bytes of products and of work by index, from their dimensions.

#include <algorithm>

#include "base/saturate.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::work {

namespace {

struct Refresher {
  Work& w;
  const double in = static_cast<double>(bytes_of(w.dtype));
  const double out = static_cast<double>(bytes_of(w.out_dtype));

  void operator()(const Gemm& g) const {
    const double b = static_cast<double>(g.batch);
    const double m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
    w.flops = 2 * b * m * n * k;
    w.bytes_read = b * (m * k + k * n) * in;
    w.bytes_written = b * m * n * out;
    w.elements = saturated_product({g.batch, g.m, g.n});
  }

  void operator()(const Convolution& c) const {
    const double x = static_cast<double>(c.input[0]) * static_cast<double>(c.input[1]) *
                     static_cast<double>(c.input[2]) * static_cast<double>(c.input[3]);
    const double taps = static_cast<double>(c.kernel_h) * static_cast<double>(c.kernel_w);
    const double depth = static_cast<double>(c.input[1]) / static_cast<double>(c.groups);
    const double y = static_cast<double>(c.input[0]) * static_cast<double>(c.out_channels) *
                     static_cast<double>(c.out_h) * static_cast<double>(c.out_w);
    const double weights = static_cast<double>(c.out_channels) * depth * taps;
    w.flops = 2 * y * depth * taps;
    const bool data = w.family == Family::kConvDataGrad;
    const bool filter = w.family == Family::kConvWeightGrad;
    w.bytes_read = in * (data ? y + weights : filter ? x + y : x + weights);
    w.bytes_written = out * (data ? x : filter ? weights : y);
    w.elements = saturated(data ? x : filter ? weights : y);
  }

  void operator()(const Attention& a) const {
    const double heads = static_cast<double>(saturated_product(a.batch, a.heads));
    const double q = static_cast<double>(a.queries), s = static_cast<double>(a.keys),
                 d = static_cast<double>(a.head_size);
    // Two products forward; five backward, one of which recomputes the scores: 2.5 times as much, by definition.
    w.flops = heads * 4 * q * s * d * (a.causal ? 0.5 : 1.0) * (w.backward ? 2.5 : 1.0);
    const double row = heads * q * d * in;
    const double column = heads * s * d * in / static_cast<double>(std::max<std::int64_t>(1, a.shared));
    w.bytes_read = w.backward ? 3 * row + 2 * column : row + 2 * column;
    w.bytes_written = w.backward ? row + 2 * column : row;
    w.elements = saturated_product({a.batch, a.heads, a.queries, a.head_size});
  }

  void operator()(const Recurrent& r) const {
    if (r.hidden <= 0) return;
    const double h = static_cast<double>(r.hidden);
    const double dirs = static_cast<double>(r.directions);
    const double deeper = static_cast<double>(std::max<std::int64_t>(0, r.layers - 1));
    const double inputs = static_cast<double>(r.inputs) + h + deeper * (h * dirs + h);
    const double weights = dirs * static_cast<double>(r.gates) * h * inputs;
    const double samples = static_cast<double>(saturated_product(r.batch, r.steps));
    w.flops = 2 * samples * weights * (w.backward ? 2 : 1);
    w.bytes_read = in * (weights + samples * (static_cast<double>(r.inputs) + (w.backward ? 2 : 0) * h * dirs));
    w.bytes_written =
        in * ((w.backward ? weights : 0) + samples * (w.backward ? static_cast<double>(r.inputs) : h * dirs));
  }

  // A row that several indices name is read or written once, as far as memory goes.
  void operator()(const Gather& g) const {
    using Operation = Gather::Operation;
    if (g.operation == Operation::kOther || g.rows <= 0) return;
    const double rows = static_cast<double>(g.rows), columns = static_cast<double>(g.columns);
    const double table = static_cast<double>(g.table) * static_cast<double>(g.sets);
    const double named = table > 0 ? std::min(rows, table) : rows;
    const double brought =
        g.operation == Operation::kBags || g.operation == Operation::kBagsGrad ? static_cast<double>(g.bags) : rows;
    const bool takes = g.operation == Operation::kTaken || g.operation == Operation::kBags;
    w.elements = saturated_product(g.rows, g.columns);
    w.fixed_read = rows * static_cast<double>(bytes_of(Dtype::kInt));
    w.bytes_read = w.fixed_read + (takes ? named : brought) * columns * in;
    w.bytes_written = (takes ? brought : named) * columns * out;
  }

  template <class Other>
  void operator()(const Other&) const {}
};

}  // namespace

void refresh(Work& work) { std::visit(Refresher{work}, work.kind); }

}  // namespace foretrace::work
