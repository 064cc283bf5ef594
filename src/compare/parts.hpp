#pragma once
// The parts of two steps compared: tables of all of them, and those that differ beyond noise.

#include <map>
#include <string>
#include <vector>

#include "compare/profile.hpp"
#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

/// The mean of a side's recordings.
Profile average(const std::vector<Profile>& recordings);

/// Time and calls on both sides, of one step.
struct Sums {
  double before = 0, after = 0, before_count = 0, after_count = 0;
};
/// Items of both sides added up by `name(item)`.
template <class Items, class Name>
std::map<std::string, Sums> sums_by(const Items& before, const Items& after, Name name) {
  std::map<std::string, Sums> sums;
  for (const auto& [key, item] : before) {
    Sums& s = sums[name(item)];
    s.before += item.ns;
    s.before_count += item.count;
  }
  for (const auto& [key, item] : after) {
    Sums& s = sums[name(item)];
    s.after += item.ns;
    s.after_count += item.count;
  }
  return sums;
}

Tables tables_of(const Profile& before, const Profile& after);

/// The share of both sides' GPU time that the other side spends in the same kernel on the same sizes.
double matched_share(const Profile& before, const Profile& after);

/// Families of kernels, and single ones, that take longer or shorter for the same work; work on one side only; operations whose CPU
/// time changed relative to the others. `explained`: the way the step is run changed, so only work that both sides do is compared.
std::vector<Cause> moved_parts(const std::vector<Profile>& before, const std::vector<Profile>& after, bool explained);

}  // namespace foretrace::compare
