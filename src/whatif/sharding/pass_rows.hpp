#pragma once
// The rows of a step by the unit of the model that they work for: where a unit's collectives are placed, before it or after it.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "whatif/dataflow/dataflow.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

class PassRows {
 public:
  using Rows = std::vector<const Row*>;

  /// `division` says which unit an operation of either pass belongs to, and has the flow of tensors.
  template <class Division>
  PassRows(const Model& model, const std::vector<Row>& rows, const Division& division)
      : model_(model), forward_(division.flow.units.size()), backward_(division.flow.units.size()) {
    for (const Row& row : rows) {
      const std::uint32_t e = model.works[row.work].op_event;
      const std::uint32_t unit = division.unit_of(e);
      if (unit != kNone) (division.flow.unit_of(e) != kNone ? forward_ : backward_)[unit].push_back(&row);
    }
  }

  [[nodiscard]] const Rows& forward(std::uint32_t unit) const { return forward_[unit]; }
  [[nodiscard]] const Rows& backward(std::uint32_t unit) const { return backward_[unit]; }
  /// Of several units, in the order in which they run.
  [[nodiscard]] Rows forward(const std::vector<std::uint32_t>& units) const { return in_order(forward_, units); }
  [[nodiscard]] Rows backward(const std::vector<std::uint32_t>& units) const { return in_order(backward_, units); }

  /// The first or the last task of each run of some rows.
  [[nodiscard]] std::vector<std::uint32_t> tasks(const Rows& rows, bool last) const;
  /// Bytes of a number that the product of a unit writes.
  [[nodiscard]] std::int64_t written(std::uint32_t unit) const;

 private:
  [[nodiscard]] static Rows in_order(const std::vector<Rows>& pass, const std::vector<std::uint32_t>& units);

  const Model& model_;
  std::vector<Rows> forward_, backward_;  // by unit
};

}  // namespace foretrace::whatif
