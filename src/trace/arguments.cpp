#include "foretrace/trace/trace.hpp"
#include "trace/importers/chrome_pieces.hpp"

namespace foretrace::trace {

std::vector<std::pair<std::string, std::string>> argument_pairs(std::string_view tuple) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (!tuple.empty()) static_cast<void>(scan_top_level(tuple, 1, pairs));
  return pairs;
}

}  // namespace foretrace::trace
