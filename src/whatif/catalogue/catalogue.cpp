#include "whatif/catalogue/catalogue.hpp"

#include <algorithm>
#include <map>

#include "whatif/model/evidence.hpp"

namespace foretrace::whatif {
namespace {

// In a function, because files are initialised in no particular order: the first that registers makes it.
std::vector<WhatIf>& registered() {
  static std::vector<WhatIf> all;
  return all;
}

std::map<std::string, JobChange, std::less<>>& job_changes() {
  static std::map<std::string, JobChange, std::less<>> all;
  return all;
}

}  // namespace

Registered::Registered(WhatIf whatif) { registered().push_back(std::move(whatif)); }

RegisteredForJobs::RegisteredForJobs(std::string name, JobChange change) {
  job_changes().emplace(std::move(name), change);
}

JobChange job_change_of(const WhatIf& whatif) {
  const auto found = job_changes().find(whatif.name);
  return found == job_changes().end() ? nullptr : found->second;
}

const std::vector<WhatIf>& catalogue() {
  static const std::vector<WhatIf> kAll = [] {
    std::vector<WhatIf> all = registered();
    for (WhatIf& whatif : all) whatif.evidence = evidence_of(whatif.name);
    std::sort(all.begin(), all.end(), [](const WhatIf& a, const WhatIf& b) { return a.name < b.name; });
    return all;
  }();
  return kAll;
}

std::vector<const WhatIf*> whatifs_that_change(Changes changes) {
  std::vector<const WhatIf*> found = all_whatifs();
  std::erase_if(found, [&](const WhatIf* w) { return w->changes != changes; });
  return found;
}

const WhatIf& first_whatif_that_changes(Changes changes) {
  const auto one =
      std::find_if(catalogue().begin(), catalogue().end(), [&](const WhatIf& w) { return w.changes == changes; });
  FORETRACE_CHECK(one != catalogue().end());
  return *one;
}

std::string use_that_explains(Difference difference) {
  for (const WhatIf* whatif : all_whatifs()) {
    for (const Explains& explained : whatif->explains) {
      if (explained.difference == difference) return explained.use.empty() ? whatif->name : explained.use;
    }
  }
  return {};
}

}  // namespace foretrace::whatif
