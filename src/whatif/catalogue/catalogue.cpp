#include "whatif/catalogue/catalogue.hpp"

#include <algorithm>

#include "whatif/model/evidence.hpp"

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
  std::vector<const WhatIf*> found = all_whatifs();
  std::erase_if(found, [&](const WhatIf* w) { return w->changes != changes; });
  return found;
}

const WhatIf& the_one_that_changes(Changes changes) {
  const auto one =
      std::find_if(catalogue().begin(), catalogue().end(), [&](const WhatIf& w) { return w.changes == changes; });
  FORETRACE_CHECK(one != catalogue().end());
  return *one;
}

}  // namespace foretrace::whatif
