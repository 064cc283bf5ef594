// Unmarked steps: a sequence of kernels that repeats. A period counts only when it covers all kernels from the first
// to the last: equal layers between an embedding and a head do not, and so are not steps. Of several such lengths, the
// shortest is taken.

#include <algorithm>
#include <unordered_map>

#include "trace/step_ranges.hpp"

namespace foretrace::trace {

namespace {

// Names looked at for how far apart they return. One may be a kernel that only some steps have.
constexpr std::size_t kNames = 8;
// Comparisons per place of the sequence before the search gives up: only sequences made to be hard need more.
constexpr std::size_t kEffort = 64;
// A rest this much longer than those at the other borders is one between steps, not between layers.
constexpr Ns kLonger = 4;

class PeriodSearch {
 public:
  explicit PeriodSearch(const std::vector<std::uint32_t>& sequence)
      : s_(sequence), budget_(kEffort * sequence.size()) {}

  // 0 when there is none.
  std::size_t run() {
    for (const std::size_t p : possible_periods()) {
      if (p * 2 > s_.size() || budget_ == 0) break;
      // Whatever a handful of kernels makes up when it repeats is no step either.
      if (leaves_nothing_over(p)) return p >= kFewestTasks ? p : 0;
    }
    return 0;
  }

 private:
  // Whether every period of the sequence equals the one behind it. What differs at either end is left over: kernels that
  // vary are somewhere inside.
  bool leaves_nothing_over(std::size_t period) {
    const std::size_t allowed = period / kSame;
    const std::size_t pairs = s_.size() - period;
    for (std::size_t i = 0; i < std::min(kFewestTasks, pairs); ++i) {
      if (s_[i] != s_[i + period] || s_[pairs - 1 - i] != s_[pairs - 1 - i + period]) return false;
    }
    std::size_t differ = 0;
    for (std::size_t i = 0; i < pairs; ++i) {
      if (budget_ == 0) return false;
      --budget_;
      if (i % period == 0) differ = 0;
      if (s_[i] != s_[i + period] && ++differ > allowed) return false;
    }
    return true;
  }

  // From the first occurrence of a name to each later one: the period is among them, whichever name it is.
  [[nodiscard]] std::vector<std::size_t> possible_periods() const {
    std::unordered_map<std::uint32_t, std::vector<std::size_t>> places;
    for (std::size_t i = 0; i < s_.size(); ++i) places[s_[i]].push_back(i);
    std::vector<const std::vector<std::size_t>*> rarest;
    for (const auto& [name, at] : places) {
      if (at.size() >= 2) rarest.push_back(&at);
    }
    std::sort(rarest.begin(), rarest.end(), [](const auto* a, const auto* b) {
      return a->size() != b->size() ? a->size() < b->size() : a->front() < b->front();
    });
    rarest.resize(std::min(rarest.size(), kNames));
    std::vector<std::size_t> periods;
    for (const auto* at : rarest) {
      for (std::size_t k = 1; k < at->size(); ++k) periods.push_back((*at)[k] - at->front());
    }
    std::sort(periods.begin(), periods.end());
    periods.erase(std::unique(periods.begin(), periods.end()), periods.end());
    return periods;
  }

  const std::vector<std::uint32_t>& s_;
  std::size_t budget_;
};

// Equal parts without anything between them may still be layers: where the stream rests at every m-th border only, and
// much longer than at the others, m parts are a step.
std::vector<std::size_t> merge_by_rests(const std::vector<std::size_t>& begins, const std::vector<Ns>& rests) {
  if (begins.size() < 3) return begins;
  std::vector<Ns> at;
  for (std::size_t i = 1; i < begins.size(); ++i) at.push_back(rests[begins[i]]);
  std::nth_element(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(at.size() / 2), at.end());
  const Ns typical = std::max<Ns>(at[at.size() / 2], kNsPerUs);
  std::vector<std::size_t> longer;
  for (std::size_t i = 1; i < begins.size(); ++i) {
    if (rests[begins[i]] > kLonger * typical) longer.push_back(i);
  }
  if (longer.size() < 2) return begins;
  const std::size_t step = longer[1] - longer[0];
  if (step < 2) return begins;
  for (std::size_t i = 2; i < longer.size(); ++i) {
    if (longer[i] - longer[i - 1] != step) return begins;
  }
  std::vector<std::size_t> merged;
  for (std::size_t i = longer.front() % step; i < begins.size(); i += step) merged.push_back(begins[i]);
  return merged;
}

}  // namespace

std::vector<std::size_t> repeated_parts(const std::vector<std::uint32_t>& sequence, const std::vector<Ns>& rests) {
  const std::size_t period = PeriodSearch(sequence).run();
  if (period == 0) return {};
  // A step begins where the stream rests longest: between the update and the next batch.
  std::vector<Ns> rest(period, 0);
  for (std::size_t i = 1; i < sequence.size(); ++i) rest[i % period] += rests[i];
  const auto first = static_cast<std::size_t>(std::max_element(rest.begin(), rest.end()) - rest.begin());
  std::vector<std::size_t> begins;
  for (std::size_t i = first; i < sequence.size(); i += period) begins.push_back(i);
  return merge_by_rests(begins, rests);
}

}  // namespace foretrace::trace
