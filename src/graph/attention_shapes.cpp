#include "graph/attention_shapes.hpp"

#include <charconv>
#include <string_view>
#include <vector>

namespace foretrace::graph {

namespace {

// The n-th shape of "[[32,8,1,128],[32,8,512,128],[]]"; empty where it is none of integers.
std::vector<std::int64_t> shape(std::string_view dims, std::size_t n) {
  if (dims.empty()) return {};
  dims.remove_prefix(1);
  for (std::size_t open = dims.find('['); open != std::string_view::npos; open = dims.find('[', open + 1), --n) {
    const std::size_t close = dims.find(']', open);
    if (close == std::string_view::npos) return {};
    if (n > 0) continue;
    std::vector<std::int64_t> out;
    std::string_view text = dims.substr(open + 1, close - open - 1);
    while (!text.empty()) {
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc{}) return {};
      out.push_back(value);
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      while (!text.empty() && (text.front() == ',' || text.front() == ' ')) text.remove_prefix(1);
    }
    return out;
  }
  return {};
}

}  // namespace

void AttentionShapes::add(const trace::Trace& trace, std::uint32_t op) {
  const std::string_view name = trace.name(op);
  convolutions_ += name == "aten::conv2d" || name == "aten::conv3d" ? 1 : 0;
  group_norms_ += name == "aten::group_norm" ? 1 : 0;
  // (batch, heads, queries, size), FlashAttention's own package (batch, queries, heads, size).
  const bool heads_first = name == "aten::scaled_dot_product_attention";
  const bool heads_last = name == "flash_attn::_flash_attn_forward" || name == "FlashAttnFunc";
  const bool scores = name == "aten::_softmax";  // attention from its parts: (batch, heads, queries, keys)
  if (!heads_first && !heads_last && !scores) return;
  const trace::OpInputs* inputs = trace.args.inputs(trace.events.args[op]);
  if (inputs == nullptr || !inputs->dims.valid()) return;
  const std::string_view dims = trace.strings[inputs->dims];
  const std::vector<std::int64_t> first = shape(dims, 0);
  const std::vector<std::int64_t> second = scores ? first : shape(dims, 1);
  if (first.size() != 4 || second.size() != 4) return;
  const std::int64_t queries = first[heads_last ? 1 : 2];
  const std::int64_t keys = scores ? first[3] : second[heads_last ? 1 : 2];
  if (keys <= 1) return;
  ++(queries == 1 ? one_query_ : many_queries_);
  other_keys_ += queries > 1 && queries != keys ? 1 : 0;
}

}  // namespace foretrace::graph
