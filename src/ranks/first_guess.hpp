#pragma once
// Where the clocks' solver starts: offsets from the median distance of matched ends, along a tree of ranks that share
// collectives. Integers, so that clocks may be days apart.

#include <vector>

#include "ranks/collectives.hpp"

namespace foretrace::ranks {

struct FirstGuess {
  std::vector<Ns> guess;    ///< per rank: the first rank's clock = its own + guess
  std::vector<Ns> anchor;   ///< per rank: the same moment on every clock, close to its collectives
  std::vector<char> known;  ///< per rank: whether collectives tie it to the first
};

FirstGuess first_guess(std::size_t ranks, const Matching& matching);

}  // namespace foretrace::ranks
