// The work that each cell of the tables was measured on, with the sizes and bytes that work::describe gives such an operation.

#include <algorithm>
#include <array>

#include "hardware/measured.hpp"

namespace foretrace::hardware {

namespace {

bool is_letter(std::string_view name) { return name.size() == 1 && name[0] >= 'a' && name[0] <= 'z'; }

}  // namespace

void MeasuredSizes::set(std::string_view name, std::int64_t size) {
  if (is_letter(name)) {
    letters_[static_cast<std::size_t>(name[0] - 'a')] = size;
  } else {
    words_.emplace_back(name, size);
  }
}

std::int64_t MeasuredSizes::operator[](std::string_view name) const {
  if (is_letter(name)) return letters_[static_cast<std::size_t>(name[0] - 'a')];
  for (const auto& [word, size] : words_) {
    if (word == name) return size;
  }
  return 0;
}

namespace {

// "fwd fp16 nhwc"
struct Column {
  std::array<std::string_view, 3> words;

  explicit Column(std::string_view text) {
    for (std::string_view& word : words) {
      const std::size_t space = std::min(text.find(' '), text.size());
      word = text.substr(0, space);
      text.remove_prefix(std::min(space + 1, text.size()));
    }
  }
  [[nodiscard]] std::string_view pass() const { return words[0]; }
  [[nodiscard]] Dtype dtype() const {
    return words[1] == "fp16"   ? Dtype::kFp16
           : words[1] == "bf16" ? Dtype::kBf16
           : words[1] == "tf32" ? Dtype::kTf32
                                : Dtype::kFp32;
  }
  [[nodiscard]] std::string_view layout() const { return words[2]; }
  [[nodiscard]] bool backward() const { return pass() != "fwd" && pass() != "up"; }
  [[nodiscard]] bool last() const { return layout() == "nhwc"; }
};

Work of(Family family, const Column& at) {
  Work w(family);
  w.dtype = w.out_dtype = at.dtype();
  w.backward = at.backward();
  return w;
}

Work conv(const MeasuredSizes& s, const Column& at) {
  const bool transposed = s["transposed"] != 0;
  Work w = of(at.pass() == "wgrad"                   ? Family::kConvWeightGrad
              : (at.pass() == "dgrad") != transposed ? Family::kConvDataGrad
                                                     : Family::kConvForward,
              at);
  Convolution c;
  c.dimensions = s["dims"];
  c.stride = s["stride"];
  c.dilation = s["dilation"];
  c.groups = s["groups"];
  c.tuned = s["tuned"] != 0;
  c.channels_last = at.last();
  c.input = {s["n"], s["c"], s["d"] * s["h"], s["w"]};
  c.out_channels = s["k"];
  c.kernel_h = s["q"] * s["r"];
  c.kernel_w = s["s"];
  const auto out = [&](std::string_view size, std::string_view filter, bool there) {
    if (!there) return std::int64_t{1};
    const std::int64_t reach = c.dilation * (s[filter] - 1) + 1;
    return transposed ? (s[size] - 1) * c.stride - 2 * s["pad"] + reach
                      : (s[size] + 2 * s["pad"] - reach) / std::max<std::int64_t>(1, c.stride) + 1;
  };
  c.out_h = out("d", "q", c.dimensions > 2) * out("h", "r", c.dimensions > 1);
  c.out_w = out("w", "s", true);
  if (transposed) {
    std::swap(c.input[1], c.out_channels);
    std::swap(c.input[2], c.out_h);
    std::swap(c.input[3], c.out_w);
  }
  w.kind = c;
  refresh(w);
  return w;
}

Work gemm(const MeasuredSizes& s, const Column& at) {
  Work w = of(Family::kGemm, at);
  w.kind = Gemm{.batch = s["b"],
                .m = s["m"],
                .n = s["n"],
                .k = s["k"],
                .a_transposed = at.layout().starts_with('t'),
                .b_transposed = at.layout().ends_with('t')};
  refresh(w);
  return w;
}

Work attention(const MeasuredSizes& s, const Column& at) {
  Work w = of(Family::kAttention, at);
  w.kind = Attention{.batch = s["b"],
                     .heads = s["h"],
                     .queries = s["q"],
                     .keys = s["s"],
                     .head_size = s["d"],
                     .causal = at.layout().starts_with("causal"),
                     .dropout = at.layout().ends_with("dropout"),
                     .masked = at.layout() == "mask" || at.layout() == "bias",
                     .shared = s["kv"] > 0 ? s["h"] / s["kv"] : 1};
  refresh(w);
  return w;
}

Work rnn(const MeasuredSizes& s, const Column& at) {
  Work w = of(Family::kRnn, at);
  w.kind = Recurrent{.batch = s["b"],
                     .steps = s["t"],
                     .inputs = s["i"],
                     .hidden = s["h"],
                     .layers = s["l"],
                     .directions = s["dirs"],
                     .gates = s["gates"]};
  refresh(w);
  return w;
}

Work batch_norm(const MeasuredSizes& s, const Column& at) {
  Work w = of(Family::kBatchNorm, at);
  const std::array<std::int64_t, 4> images = {s["n"], s["c"], s["h"], s["w"]};
  w.elements = images[0] * images[1] * images[2] * images[3];
  w.kind = BatchNorm{images, images[1], images[0] * images[2] * images[3], at.last()};
  const double bytes = static_cast<double>(w.elements * bytes_of(w.dtype));
  w.bytes_read = bytes * (w.backward ? 2 : 1);
  w.bytes_written = bytes;
  return w;
}

Work pooling(std::string_view name, const MeasuredSizes& s, const Column& at) {
  Work w = of(Family::kPooling, at);
  Pooling p;
  p.operation = name == "max_pool"            ? Pooling::Operation::kMaximum
                : name == "avg_pool"          ? Pooling::Operation::kAverage
                : name == "adaptive_avg_pool" ? Pooling::Operation::kAdaptive
                : name == "nearest"           ? Pooling::Operation::kNearest
                : name == "bilinear"          ? Pooling::Operation::kLinear
                                              : Pooling::Operation::kCubic;
  p.input = {s["n"], s["c"], s["h"], s["w"]};
  p.channels_last = at.last();
  const std::int64_t images = s["n"] * s["c"];
  const std::int64_t inputs = images * s["h"] * s["w"];
  const std::int64_t r = s["r"];
  const auto edge = [&](std::int64_t size) {
    if (r == 0) return s["to"];
    return (size + 2 * std::min(s["pad"], r / 2) - r) / std::max<std::int64_t>(1, s["stride"]) + 1;
  };
  p.outputs = std::max<std::int64_t>(1, images * edge(s["h"]) * edge(s["w"]));
  if (r > 0) p.window = r * r;
  if (p.operation == Pooling::Operation::kAdaptive) p.window = std::max<std::int64_t>(1, inputs / p.outputs);
  const double size = static_cast<double>(bytes_of(w.dtype));
  const double index = p.operation == Pooling::Operation::kMaximum ? 8 : 0;
  w.elements = std::max(inputs, p.outputs);
  w.bytes_read = w.backward ? static_cast<double>(p.outputs) * (size + index) : static_cast<double>(inputs) * size;
  w.bytes_written = w.backward ? static_cast<double>(inputs) * size : static_cast<double>(p.outputs) * (size + index);
  w.kind = p;
  return w;
}

// Index, gather, scatter: `i` rows of `c` elements, of tables of `v`, in `b` bags or as many sets.
Work gather(Gather::Operation operation, const MeasuredSizes& s, const Column& at) {
  Work w = of(Family::kEmbedding, at);
  const Gather g{.rows = s["i"],
                 .columns = s["c"],
                 .operation = operation,
                 .table = s["v"],
                 .sets = std::max<std::int64_t>(1, s["sets"]),
                 .bags = s["b"]};
  w.kind = g;
  refresh(w);
  return w;
}

// Sorting, the largest `k`, prefix sums; transforms of numbers of `in` bytes into as many.
Work along(Rows::Operation operation, const MeasuredSizes& s, const Column& at) {
  Work w = of(Family::kReduction, at);
  const Rows r{.rows = s["rows"], .columns = s["c"], .operation = operation, .kept = std::min(s["k"], s["c"])};
  w.kind = r;
  w.elements = r.rows * r.columns;
  const double size = static_cast<double>(operation == Rows::Operation::kTransform ? s["in"] : bytes_of(w.dtype));
  const double out = static_cast<double>(operation == Rows::Operation::kTopK ? r.rows * r.kept : w.elements);
  const bool indices = operation == Rows::Operation::kSort || operation == Rows::Operation::kTopK;
  w.bytes_read = static_cast<double>(w.elements) * size;
  w.bytes_written = out * (size + static_cast<double>(indices ? bytes_of(Dtype::kInt) : 0));
  return w;
}

Work rows(std::string_view name, const MeasuredSizes& s, const Column& at) {
  const bool loss = name.ends_with("_loss");
  const bool sum = name.starts_with("sum_");
  Work w = of(loss                      ? Family::kLoss
              : sum                     ? Family::kReduction
              : name.ends_with("_norm") ? Family::kLayerNorm
                                        : Family::kSoftmax,
              at);
  Rows r{.rows = s["rows"], .columns = s["c"], .groups = name == "group_norm"};
  if (name == "rms_norm") r.operation = Rows::Operation::kRms;
  if (name == "log_softmax") r.operation = Rows::Operation::kLog;
  if (r.groups) {
    r.rows = s["n"] * s["g"];
    r.columns = s["c"] / std::max<std::int64_t>(1, s["g"]) * s["p"];
    r.samples = s["n"];
    r.channels = s["c"];
  }
  w.elements = r.rows * r.columns;
  const double size = static_cast<double>(bytes_of(w.dtype));
  const double elements = static_cast<double>(w.elements);
  if (sum) {
    if (name == "sum_columns") {
      std::swap(r.rows, r.columns);
      w.access = Access::kStrided;
    }
    if (name == "sum_planes") {
      w.access = Access::kTransposed;
      r.samples = s["n"];
    }
    w.bytes_read = elements * size;
    w.bytes_written = static_cast<double>(r.rows) * size;
  } else if (name == "nll_loss") {
    w.bytes_read = static_cast<double>(r.rows) * (size + 8);
    w.bytes_written = w.backward ? static_cast<double>(r.rows) * size : 0;
  } else if (loss) {
    w.bytes_read = 2 * elements * size;
    w.bytes_written = w.backward ? elements * size : 0;
  } else {
    // Half in, float out: read once, as always, and written in fp32.
    if (at.pass() == "up") w.out_dtype = Dtype::kFp32;
    w.bytes_read = elements * size * (w.backward ? 2 : 1);
    w.bytes_written = elements * static_cast<double>(bytes_of(w.out_dtype));
  }
  w.kind = r;
  return w;
}

constexpr std::pair<std::string_view, Gather::Operation> kGathers[] = {
    {"taken", Gather::Operation::kTaken},   {"written", Gather::Operation::kWritten},
    {"added", Gather::Operation::kAdded},   {"scattered", Gather::Operation::kScattered},
    {"sorted", Gather::Operation::kSorted}, {"table_grad", Gather::Operation::kTableGrad},
    {"bags", Gather::Operation::kBags},     {"bags_grad", Gather::Operation::kBagsGrad}};
constexpr std::pair<std::string_view, Rows::Operation> kAlong[] = {{"sort", Rows::Operation::kSort},
                                                                   {"topk", Rows::Operation::kTopK},
                                                                   {"scan", Rows::Operation::kScan},
                                                                   {"transform", Rows::Operation::kTransform}};

}  // namespace

Work measured_work(std::string_view operation, const MeasuredSizes& sizes, std::string_view column) {
  const Column at(column);
  if (operation == "conv") return conv(sizes, at);
  if (operation == "gemm") return gemm(sizes, at);
  if (operation == "attention") return attention(sizes, at);
  if (operation == "rnn") return rnn(sizes, at);
  if (operation == "batch_norm") return batch_norm(sizes, at);
  for (const auto& [name, kind] : kGathers) {
    if (operation == name) return gather(kind, sizes, at);
  }
  for (const auto& [name, kind] : kAlong) {
    if (operation == name) return along(kind, sizes, at);
  }
  if (sizes["rows"] > 0 || operation == "group_norm") return rows(operation, sizes, at);
  return pooling(operation, sizes, at);
}

}  // namespace foretrace::hardware
