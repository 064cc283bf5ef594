#include <array>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "foretrace/base/result.hpp"
#include "trace/name_tables.hpp"
#include "trace/ranges.hpp"

namespace foretrace::trace {

namespace {

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

struct Pattern {
  LoaderRange role;
  std::string_view pattern;
};

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> kPatterns = [] {
    std::vector<Pattern> all;
    for (const NameRow& row : name_table("loaders", 3)) {
      FORETRACE_CHECK(row[0] == "loads" || row[0] == "workers" || row[0] == "queue");
      all.push_back({row[0] == "loads"     ? LoaderRange::kLoads
                     : row[0] == "workers" ? LoaderRange::kWaitsForWorkers
                                           : LoaderRange::kQueue,
                     row[1]});
    }
    return all;
  }();
  return kPatterns;
}

constexpr std::string_view kDecoration = "#*=-<> \t";

// "## Load data ##" -> "Load_data"
std::string undecorated(std::string_view name) {
  const std::size_t first = name.find_first_not_of(kDecoration);
  std::string out(name.substr(first, name.find_last_not_of(kDecoration) - first + 1));
  for (char& c : out) {
    if (c == ' ' || c == '-') c = '_';
  }
  return out;
}

// Most names of a trace begin like none of the patterns ("aten::…", "cuda…", "void …").
bool may_match(std::string_view name) {
  constexpr std::size_t kLongestName = 256;  // no pattern means a longer one
  if (name.size() > kLongestName) return false;
  static const std::array<bool, 256> kBegins = [] {
    std::array<bool, 256> begins{};
    for (const Pattern& p : patterns()) {
      begins[static_cast<unsigned char>(lower(p.pattern.substr(0, 1)).front())] = true;
      begins[static_cast<unsigned char>(upper(p.pattern.front()))] = true;
    }
    return begins;
  }();
  const std::size_t first = name.find_first_not_of(kDecoration);
  if (first == std::string_view::npos) return false;
  return kBegins[static_cast<unsigned char>(name[first])] || name.find(".py(") != std::string_view::npos;
}

}  // namespace

LoaderRange loader_range(std::string_view name) {
  if (!may_match(name)) return LoaderRange::kNone;
  const std::string plain = undecorated(name);
  for (const Pattern& p : patterns()) {
    if (matches(plain, p.pattern)) return p.role;
  }
  return LoaderRange::kNone;
}

}  // namespace foretrace::trace
