#pragma once
// Where the units of a forward pass and their gradients stand among the allocator's events, and which block holds what.

#include <functional>
#include <vector>

#include "whatif/dataflow/dataflow.hpp"

namespace foretrace::whatif {

struct UnitBlocks {
  struct Span {
    std::uint32_t first = UINT32_MAX, last = 0;
    void cover(std::uint32_t position);
    [[nodiscard]] bool known() const { return first != UINT32_MAX; }
  };
  std::vector<Span> forward, backward;  ///< by unit; those without memory of their own happen where the one before did
  std::vector<std::uint32_t> unit;      ///< by block; kNone: of none
  std::vector<char> sums;               ///< by block: adds gradients up
  std::vector<std::uint32_t> block_of;  ///< by value; kNone where none is known
  std::vector<std::size_t> inner;       ///< activations that a unit allocates other than as a plain result or cast
};

/// `holds`: could this block be a tensor of so many elements in the trace?
UnitBlocks unit_blocks(const memory::Curve& curve, const Dataflow& flow,
                       const std::function<bool(const memory::Block&, std::int64_t elements)>& holds);

/// Blocks that a change of units adds to a curve.
class AddedBlocks {
 public:
  explicit AddedBlocks(const Dataflow& flow) : flow_(flow) {}
  /// Nothing where it is empty or never there.
  void add(std::uint32_t unit, std::int64_t bytes, std::uint32_t from, std::uint32_t to, memory::Kind kind,
           memory::Stage stage, bool workspace = false);
  /// In the order of the allocator's events, as blocks of a curve lie.
  void put_into(memory::Curve& curve) const;

 private:
  const Dataflow& flow_;
  std::vector<memory::Block> blocks_;
};

}  // namespace foretrace::whatif
