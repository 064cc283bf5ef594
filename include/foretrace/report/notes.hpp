#pragma once
// What the builder of a graph could not explain or left out, in words.

#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"

namespace foretrace::report {

/// One sentence each; empty when nothing was left out or unexplained.
std::vector<std::string> sentences(const graph::Graph::Notes& notes);

}  // namespace foretrace::report
