#pragma once
// Fused attention with a part of its heads.

#include <algorithm>

#include "foretrace/work/work.hpp"

namespace foretrace::whatif {

/// Heads are divided, and those of keys as far as there are any.
inline void divide_heads(work::Attention& a, std::int64_t size) {
  if (a.heads < size) {  // its heads are counted among the samples
    a.batch = std::max<std::int64_t>(1, a.batch / size);
    return;
  }
  const std::int64_t key_heads = std::max<std::int64_t>(1, a.heads / std::max<std::int64_t>(1, a.shared));
  a.heads = std::max<std::int64_t>(1, a.heads / size);
  a.shared = std::max<std::int64_t>(1, a.heads / std::max<std::int64_t>(1, key_heads / size));
}

}  // namespace foretrace::whatif
