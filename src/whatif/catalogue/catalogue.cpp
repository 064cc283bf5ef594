#include "whatif/catalogue/catalogue.hpp"

#include <algorithm>

#include "whatif/evidence.hpp"

namespace foretrace::whatif {

namespace {

// In a function: whoever registers first makes it, in whichever order files are initialised.
std::vector<WhatIf (*)()>& makers() {
  static std::vector<WhatIf (*)()> all;
  return all;
}

}  // namespace

Registered::Registered(WhatIf (*make)()) { makers().push_back(make); }

const std::vector<WhatIf>& catalogue() {
  static const std::vector<WhatIf> kAll = [] {
    std::vector<WhatIf> all;
    for (WhatIf (*const make)() : makers()) {
      all.push_back(make());
      all.back().evidence = evidence_of(all.back().name);
    }
    std::sort(all.begin(), all.end(), [](const WhatIf& a, const WhatIf& b) { return a.name < b.name; });
    return all;
  }();
  return kAll;
}

std::vector<const WhatIf*> that_change(Changes changes) {
  std::vector<const WhatIf*> found;
  for (const WhatIf& w : catalogue()) {
    if (w.changes == changes) found.push_back(&w);
  }
  return found;
}

const WhatIf& the_one_that_changes(Changes changes) {
  const std::vector<const WhatIf*> found = that_change(changes);
  FORETRACE_CHECK(!found.empty());
  return *found.front();
}

}  // namespace foretrace::whatif
