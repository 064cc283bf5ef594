#pragma once
// What the framework's caching allocator takes from the driver for the blocks a step holds: more than they add up to, because
// it takes memory in segments, cuts them, and puts together only what lies side by side.
//
//   CachingAllocator a;                     a.allocate(3 << 20);   // a segment of 20 MiB, cut in two
//   a.reserved();                           // 20 MiB, of which a.allocated() is 3
//
//   reserved(*memory::curve(trace, step));  // of a whole step, after a few of them

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "foretrace/memory/memory.hpp"

namespace foretrace::memory {

/// PyTorch's rules (CUDACachingAllocator, its defaults): requests are rounded up to 512 bytes. Up to 1 MiB they come from
/// segments of 2 MiB, up to 10 MiB from segments of 20 MiB, above from a segment of their own, rounded up to 2 MiB. A request
/// takes the smallest free block that holds it, the first of equals; what is left of it becomes a free block, in large
/// segments only above 1 MiB. Freed blocks join their free neighbours; segments stay.
class CachingAllocator {
 public:
  /// A block, until it is freed.
  using Handle = std::uint32_t;
  Handle allocate(std::int64_t bytes);
  void free(Handle block);
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }    ///< bytes of all segments
  [[nodiscard]] std::int64_t allocated() const { return allocated_; }  ///< bytes of all blocks in use
  [[nodiscard]] std::uint32_t segments() const { return segments_; }

 private:
  struct Piece {
    std::int64_t bytes = 0, offset = 0;
    std::uint32_t segment = 0;
    std::uint32_t before = kNone, behind = kNone;  // neighbours in the segment
    bool large = false, in_use = false;
  };
  struct Free {
    std::int64_t bytes = 0;
    std::uint32_t segment = 0;
    std::int64_t offset = 0;
    std::uint32_t piece = 0;
    friend auto operator<=>(const Free&, const Free&) = default;
  };
  [[nodiscard]] Free as_free(std::uint32_t piece) const;
  std::uint32_t new_piece();
  void absorb_next(std::uint32_t piece);

  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> spare_;    // places in pieces_ that are no longer used
  std::array<std::set<Free>, 2> free_;  // small, large
  std::int64_t reserved_ = 0, allocated_ = 0;
  std::uint32_t segments_ = 0;
};

/// What the allocator has reserved after a training program came to this step: parameters, a first step, the optimizer's states,
/// and steps until it asks for no more. Sizes of parameters are those of the gradients backward leaves.
std::int64_t replayed_reserved(const Curve& curve);

/// Takes what the trace recorded as reserved for the truth: what the replay of this curve is off stays with every change of it.
void anchor_reserved(Curve& curve);
/// What is reserved at most, never less than the peak.
std::int64_t reserved(const Curve& curve);
std::int64_t reserved(const Curve& curve, std::int64_t peak_bytes);
/// Does what is reserved fit into so many bytes? Asks the replay only where it decides.
bool fits(const Curve& curve, double bytes);
/// Is a peak so small that what is reserved for it surely is below `bytes`?
bool surely_fits(std::int64_t peak_bytes, double bytes);

}  // namespace foretrace::memory
