#pragma once
// GPU work of a step by the rules about element types (autocast.hpp): rows of operations and of their gradients change to the type
// their unit has, and the places of the casts are recorded.

#include <optional>
#include <vector>

#include "whatif/rewrite/autocast_tasks.hpp"

namespace foretrace::whatif {

class TypedRows {
 public:
  /// `types`: what the units have then; casts that take the place of a copy are marked in it.
  TypedRows(Model& model, Draft& draft, const Dataflow& flow, Autocast& types, work::Dtype dtype);

  /// Changes a row of the forward or backward pass; returns whether it is half now, nothing where it belongs to no unit.
  std::optional<bool> change(const Row& row);
  /// Of the rows changed so far.
  [[nodiscard]] const CastPlaces& places() const { return places_; }

 private:
  bool cast_replaces_copy(const Row& row, std::uint32_t unit);
  bool fused_away(const Row& row, std::uint32_t unit);
  [[nodiscard]] bool half_attention(std::uint32_t unit) const;
  void find_attention_views();
  [[nodiscard]] bool reorders_attention(const Row& row, std::uint32_t unit) const;
  bool half(const Row& row, Precision precision) { return change_precision(m_, draft_, row, precision, dtype_); }

  Model& m_;
  Draft& draft_;
  const Dataflow& flow_;
  Autocast& types_;
  work::Dtype dtype_;
  CastPlaces places_;
  std::vector<char> attention_view_;  // by unit
};

}  // namespace foretrace::whatif
