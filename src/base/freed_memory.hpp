#pragma once
// Memory that was freed and that the C library keeps for later.

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace foretrace {

/// Gives it back to the system, where the C library can: what a program frees in small pieces counts as its own otherwise. Takes as long as
/// looking at all free pieces.
inline void return_freed_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace foretrace
