#include "whatif/model/use_code.hpp"

#include <fmt/format.h>

#include "base/readable.hpp"

namespace foretrace::whatif {

std::string on_layers(const Parameters& p) {
  const std::vector<std::string> layers = p.list("layers");
  if (layers.empty()) return {};
  const std::string more = layers.size() > 1 ? fmt::format(" and {} more", layers.size() - 1) : std::string();
  return fmt::format("for {}{}", printable(layers.front()), more);
}

std::string with_note(std::string code, const std::string& note) {
  return note.empty() ? code : fmt::format("{}  # {}", code, note);
}

}  // namespace foretrace::whatif
