#include "whatif/catalogue/also_written.hpp"

#include <map>

namespace foretrace::whatif {
namespace {

// In a function, because files are initialised in no particular order.
std::map<std::string, std::string, std::less<>>& spellings() {
  static std::map<std::string, std::string, std::less<>> all;
  return all;
}

}  // namespace

AlsoWritten::AlsoWritten(std::string other, std::string name) {
  spellings().emplace(std::move(other), std::move(name));
}

std::string written_out(std::string_view use) {
  for (const auto& [other, name] : spellings()) {
    // A longer word is another one: "pp:balance=time" is no "pp:balance".
    const bool word = use.starts_with(other) && (other.ends_with('=') || !use.substr(other.size()).starts_with('='));
    if (word) return name + std::string(use.substr(other.size()));
  }
  return std::string(use);
}

}  // namespace foretrace::whatif
