#pragma once
// What every what-if of the catalogue includes. Each is one file that ends with the line that makes it known:
//
//   const Registered kRegistered(fused_optimizer_whatif);

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Adds a what-if to the catalogue before the program begins.
class Registered {
 public:
  explicit Registered(WhatIf (*make)());
};

}  // namespace foretrace::whatif
