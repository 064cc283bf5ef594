#pragma once
// How many queries the attention operations of a step have, from their shapes: one per sequence where a language model generates, a number
// other than that of keys where text conditions an image.

#include <cstddef>
#include <cstdint>

#include "foretrace/trace/trace.hpp"

namespace foretrace::graph {

class AttentionShapes {
 public:
  /// Looks at one operation.
  void add(const trace::Trace& trace, std::uint32_t op);

  [[nodiscard]] std::size_t one_query() const { return one_query_; }
  [[nodiscard]] std::size_t many_queries() const { return many_queries_; }
  /// A U-Net that is recorded what to draw: convolutions, group norms, and attention from pixels to other keys.
  [[nodiscard]] bool denoises() const { return convolutions_ > 0 && group_norms_ > 0 && other_keys_ > 0; }

 private:
  std::size_t one_query_ = 0, many_queries_ = 0, other_keys_ = 0, convolutions_ = 0, group_norms_ = 0;
};

}  // namespace foretrace::graph
