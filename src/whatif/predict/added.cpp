// What-ifs that are not of the catalogue: a program's own, or those of a plugin.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "foretrace/whatif/whatif.hpp"
#include "whatif/predict/parse_use.hpp"

namespace foretrace::whatif {

namespace {

// Uses point to their what-if, so none ever moves or goes; a replaced one is only no longer found.
struct Added {
  std::mutex mutex;
  std::deque<WhatIf> all;
  std::vector<const WhatIf*> found;
};

Added& added() {
  static Added list;
  return list;
}

}  // namespace

Status add_whatif(WhatIf whatif) {
  if (whatif.name.empty() || whatif.name.find_first_of(":,=|+'\" \t\n") != std::string::npos) {
    return fail(ErrorCode::kUsage, fmt::format("'{}' cannot name a what-if", whatif.name),
                "a name has no space, no quote, and none of : , = | +");
  }
  for (const WhatIf& known : catalogue()) {
    if (known.name == whatif.name) {
      return fail(ErrorCode::kUsage, fmt::format("the catalogue has a what-if named '{}'", whatif.name),
                  "choose another name");
    }
  }
  for (const std::string& use : whatif.advise) {
    if (use.substr(0, use.find(':')) != whatif.name) {
      return fail(ErrorCode::kUsage, fmt::format("{} advises '{}', which is not a use of it", whatif.name, use),
                  fmt::format("write {}, or {}:key=value", whatif.name, whatif.name));
    }
    if (const Result<Use> parsed = parse_use_of(whatif, use); !parsed) return tl::unexpected(parsed.error());
  }
  Added& list = added();
  const std::scoped_lock lock(list.mutex);
  std::erase_if(list.found, [&](const WhatIf* w) { return w->name == whatif.name; });
  list.found.push_back(&list.all.emplace_back(std::move(whatif)));
  return {};
}

namespace {

std::vector<const WhatIf*> by_name(std::vector<const WhatIf*> all) {
  std::sort(all.begin(), all.end(), [](const WhatIf* a, const WhatIf* b) { return a->name < b->name; });
  return all;
}

}  // namespace

std::vector<const WhatIf*> added_whatifs() {
  Added& list = added();
  const std::scoped_lock lock(list.mutex);
  return by_name(list.found);
}

std::vector<const WhatIf*> all_whatifs() {
  std::vector<const WhatIf*> all;
  for (const WhatIf& w : catalogue()) all.push_back(&w);
  const std::vector<const WhatIf*> added = added_whatifs();
  if (added.empty()) return all;  // the catalogue is sorted
  all.insert(all.end(), added.begin(), added.end());
  return by_name(std::move(all));
}

}  // namespace foretrace::whatif
