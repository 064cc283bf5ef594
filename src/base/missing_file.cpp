#include "base/missing_file.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/suggest.hpp"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

/// Names similar to a path that is not there; enough of them to find a slip of the keyboard.
std::vector<std::string> neighbours(const fs::path& path) {
  constexpr std::size_t kMaxNames = 10'000;
  std::vector<std::string> names;
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (fs::directory_iterator it(folder, error), end; !error && it != end && names.size() < kMaxNames;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The longest part of the path that exists; empty when nothing of it does.
fs::path existing_part(fs::path path) {
  std::error_code error;
  while (!path.empty() && !fs::exists(path, error)) {
    const fs::path parent = path.parent_path();
    if (parent == path) return {};
    path = parent;
  }
  return path;
}

}  // namespace

Error missing_file(const std::string& path) {
  Error out{ErrorCode::kUnreadable, "no such file or folder", path, Error::kNoOffset, {}};
  if (path.empty()) {
    out.message = "the name of a file is empty";
    out.hint = "a shell variable that is not set gives an empty name";
    return out;
  }
  const fs::path wanted(path);
  const fs::path folder = wanted.parent_path();
  std::error_code error;
  if (!folder.empty() && !fs::exists(folder, error)) {
    out.message = "no such file; its folder " + folder.string() + " does not exist either";
    const fs::path there = existing_part(folder);
    out.hint =
        there.empty() ? "relative paths start where the command runs" : "the path exists up to " + there.string();
    return out;
  }
  const std::vector<std::string> names = neighbours(wanted);
  const std::string name = wanted.filename().string();
  std::optional<std::string> match = closest_match(name, names);
  // "trace.json" typed for "trace.json.gz": the shell would have completed it.
  if (!match) {
    const auto longer =
        std::find_if(names.begin(), names.end(), [&](const std::string& n) { return n.starts_with(name); });
    if (longer != names.end()) match = *longer;
  }
  out.hint = match            ? "did you mean " + (folder / *match).string() + "?"
             : folder.empty() ? "relative paths start where the command runs"
                              : folder.string() + " holds nothing of a similar name";
  return out;
}

}  // namespace foretrace
