#include "work/op_view.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "trace/tensor_size.hpp"

namespace foretrace::work {

namespace {

// One pass over "[[2, 3], [], [[4], [5, 6]]]": per argument, the shapes of its tensors. parse_shapes() flattens tensor
// lists, after which arguments can no longer be distinguished.
std::vector<std::vector<Shape>> parse_arguments(std::string_view text) {
  std::vector<std::vector<Shape>> out;
  int depth = 0;
  std::int64_t number = 0;
  bool in_number = false;
  bool negative = false;
  bool nested = false;  // the current argument is a list of tensors
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      number = saturated_sum(saturated_product(number, 10), c - '0');
      in_number = true;
      continue;
    }
    if (c == '-') negative = true;
    if (in_number && !out.empty()) {
      if (out.back().empty()) out.back().emplace_back();
      out.back().back().push_back(negative ? -number : number);
    }
    if (in_number) negative = false;
    number = 0;
    in_number = false;
    if (c == '[') {
      ++depth;
      if (depth == 2) {
        out.emplace_back();
        nested = false;
      } else if (depth == 3) {
        out.back().emplace_back();
        nested = true;
      }
    } else if (c == ']') {
      // A scalar tensor is written [], like an argument that is none; its type distinguishes them.
      if (depth == 2 && !nested && out.back().empty()) out.back().emplace_back();
      --depth;
    }
  }
  return out;
}

}  // namespace

std::int64_t elements_of(const Shape& shape) { return trace::elements_of(shape); }

std::int64_t Argument::elements() const {
  std::int64_t n = 0;
  for (const Shape& s : shapes) n = saturated_sum(n, elements_of(s));
  return n;
}

bool Argument::contiguous() const {
  for (std::size_t i = 0; i < shapes.size() && i < strides.size(); ++i) {
    if (strides[i].size() != shapes[i].size()) continue;
    std::int64_t expected = 1;
    for (std::size_t d = shapes[i].size(); d-- > 0;) {
      if (shapes[i][d] != 1 && strides[i][d] != expected) return false;
      expected = saturated_product(expected, shapes[i][d]);
    }
  }
  return true;
}

bool Argument::channels_last() const {
  if (shapes.empty() || strides.empty() || shape().size() < 3 || strides.front().size() != shape().size()) return false;
  const Shape& s = shape();
  const std::int64_t pixels = elements_of(Shape(s.begin() + 2, s.end()));
  return s[1] > 1 && pixels > 1 && strides.front()[1] == 1 && strides.front().back() == s[1];
}

Order order_of(const Shape& shape, const Shape& strides) {
  Order order;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) order.dims.push_back(d);
  }
  if (strides.size() != shape.size()) return order;
  std::stable_sort(order.dims.begin(), order.dims.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  std::int64_t expected = 1;
  for (std::size_t i = order.dims.size(); i-- > 0;) {
    order.dense = order.dense && strides[order.dims[i]] == expected;
    expected = saturated_product(expected, shape[order.dims[i]]);
  }
  return order;
}

OpView::OpView(const trace::Trace& trace, ArgsId args, std::string_view untyped) {
  const trace::OpInputs* inputs = trace.args.inputs(args);
  if (inputs == nullptr) return;
  const auto text = [&](StringId id) { return id.valid() ? trace.strings[id] : std::string_view{}; };
  auto shapes = parse_arguments(text(inputs->dims));
  auto strides = parse_arguments(text(inputs->strides));
  auto types = trace::parse_strings(text(inputs->types));
  auto values = trace::parse_strings(text(inputs->concrete));
  arguments_.resize(std::max(shapes.size(), types.size()));
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    Argument& a = arguments_[i];
    if (i < types.size()) a.type = std::move(types[i]);
    if (i < values.size()) a.value = std::move(values[i]);
    if (i < shapes.size()) a.shapes = std::move(shapes[i]);
    // Without types a scalar tensor looks like an argument that is none.
    if (types.empty() && !a.shapes.empty() && !(a.shapes.size() == 1 && a.shape().empty())) a.type = untyped;
    if (i < strides.size()) a.strides = std::move(strides[i]);
    // A tensor that cannot be is one of which nothing is known.
    if (!std::all_of(a.shapes.begin(), a.shapes.end(), trace::possible_shape)) a.shapes.clear();
    // "[]" of a long tensor list means that the profiler left its shapes out.
    if (a.list() && a.shapes.size() == 1 && a.shape().empty()) a.shapes.clear();
  }
}

bool OpView::tensor(std::size_t i, std::size_t rank) const {
  return i < size() && arguments_[i].tensor() && arguments_[i].shape().size() >= rank;
}

std::int64_t OpView::integer(std::size_t i, std::int64_t otherwise) const {
  const Shape list = integers(i);
  return list.empty() ? otherwise : list.front();
}

Shape OpView::integers(std::size_t i) const {
  Shape out;
  if (i >= size()) return out;
  const std::string& text = arguments_[i].value;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 && c != '-') {
      ++at;
      continue;
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (error != std::errc{}) break;
    out.push_back(std::clamp(value, -trace::kMostElements, trace::kMostElements));
    at = static_cast<std::size_t>(end - text.data());
  }
  return out;
}

double OpView::number(std::size_t i) const {
  if (i >= size()) return 0;
  double value = 0;
  const std::string& text = arguments_[i].value;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<bool> OpView::flags(std::size_t i) const {
  std::vector<bool> out;
  if (i >= size()) return out;
  const std::string& text = arguments_[i].value;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, 4, "True") == 0) out.push_back(true);
    if (text.compare(at, 5, "False") == 0) out.push_back(false);
  }
  return out;
}

std::size_t OpView::first_tensor() const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (tensor(i, 1)) return i;
  }
  return size();
}

}  // namespace foretrace::work
