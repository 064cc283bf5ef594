#pragma once
// Files that hold several traces: every process of an Nsight file, every GPU of a JAX file is one. `FILE#1` names the second.

#include <cstddef>
#include <optional>
#include <string>

#include "foretrace/trace/load.hpp"

namespace foretrace::trace {

struct PartOfFile {
  std::string file;
  std::optional<std::size_t> part;
};
/// "run.sqlite#1" -> {"run.sqlite", 1}; a file that is really called so is taken as it is.
PartOfFile part_of_file(const std::string& path);

/// How many traces a file holds; 1 for what cannot be opened, is no file, or is of a format that has no parts.
std::size_t parts_in(const std::string& file, const LoadOptions& options);

}  // namespace foretrace::trace
