#include <algorithm>

#include "foretrace/base/result.hpp"

namespace foretrace {

namespace {
constexpr std::size_t kExampleLength = 160;
}

void Diagnostics::add(std::string_view name, Severity severity, std::string_view meaning, std::string_view example,
                      std::int64_t offset, std::uint64_t count) {
  auto it = std::find_if(problems_.begin(), problems_.end(), [&](const Problem& p) { return p.name == name; });
  if (it == problems_.end()) {
    problems_.push_back(
        {std::string(name), severity, std::string(meaning), 0, std::string(example.substr(0, kExampleLength)), offset});
    it = problems_.end() - 1;
  }
  it->count += count;
}

const Problem* Diagnostics::find(std::string_view name) const {
  const auto it = std::find_if(problems_.begin(), problems_.end(), [&](const Problem& p) { return p.name == name; });
  return it == problems_.end() ? nullptr : &*it;
}

std::uint64_t Diagnostics::lost_records() const {
  std::uint64_t lost = 0;
  for (const Problem& p : problems_) {
    if (p.severity == Severity::kDataLoss) lost += p.count;
  }
  return lost;
}

}  // namespace foretrace
