#pragma once
// The parts of two steps set beside each other: tables of all of them, and those that differ beyond noise.

#include <vector>

#include "compare/profile.hpp"
#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

/// The mean of a side's recordings.
Profile average(const std::vector<Profile>& recordings);

Tables tables_of(const Profile& before, const Profile& after);

/// Of both sides' GPU time, what the other side does with the same kernel on the same sizes.
double matched_share(const Profile& before, const Profile& after);

/// Families of kernels, and single ones, that take longer or shorter for the same work; work that is there on one side only;
/// operations whose CPU time moved against the others'. `explained`: how the step is run changed, so that only what both sides do
/// alike is looked at.
std::vector<Cause> moved_parts(const std::vector<Profile>& before, const std::vector<Profile>& after, bool explained);

}  // namespace foretrace::compare
