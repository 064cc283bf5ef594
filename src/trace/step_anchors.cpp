// Unmarked steps, in programs that do more than steps: a solver prepares its fields, repeats its time step, and writes its
// results. A name that occurs once in every step marks where one begins. What comes before the first step and after the last is not
// a step, and a step may hold a kernel more or less than the others.

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/notable.hpp"
#include "trace/step_ranges.hpp"

namespace foretrace::trace {

namespace {

// Kernels more or less in a step than in the others: one in kSame, and never more than this many, so that the comparison of long steps
// takes linear time.
constexpr std::size_t kMostEdits = 64;
// A solver may alternate between kinds of steps (directions of a sweep): so many make up one that repeats.
constexpr std::size_t kKinds = 4;
constexpr std::size_t kFewestSteps = 3;
// Names tried; each occurs another number of times.
constexpr std::size_t kAnchors = 16;

struct Found {
  std::vector<std::size_t> begins;  // the last one is where the last step ends
  std::size_t length = 0;           // of a typical one
};

class AnchorSearch {
 public:
  AnchorSearch(const std::vector<std::uint32_t>& sequence, const std::vector<Ns>& rests, const IsStep& is_step)
      : s_(sequence), rests_(rests), is_step_(is_step) {}

  std::vector<std::size_t> run() const {
    Found best;
    for (const std::vector<std::size_t>& places : anchors()) {
      for (std::size_t kinds = 1; kinds <= kKinds; ++kinds) {
        Found found = steps_at(places, kinds);
        if (found.begins.empty()) continue;
        const bool shorter = best.begins.empty() || found.length < best.length;
        if (shorter && is_step_(found.begins)) best = std::move(found);
        break;  // more of them would repeat as well
      }
    }
    return best.begins;
  }

 private:
  // Places of names that return over at least half of the sequence, one name for each number of times.
  [[nodiscard]] std::vector<std::vector<std::size_t>> anchors() const {
    std::unordered_map<std::uint32_t, std::vector<std::size_t>> places;
    for (std::size_t i = 0; i < s_.size(); ++i) places[s_[i]].push_back(i);
    std::map<std::size_t, const std::vector<std::size_t>*> by_count;
    for (const auto& [name, at] : places) {
      if (at.size() <= kFewestSteps || (at.back() - at.front()) * 2 < s_.size()) continue;
      const auto [it, inserted] = by_count.try_emplace(at.size(), &at);
      if (!inserted && at.front() < it->second->front()) it->second = &at;
    }
    std::vector<std::vector<std::size_t>> out;
    for (const auto& [count, at] : by_count) {
      if (out.size() < kAnchors) out.push_back(*at);
    }
    return out;
  }

  using Part = std::pair<std::size_t, std::size_t>;  // [first, second)

  // Whether one part becomes the other by few insertions and deletions: the furthest place reached with each number of them (Myers,
  // "An O(ND) difference algorithm").
  [[nodiscard]] bool same(Part a, Part b) const {
    const auto n = static_cast<std::ptrdiff_t>(a.second - a.first);
    const auto m = static_cast<std::ptrdiff_t>(b.second - b.first);
    const auto most =
        static_cast<std::ptrdiff_t>(std::min(kMostEdits, static_cast<std::size_t>(std::max(n, m)) / kSame));
    if (std::max(n, m) - std::min(n, m) > most) return false;
    std::vector<std::ptrdiff_t> reached(static_cast<std::size_t>(2 * most + 3), 0);  // by diagonal, of a
    const auto at = [&](std::ptrdiff_t diagonal) -> std::ptrdiff_t& {
      return reached[static_cast<std::size_t>(diagonal + most + 1)];
    };
    for (std::ptrdiff_t edits = 0; edits <= most; ++edits) {
      for (std::ptrdiff_t k = -edits; k <= edits; k += 2) {
        std::ptrdiff_t x = k == -edits || (k != edits && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
        while (x < n && x - k < m && x - k >= 0 &&
               s_[a.first + static_cast<std::size_t>(x)] == s_[b.first + static_cast<std::size_t>(x - k)]) {
          ++x;
        }
        at(k) = x;
        if (x >= n && x - k >= m) return true;
      }
    }
    return false;
  }

  // The part of which most are exact copies; of equals the first.
  [[nodiscard]] Part typical(const std::vector<std::size_t>& borders) const {
    struct Copies {
      std::size_t count = 0, first = 0;
    };
    std::unordered_map<std::uint64_t, Copies> by_hash;
    Copies best;
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      std::uint64_t hash = borders[i + 1] - borders[i];
      for (std::size_t k = borders[i]; k < borders[i + 1]; ++k) hash = (hash ^ s_[k]) * 0x9E3779B97F4A7C15ULL;
      Copies& copies = by_hash.try_emplace(hash, Copies{0, i}).first->second;
      if (++copies.count > best.count) best = copies;
    }
    return {borders[best.first], borders[best.first + 1]};
  }

  [[nodiscard]] Found steps_at(const std::vector<std::size_t>& places, std::size_t kinds) const {
    std::vector<std::size_t> borders;
    for (std::size_t i = 0; i < places.size(); i += kinds) borders.push_back(places[i]);
    if (borders.size() <= kFewestSteps) return {};
    const std::size_t steps = borders.size() - 1;
    const Part reference = typical(borders);
    const std::size_t length = reference.second - reference.first;
    if (length < kFewestTasks) return {};
    std::vector<char> good(steps, 0);
    for (std::size_t i = 0; i < steps; ++i) good[i] = same(reference, {borders[i], borders[i + 1]}) ? 1 : 0;
    const auto first = static_cast<std::size_t>(std::find(good.begin(), good.end(), 1) - good.begin());
    const auto last = static_cast<std::size_t>(good.rend() - std::find(good.rbegin(), good.rend(), 1));  // behind it
    if (first >= last || last - first < kFewestSteps) return {};
    // Few steps may differ (one writes results); with more it is another kind of program.
    const auto odd = std::count(good.begin() + static_cast<std::ptrdiff_t>(first),
                                good.begin() + static_cast<std::ptrdiff_t>(last), 0);
    if (is_notable(odd, static_cast<std::int64_t>(last - first)) || (borders[last] - borders[first]) * 2 < s_.size())
      return {};
    Found found{{}, length};
    const std::size_t offset = longest_rest(borders, first, last, length);
    for (std::size_t i = first; i <= last; ++i) {
      if (borders[i] + offset < s_.size()) found.begins.push_back(borders[i] + offset);
    }
    return found.begins.size() > kFewestSteps ? found : Found{};
  }

  // A step begins where the stream rests longest.
  [[nodiscard]] std::size_t longest_rest(const std::vector<std::size_t>& borders, std::size_t first, std::size_t last,
                                         std::size_t length) const {
    std::vector<Ns> rest(length, 0);
    for (std::size_t i = first; i < last; ++i) {
      if (borders[i + 1] - borders[i] != length) continue;
      for (std::size_t k = 0; k < length; ++k) rest[k] += rests_[borders[i] + k];
    }
    return static_cast<std::size_t>(std::max_element(rest.begin(), rest.end()) - rest.begin());
  }

  const std::vector<std::uint32_t>& s_;
  const std::vector<Ns>& rests_;
  const IsStep& is_step_;
};

}  // namespace

std::vector<std::size_t> anchored_parts(const std::vector<std::uint32_t>& sequence, const std::vector<Ns>& rests,
                                        const IsStep& is_step) {
  return AnchorSearch(sequence, rests, is_step).run();
}

}  // namespace foretrace::trace
