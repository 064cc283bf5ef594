#pragma once
// What every what-if of the catalogue includes. A what-if is one file, found by the build, and ends with the object that makes
// it known to every command:
//
//   const Registered kRegistered({.name = "fused-optimizer", .about = …, .apply = apply_fused});

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Adds a what-if to the catalogue before the program begins.
class Registered {
 public:
  explicit Registered(WhatIf whatif);
};

}  // namespace foretrace::whatif
