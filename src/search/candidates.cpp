#include "search/candidates.hpp"

#include <algorithm>

namespace foretrace::search {

std::vector<whatif::Use> candidates() {
  std::vector<whatif::Use> uses;
  for (const whatif::WhatIf* w : whatif::all_whatifs()) {
    for (const std::string& text : w->advise) {
      Result<whatif::Use> use = whatif::parse_use(text);
      FORETRACE_CHECK(use.has_value());
      uses.push_back(std::move(*use));
    }
  }
  return uses;
}

}  // namespace foretrace::search
