#include "whatif/model/script.hpp"

#include <fmt/format.h>

namespace foretrace::whatif {

namespace {

// The number a name ends with, and what stands before it; -1 when it ends with none.
std::pair<std::string_view, long> numbered(std::string_view name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == name.size() || name.size() - digits > 6) return {name, -1};
  return {name.substr(0, digits), std::stol(std::string(name.substr(digits)))};
}

}  // namespace

std::string python_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void each_named(const ScriptPart& p, const std::vector<std::string>& names, std::string_view body,
                std::vector<std::string>& lines, ScriptPlaces& to) {
  std::string all;
  for (const std::string& name : names) all += fmt::format("        {},\n", python_literal(name));
  lines.push_back(
      fmt::format("    for module in modules_named({}\n        model,\n{}    ):\n        {}", p.gain, all, body));
  to.layers.insert(to.layers.end(), names.begin(), names.end());
}

bool follows(std::string_view block, std::string_view next) {
  const auto [parent, number] = numbered(block);
  const auto [next_parent, next_number] = numbered(next);
  if (number < 0 || next_number < 0) return false;
  if (parent == next_parent) return next_number == number + 1;
  if (next_number != 0 || !parent.ends_with('.') || !next_parent.ends_with('.')) return false;
  const auto [list, place] = numbered(parent.substr(0, parent.size() - 1));
  const auto [next_list, next_place] = numbered(next_parent.substr(0, next_parent.size() - 1));
  return place >= 0 && list == next_list && next_place == place + 1;
}

}  // namespace foretrace::whatif
