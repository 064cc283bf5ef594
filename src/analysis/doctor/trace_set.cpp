// All files of a set together: which ranks, process groups and steps of the job they hold, and which they lack.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/readable.hpp"
#include "foretrace/analysis/doctor.hpp"

namespace foretrace::analysis {

namespace {

std::string rank_list(const std::vector<std::int64_t>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    out += out.empty() ? "" : ", ";
    out += i == j ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[j]);
    i = j + 1;
  }
  return out;
}

// A process group is complete when each of its ranks has a file.
void look_at_groups(const std::vector<DoctorReport>& reports, TraceSet& set) {
  std::set<DoctorReport::Group> seen;
  for (const DoctorReport& report : reports) seen.insert(report.groups.begin(), report.groups.end());
  set.communicates = !seen.empty();
  for (const DoctorReport::Group& group : seen) {
    TraceSet::Lacking lacking{group.name, group.ranks, {}};
    for (const std::int64_t r : group.ranks) {
      if (!std::binary_search(set.ranks.begin(), set.ranks.end(), r)) lacking.missing.push_back(r);
    }
    if (!lacking.missing.empty()) set.lacking.push_back(std::move(lacking));
  }
}

void look_at_steps(const std::vector<DoctorReport>& reports, TraceSet& set) {
  std::set<std::int64_t> all;
  for (const DoctorReport& report : reports) all.insert(report.numbered_steps.begin(), report.numbered_steps.end());
  for (const DoctorReport& report : reports) {
    if (report.rank && report.numbered_steps.size() < all.size()) set.shorter_ranks.push_back(*report.rank);
  }
  std::sort(set.shorter_ranks.begin(), set.shorter_ranks.end());
}

}  // namespace

TraceSet examine_set(std::vector<DoctorReport>& reports) {
  TraceSet set;
  set.files = reports.size();
  for (const DoctorReport& report : reports) {
    if (report.rank) {
      set.ranks.push_back(*report.rank);
    } else {
      ++set.without_rank;
    }
    if (report.world_size) set.world_size = std::max(set.world_size.value_or(0), *report.world_size);
  }
  std::sort(set.ranks.begin(), set.ranks.end());
  look_at_groups(reports, set);
  look_at_steps(reports, set);
  for (std::size_t i = 1; i < set.ranks.size(); ++i) {
    const bool first_repeat = set.repeated_ranks.empty() || set.repeated_ranks.back() != set.ranks[i];
    if (set.ranks[i] == set.ranks[i - 1] && first_repeat) set.repeated_ranks.push_back(set.ranks[i]);
  }
  set.ranks.erase(std::unique(set.ranks.begin(), set.ranks.end()), set.ranks.end());
  // A damaged file may claim any world size: list missing ranks only where the list is of use.
  constexpr std::int64_t kLargestListed = 1'000'000;
  if (set.world_size && *set.world_size <= kLargestListed) {
    for (std::int64_t r = 0; r < *set.world_size; ++r) {
      if (!std::binary_search(set.ranks.begin(), set.ranks.end(), r)) set.missing_ranks.push_back(r);
    }
  }
  if (set.world_size && set.missing_ranks.empty()) {
    for (DoctorReport& report : reports) {
      std::erase_if(report.findings, [](const Finding& f) { return f.name == "one_rank_of_many"; });
    }
  }
  return set;
}

std::string TraceSet::sentence() const {
  std::string out = plural(files, "file");
  if (ranks.empty()) return out + "; none says which rank it is.";
  out += fmt::format("; {} {}", ranks.size() == 1 ? "rank" : "ranks", rank_list(ranks));
  if (world_size) out += fmt::format(" of {}", *world_size);
  if (world_size && missing_ranks.empty()) {
    out += ": complete";
  } else if (!missing_ranks.empty()) {
    out += fmt::format("; missing: {}", rank_list(missing_ranks));
  }
  if (!repeated_ranks.empty()) out += fmt::format("; more than once: {}", rank_list(repeated_ranks));
  if (without_rank > 0) out += fmt::format("; {} without a rank", plural(without_rank, "file"));
  out += ".";
  if (ranks.size() > 1 && !communicates) return out + " They share no communication, so they are not one job.";
  constexpr std::size_t kMostGroups = 4;
  for (std::size_t i = 0; i < std::min(lacking.size(), kMostGroups); ++i) {
    out += fmt::format(" Group {} of ranks {} lacks {}.", lacking[i].group, rank_list(lacking[i].ranks),
                       rank_list(lacking[i].missing));
  }
  if (lacking.size() > kMostGroups) out += fmt::format(" So do {} more groups.", lacking.size() - kMostGroups);
  if (!shorter_ranks.empty()) {
    const bool one = shorter_ranks.size() == 1;
    out += fmt::format(" {} {} {} not hold all steps that others have.", one ? "Rank" : "Ranks",
                       rank_list(shorter_ranks), one ? "does" : "do");
  }
  return out;
}

}  // namespace foretrace::analysis
