#pragma once
// GPU memory over a step: what was allocated when, by whom, for how long. The allocator follows the CPU's program order, so
// the curve is computed over that order, and a what-if changes sizes and lifetimes rather than times.
//
//   auto c = curve(trace, step);           c->peak_bytes;  c->at_peak[static_cast<std::size_t>(Kind::kActivation)];  c->peak_op;
//   for (Block& b : c->blocks) if (b.kind == Kind::kActivation) b.bytes *= 2;
//   recompute(*c);                         // c->peak_bytes is now the peak at twice the batch

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/types.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::memory {

enum class Kind : std::uint8_t {
  kResident,    ///< allocated before the step and kept after it: parameters, optimizer states
  kGradient,    ///< of parameters: allocated in backward, alive when the update runs
  kActivation,  ///< allocated in forward, freed in backward
  kTemporary,   ///< allocated and freed within a phase
  kInput,       ///< the batch
};
inline constexpr std::size_t kKinds = 5;

enum class Stage : std::uint8_t { kForward, kBackward, kUpdate };

/// One block of memory during the step.
struct Block {
  std::int64_t bytes = 0;
  std::uint32_t allocated = 0;       ///< position in program order: index of the memory event, 0 before the step
  std::uint32_t freed = UINT32_MAX;  ///< UINT32_MAX: not within the step
  Kind kind = Kind::kTemporary;
  Stage stage = Stage::kForward;  ///< in which it was allocated
  std::uint32_t op = kNone;       ///< event of the innermost operation that allocated it
  Ns at = 0;                      ///< when it was allocated; 0 for blocks that a change added
  std::uint32_t layer = kNone;    ///< event of the innermost layer range around it
  bool workspace = false;         ///< freed while the operation that allocated it still ran
  bool of_parameters = false;     ///< a copy of parameters or of their gradients (autocast's): no sample is in it
};

/// The caching allocator hands out multiples of this.
inline constexpr std::int64_t kGrain = 512;
/// Whether the allocator could serve a request of so many bytes with this block. Blocks of more than 1 MB are not split for a rest below that.
constexpr bool could_hold(const Block& block, std::int64_t bytes) {
  constexpr std::int64_t kUnsplit = 1 << 20;
  const std::int64_t rest = block.bytes - bytes;
  return rest >= 0 && rest < (bytes >= kUnsplit ? kUnsplit + kGrain : kGrain);
}

struct Curve {
  std::vector<Block> blocks;                         ///< in order of allocation
  std::int64_t start_bytes = 0;                      ///< allocated when the step begins, not counted in blocks
  std::uint32_t positions = 0;                       ///< memory events in the step
  std::uint32_t backward_from = 0, update_from = 0;  ///< positions where the stages begin

  /// Of start_bytes, as far as known: trained parameters, and what the optimizer keeps of each. Changes that shard or move them
  /// update these too.
  std::int64_t parameter_bytes = 0, state_bytes = 0;

  /// The most the trace recorded as reserved during the step, 0 where it does not say; and how much of that the model of the
  /// allocator does not explain (CachingAllocator below).
  std::int64_t recorded_reserved = 0, unexplained_reserved = 0;

  std::int64_t peak_bytes = 0;
  std::uint32_t peak_at = 0;
  std::string peak_op;                            ///< the operation that allocated last before the peak
  std::array<std::int64_t, kKinds> at_peak = {};  ///< bytes by kind; kResident includes start_bytes
};

/// The curve of one step on device 0; nothing when the trace has no memory events of a GPU in it.
std::optional<Curve> curve(const trace::Trace& trace, const trace::Step& step);
/// The point at which the blocks of a curve add up to most.
struct Peak {
  std::int64_t bytes = 0;
  std::uint32_t at = 0;
};
Peak peak(const Curve& curve);
/// Adds blocks to a curve, keeping the order of allocation.
void add_blocks(Curve& curve, const std::vector<Block>& blocks);
/// Peak and totals from the blocks, after a what-if changed them.
void recompute(Curve& curve);
/// What the peak consists of, in bytes that add up to it; with `fragmentation` they add up to what is reserved.
struct Composition {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;         ///< of parameters
  std::int64_t optimizer_states = 0;  ///< Adam's two moments, SGD's momentum
  std::int64_t activations = 0;       ///< kept from the forward for the backward pass
  std::int64_t workspaces = 0;        ///< scratch memory of the operation that runs then
  std::int64_t other = 0;             ///< the batch, intermediate results, buffers, what is not known
  std::int64_t fragmentation = 0;     ///< reserved beyond the peak: unusable remainders of segments, and rounding
};
/// `reserved`: what the allocator reserves for it; 0 where that is unknown.
Composition composition(const Curve& curve, std::int64_t reserved = 0);
/// What holds the batch's data (activations, inputs, temporaries of forward and backward) becomes x times as large.
void scale_batch(Curve& curve, double x);
/// The largest factor on the batch that fits into `bytes`, with what the allocator reserves for it; 0 when the memory
/// that does not depend on the batch exceeds that alone. `at`: the curve with so many times the batch.
double largest_batch(const std::function<Curve(double)>& at, double bytes);
/// What largest_batch gives when no batch up to it is too large: where its search ends.
inline constexpr double kLargestFactor = 65536;

// What the framework's caching allocator reserves for the blocks of a step: more than their sum, because it reserves memory in
// segments, splits them, and merges only neighbouring blocks.
//
//   CachingAllocator a;                     a.allocate(3 << 20);   // a segment of 20 MiB, cut in two
//   a.reserved();                           // 20 MiB, of which a.allocated() is 3
//
//   reserved(*memory::curve(trace, step));  // of a whole step, after a few of them

/// PyTorch's rules (CUDACachingAllocator, its defaults): requests are rounded up to 512 bytes. Up to 1 MiB they come from
/// segments of 2 MiB, up to 10 MiB from segments of 20 MiB, above from a segment of their own, rounded up to 2 MiB. A request
/// takes the smallest free block that holds it, the first of equals; the remainder becomes a free block, in large
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

/// What the allocator has reserved once a training program has reached this step: parameters, a first step, the optimizer's states,
/// and steps until it asks for no more. Sizes of parameters are those of the gradients backward leaves.
std::int64_t replayed_reserved(const Curve& curve);

/// Calibrates the model on what the trace recorded as reserved: the error of the replay is kept as a constant offset for every change.
void anchor_reserved(Curve& curve);
/// The most that is reserved, never less than the peak.
std::int64_t reserved(const Curve& curve);
std::int64_t reserved(const Curve& curve, std::int64_t peak_bytes);
/// Whether what is reserved fits into so many bytes. Runs the replay only where the answer depends on it.
bool fits(const Curve& curve, double bytes);
/// Whether a peak is so small that what is reserved for it is certainly below `bytes`.
bool surely_fits(std::int64_t peak_bytes, double bytes);

}  // namespace foretrace::memory
