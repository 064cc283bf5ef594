#include "trace/importers/nvtx_text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "foretrace/trace/trace.hpp"
#include "trace/ranges.hpp"

namespace foretrace::trace {

namespace {

constexpr std::string_view kSequence = ", seq = ";
constexpr std::string_view kOperation = ", op_id = ";
constexpr std::string_view kSizes = ", sizes = ";
constexpr std::string_view kInputs = ", input_op_ids = ";

std::int64_t number_behind(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return kAbsent;
  std::int64_t value = kAbsent;
  const char* from = text.data() + at + mark.size();
  const auto [end, error] = std::from_chars(from, text.data() + text.size(), value);
  return error == std::errc{} && end != from ? value : kAbsent;
}

// The list behind the mark, where it is one of lists of numbers.
std::string_view sizes_in(std::string_view text) {
  const std::size_t at = text.find(kSizes);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + kSizes.size());
  int depth = 0;
  char before = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[') ++depth;
    if (c == ']') --depth;
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    const bool number_ends = std::isdigit(static_cast<unsigned char>(before)) != 0;
    // What JSON would not take: two commas, a comma before a bracket, a number behind a list.
    if ((c == ',' && (before == ',' || before == '[')) || (c == ']' && before == ',') || (digit && before == ']') ||
        (c == '[' && (before == ']' || number_ends))) {
      return {};
    }
    if (!digit && c != '[' && c != ']' && c != ',' && c != ' ') return {};
    if (c != ' ') before = c;
    if (c == ' ' && number_ends) return {};  // "1 2"
    if (depth == 0) return i == 0 ? std::string_view{} : text.substr(0, i + 1);
  }
  return {};
}

// Operations are called like functions; ranges of the user may have any name.
bool looks_like_op(std::string_view name) {
  if (name.empty() || is_step_range(name) || is_range_among_ops(name) || is_loader_range(name)) return false;
  if (name.starts_with("FSDP::") || name.starts_with("nccl:") || name.starts_with("##")) return false;
  if (is_autograd_node(name)) return true;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':' || c == '.' || c == '<' || c == '>';
  });
}

}  // namespace

NvtxText parse_nvtx(std::string_view text) {
  NvtxText out;
  std::size_t end = text.size();
  for (std::size_t at = text.find(", "); at != std::string_view::npos; at = text.find(", ", at + 1)) {
    const std::string_view rest = text.substr(at);
    if (!rest.starts_with(kSequence) && !rest.starts_with(kOperation) && !rest.starts_with(kSizes) &&
        !rest.starts_with(kInputs)) {
      continue;
    }
    end = at;
    break;
  }
  out.name = text.substr(0, end);
  if (end == text.size()) return out;
  const std::string_view tail = text.substr(end);
  out.sequence = number_behind(tail, kSequence);
  out.operation = number_behind(tail, kOperation);
  out.sizes = sizes_in(tail);
  out.op = looks_like_op(out.name);
  return out;
}

}  // namespace foretrace::trace
