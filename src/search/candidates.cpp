#include "foretrace/search/candidates.hpp"

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

std::vector<whatif::Use> in_order(std::vector<whatif::Use> uses) {
  std::stable_sort(uses.begin(), uses.end(), [](const whatif::Use& a, const whatif::Use& b) {
    if (a.whatif->stage != b.whatif->stage) return a.whatif->stage < b.whatif->stage;
    return a.whatif->name < b.whatif->name;
  });
  return uses;
}

}  // namespace foretrace::search
