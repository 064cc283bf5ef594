#include "records.hpp"

namespace foretrace::inject {

std::uint32_t Names::number(std::string_view text) {
  const auto at = numbers_.find(text);
  if (at != numbers_.end()) return at->second;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(texts_.back(), number);  // a deque never moves its texts
  return number;
}

}  // namespace foretrace::inject
