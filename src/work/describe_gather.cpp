// Pooling, losses, work along rows and lists of tensors: what they read and write.

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/saturate.hpp"
#include "base/text.hpp"
#include "work/describe_op.hpp"

namespace foretrace::work {

namespace {

Pooling::Operation pooling_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Pooling::Operation> kNames[] = {
      {"max_pool", Pooling::Operation::kMaximum},         {"adaptive_avg_pool", Pooling::Operation::kAdaptive},
      {"avg_pool", Pooling::Operation::kAverage},         {"upsample_nearest", Pooling::Operation::kNearest},
      {"upsample_bilinear", Pooling::Operation::kLinear}, {"upsample_linear", Pooling::Operation::kLinear},
      {"upsample_bicubic", Pooling::Operation::kCubic}};
  for (const auto& [word, of] : kNames) {
    if (name.find(word) != std::string_view::npos) return of;
  }
  return Pooling::Operation::kOther;
}

}  // namespace

void describe_pooling(Work& w, const OpClass& what, std::string_view name, const OpView& op) {
  const bool grad = what.form == Form::kPoolingGrad;
  const std::size_t at = grad && op.tensor(1, 2) ? 1 : 0;
  auto& pool = std::get<Pooling>(w.kind);
  pool.operation = pooling_of(name);
  if (!op.tensor(at, 2)) return;
  // The gradient of an interpolation takes the input's size (gradient, output size, input size).
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
    if (contains(name, "adaptive") || contains(name, "upsample")) {
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
  const bool recorded =
      pool.operation == Pooling::Operation::kMaximum || pool.operation == Pooling::Operation::kAverage;
  const Shape window = recorded && !contains(name, "adaptive") ? op.integers(at + 1) : Shape{};
  if (!window.empty()) {
    // One number stands for all dimensions.
    const std::size_t all = window.size() == 1 && in.size() > 2 ? in.size() - 2 : 1;
    pool.window = 1;
    for (std::size_t i = 0; i < all; ++i) pool.window = saturated_product(pool.window, elements_of(window));
  } else if (recorded || pool.operation == Pooling::Operation::kAdaptive) {
    pool.window = std::max<std::int64_t>(1, elements_of(in) / std::max<std::int64_t>(1, outputs));
  }
  const bool indices = contains(name, "with_indices");
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
  if (contains(name, "nll_loss")) {
    // One element of each row is touched; the gradient's zeros are written by an operation of their own.
    w.bytes_read = static_cast<double>(rows * (bytes_of(w.dtype) + bytes_of(Dtype::kInt)));
    if (what.form == Form::kLossGrad) w.bytes_written = static_cast<double>(rows * bytes_of(w.dtype));
  } else {
    w.bytes_read = 2 * static_cast<double>(in.bytes());
    w.bytes_written = what.form == Form::kLossGrad ? static_cast<double>(in.bytes()) : 0;
  }
}

// Sorting, the largest of a row, prefix sums, Fourier transforms: (self, …, dimension or dimensions, …).
void describe_along(Work& w, const OpClass& /*what*/, std::string_view name, const OpView& op) {
  const std::size_t at = op.first_tensor();
  if (at == op.size()) return;
  const Argument& in = op[at];
  const bool transform = contains(name, "_fft_");
  const bool largest = contains(name, "topk");
  const bool sorts = largest || contains(name, "sort");
  w.dtype = w.out_dtype = parse_dtype(in.type);
  w.elements = in.elements();
  const auto rank = static_cast<std::int64_t>(in.shape().size());
  Shape dims = {-1};
  for (std::size_t i = at + (largest ? 2 : 1); i < op.size(); ++i) {
    if (op[i].value == "True" || op[i].value == "False" || op.integers(i).empty()) continue;
    dims = op.integers(i);
    break;
  }
  Rows rows{.columns = 1};
  bool last = true;
  for (std::int64_t d : dims) {
    if (d < 0) d += rank;
    if (d < 0 || d >= rank) continue;
    rows.columns = saturated_product(rows.columns, in.shape()[static_cast<std::size_t>(d)]);
    last = last && d + static_cast<std::int64_t>(dims.size()) >= rank;
  }
  rows.rows = w.elements / std::max<std::int64_t>(1, rows.columns);
  rows.operation = transform ? Rows::Operation::kTransform
                   : largest ? Rows::Operation::kTopK
                   : sorts   ? Rows::Operation::kSort
                             : Rows::Operation::kScan;
  if (largest) rows.kept = std::min(rows.columns, op.integer(at + 1, 1));
  w.kind = rows;
  w.access = last ? Access::kContiguous : Access::kStrided;
  add_read(w, in);
  if (transform) {
    // One side of a real transform is real, the other half as many complex numbers: as many bytes. Complex ones have no type here.
    w.bytes_written = static_cast<double>(in.bytes());
    w.flops = 5 * static_cast<double>(w.elements) * std::log2(std::max(2.0, static_cast<double>(rows.columns)));
    return;
  }
  const std::int64_t out = largest ? saturated_product(rows.rows, rows.kept) : w.elements;
  add_written(w, out, w.out_dtype);
  if (sorts) add_written(w, out, Dtype::kInt);
  w.flops = static_cast<double>(w.elements);
}

// Lists whose shapes the profiler left out leave everything at zero.
void describe_foreach(Work& w, const OpClass& /*what*/, std::string_view name, const OpView& op) {
  bool first = true;
  const bool fused = contains(name, "_fused_");
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
