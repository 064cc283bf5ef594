// Embeddings, pooling, losses and lists of tensors: what they read and write.

#include <algorithm>
#include <utility>

#include "base/saturate.hpp"
#include "work/describe_op.hpp"

namespace foretrace::work {

namespace {

// index_put adds up only when told to; it is what gathers run backward. Rows of a warp's width and less have kernels of their
// own, which follow the bytes.
bool adds_up(std::string_view name, const OpView& op) {
  constexpr std::int64_t kWarp = 32;
  if (name.find("index_put") != std::string_view::npos)
    return op.flag(3) && op.tensor(0, 1) && op[0].shape().back() > kWarp;
  return name.find("index_add") != std::string_view::npos || name.find("scatter_add") != std::string_view::npos ||
         name.find("scatter_reduce") != std::string_view::npos;
}

Pooling::Of pooling_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Pooling::Of> kNames[] = {
      {"max_pool", Pooling::Of::kMaximum},         {"adaptive_avg_pool", Pooling::Of::kAdaptive},
      {"avg_pool", Pooling::Of::kAverage},         {"upsample_nearest", Pooling::Of::kNearest},
      {"upsample_bilinear", Pooling::Of::kLinear}, {"upsample_linear", Pooling::Of::kLinear},
      {"upsample_bicubic", Pooling::Of::kCubic}};
  for (const auto& [word, of] : kNames) {
    if (name.find(word) != std::string_view::npos) return of;
  }
  return Pooling::Of::kOther;
}

}  // namespace

void describe_embedding(Work& w, const OpClass& what, std::string_view name, const OpView& op) {
  Gather g{.adds_up = adds_up(name, op)};
  const std::size_t at = op.first_tensor();
  if (at == op.size()) {
    w.kind = g;
    return;
  }
  const Argument& table = op[at];
  w.dtype = w.out_dtype = parse_dtype(table.type);
  const std::int64_t row = table.shape().back();
  if (what.form == Form::kEmbedding && op.tensor(1)) {
    g.rows = op[1].elements();
    g.columns = row;
    w.elements = saturated_product(g.rows, g.columns);
  } else if (what.form == Form::kEmbeddingGrad && op.tensor(1)) {
    g.rows = op[1].elements();
    g.columns = row;
    w.elements = table.elements();
  } else {
    // Index, gather and scatter move as many elements as the smaller side holds: the index's or the values' shape.
    std::int64_t moved = 0;
    for (std::size_t i = at + 1; i < op.size(); ++i) {
      if (op.tensor(i, 1)) moved = std::max(moved, op[i].elements());
      if (op[i].list()) {
        for (const Shape& s : op[i].shapes) moved = std::max(moved, elements_of(s));
      }
    }
    w.elements = moved > 0 ? moved : table.elements();
    g.rows = w.elements / std::max<std::int64_t>(row, 1);
    g.columns = row;
  }
  w.kind = g;
  w.bytes_read = static_cast<double>(w.elements * bytes_of(w.dtype));
  w.fixed_read = static_cast<double>(g.rows * bytes_of(Dtype::kInt));
  w.bytes_read += w.fixed_read;
  add_written(w, w.elements, w.out_dtype);
}

void describe_pooling(Work& w, const OpClass& what, std::string_view name, const OpView& op) {
  const bool grad = what.form == Form::kPoolingGrad;
  const std::size_t at = grad && op.tensor(1, 2) ? 1 : 0;
  auto& pool = std::get<Pooling>(w.kind);
  pool.of = pooling_of(name);
  if (!op.tensor(at, 2)) return;
  // The gradient of an interpolation is told the input's size (gradient, output size, input size).
  const Shape asked = grad && at == 0 ? op.integers(2) : Shape{};
  const Shape in = asked.size() > 2 ? asked : op[at].shape();
  w.dtype = w.out_dtype = parse_dtype(op[at].type);
  pool.channels_last = op[at].channels_last();
  for (std::size_t i = 0; i < 4 && i < in.size(); ++i) pool.input[i] = in[i];
  std::int64_t outputs = 0;
  if (grad) {
    outputs = op[0].elements();
  } else {
    const Shape sizes = op.integers(1);
    outputs = saturated_product(in[0], in.size() > 1 ? in[1] : 1);
    if (name.find("adaptive") != std::string_view::npos || name.find("upsample") != std::string_view::npos) {
      outputs = saturated_product(outputs, sizes.empty() ? 1 : elements_of(sizes));
    } else {
      const Shape strides = op.integers(2);
      const Shape pad = op.integers(3);
      for (std::size_t d = 2; d < in.size(); ++d) {
        const auto pick = [&](const Shape& s, std::int64_t otherwise) {
          return s.empty() ? otherwise : s[std::min(d - 2, s.size() - 1)];
        };
        const std::int64_t k = pick(sizes, 1);
        const std::int64_t out = (in[d] + 2 * pick(pad, 0) - k) / std::max<std::int64_t>(1, pick(strides, k)) + 1;
        outputs = saturated_product(outputs, std::max<std::int64_t>(1, out));
      }
    }
  }
  pool.outputs = outputs;
  // Windows are recorded behind the input (max_pool, avg_pool); adaptive ones follow from the sizes.
  const bool recorded = pool.of == Pooling::Of::kMaximum || pool.of == Pooling::Of::kAverage;
  const Shape window = recorded && name.find("adaptive") == std::string_view::npos ? op.integers(at + 1) : Shape{};
  if (!window.empty()) {
    // One number stands for all dimensions.
    const std::size_t all = window.size() == 1 && in.size() > 2 ? in.size() - 2 : 1;
    pool.window = 1;
    for (std::size_t i = 0; i < all; ++i) pool.window = saturated_product(pool.window, elements_of(window));
  } else if (recorded || pool.of == Pooling::Of::kAdaptive) {
    pool.window = std::max<std::int64_t>(1, elements_of(in) / std::max<std::int64_t>(1, outputs));
  }
  const bool indices = name.find("with_indices") != std::string_view::npos;
  const std::int64_t inputs = std::max<std::int64_t>(0, elements_of(in));
  w.elements = std::max(inputs, outputs);
  const double big = static_cast<double>(inputs) * static_cast<double>(bytes_of(w.dtype));
  const double small = static_cast<double>(outputs) * static_cast<double>(bytes_of(w.dtype));
  const double index = indices ? static_cast<double>(outputs * bytes_of(Dtype::kInt)) : 0;
  w.bytes_read = grad ? small + index : big;
  w.bytes_written = grad ? big : small + index;
  (grad ? w.fixed_read : w.fixed_written) = index;
  w.flops = static_cast<double>(w.elements);
}

void describe_loss(Work& w, const OpClass& what, std::string_view name, const OpView& op) {
  const std::size_t at = what.form == Form::kLossGrad ? 1 : 0;
  if (!op.tensor(at)) return;
  const Argument& in = op[at];
  w.dtype = w.out_dtype = parse_dtype(in.type);
  w.elements = in.elements();
  const std::int64_t columns = in.shape().size() > 1 ? in.shape()[1] : 1;
  const std::int64_t rows = columns > 0 ? w.elements / columns : 0;
  w.kind = Rows{rows, columns};
  if (name.find("nll_loss") != std::string_view::npos) {
    // One element of each row is touched; the gradient's zeros are written by an operation of their own.
    w.bytes_read = static_cast<double>(rows * (bytes_of(w.dtype) + bytes_of(Dtype::kInt)));
    if (what.form == Form::kLossGrad) w.bytes_written = static_cast<double>(rows * bytes_of(w.dtype));
  } else {
    w.bytes_read = 2 * static_cast<double>(in.bytes());
    w.bytes_written = what.form == Form::kLossGrad ? static_cast<double>(in.bytes()) : 0;
  }
}

// Lists whose shapes the profiler left out leave everything at zero.
void describe_foreach(Work& w, std::string_view name, const OpView& op) {
  bool first = true;
  const bool fused = name.find("_fused_") != std::string_view::npos;
  std::size_t lists = 0;
  for (const Argument& a : op.arguments()) {
    if (!a.list() || a.shapes.empty()) continue;
    const double bytes = static_cast<double>(a.elements() * bytes_of(w.dtype));
    if (first) {
      w.elements = a.elements();
      std::get<Pointwise>(w.kind).tensors = static_cast<std::int64_t>(a.shapes.size());
    }
    w.bytes_read += bytes;
    // A fused optimizer writes parameters and states, not the gradients (the second list).
    if (first || (fused && lists != 1 && a.elements() == w.elements)) w.bytes_written += bytes;
    first = false;
    ++lists;
  }
}

}  // namespace foretrace::work
