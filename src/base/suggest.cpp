#include "base/suggest.hpp"

#include <algorithm>

namespace foretrace {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](char a, char b) { return lower(a) == lower(b); });
}

// Names longer than this are file names or kernels pasted by accident: comparing them costs more than it is worth.
constexpr std::size_t kLongest = 256;

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the typical table: the swap of two neighbours looks two rows back.
  std::vector<std::size_t> two_back(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) current[j] = std::min(current[j], two_back[j - 2] + 1);
    }
    std::swap(two_back, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::optional<std::string> closest_match(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongest) continue;
    const std::size_t distance = edit_distance(word, candidate);
    // One edit turns any one-letter word into any other: the words must share more than they differ in.
    if (distance >= best_distance || distance >= std::max(word.size(), candidate.size())) continue;
    best_distance = distance;
    best = candidate;
  }
  if (best) return best;
  const auto begun = [&](const std::string& c) { return c.size() <= kLongest && begins_with(c, word); };
  const auto first = std::find_if(candidates.begin(), candidates.end(), begun);
  if (first == candidates.end() || std::any_of(first + 1, candidates.end(), begun)) return std::nullopt;
  return *first;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::optional<std::string> match = closest_match(word, candidates);
  return match ? "did you mean '" + *match + "'?" : std::string();
}

}  // namespace foretrace
