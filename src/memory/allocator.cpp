#include <algorithm>

#include "base/saturate.hpp"
#include "foretrace/memory/memory.hpp"

namespace foretrace::memory {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kSmall = kMiB;  // up to here requests share small segments
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kOwnSegment = 10 * kMiB;  // from here on a request gets a segment of its own
constexpr std::int64_t kSharedSegment = 20 * kMiB;
constexpr std::int64_t kSegmentGrain = 2 * kMiB;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) { return saturated_sum(bytes, to - 1) / to * to; }

std::int64_t segment_for(std::int64_t bytes) {
  if (bytes <= kSmall) return kSmallSegment;
  return bytes < kOwnSegment ? kSharedSegment : rounded_up(bytes, kSegmentGrain);
}

}  // namespace

CachingAllocator::Free CachingAllocator::as_free(std::uint32_t piece) const {
  const Piece& p = pieces_[piece];
  return {p.bytes, p.segment, p.offset, piece};
}

std::uint32_t CachingAllocator::new_piece() {
  if (spare_.empty()) {
    pieces_.emplace_back();
    return static_cast<std::uint32_t>(pieces_.size() - 1);
  }
  const std::uint32_t piece = spare_.back();
  spare_.pop_back();
  pieces_[piece] = {};
  return piece;
}

CachingAllocator::Handle CachingAllocator::allocate(std::int64_t bytes) {
  const std::int64_t wanted = std::max(kGrain, rounded_up(bytes, kGrain));
  const bool large = wanted > kSmall;
  std::set<Free>& pool = free_[large ? 1 : 0];
  std::uint32_t piece = kNone;
  if (const auto fitting = pool.lower_bound({wanted, 0, 0, 0}); fitting != pool.end()) {
    piece = fitting->piece;
    pool.erase(fitting);
  } else {
    piece = new_piece();
    pieces_[piece].bytes = segment_for(wanted);
    pieces_[piece].segment = segments_++;
    pieces_[piece].large = large;
    reserved_ = saturated_sum(reserved_, pieces_[piece].bytes);
  }
  const std::int64_t rest = pieces_[piece].bytes - wanted;
  if (large ? rest > kSmall : rest >= kGrain) {
    const std::uint32_t second = new_piece();
    Piece& first = pieces_[piece];
    pieces_[second] = {rest, first.offset + wanted, first.segment, piece, first.behind, large, false};
    if (first.behind != kNone) pieces_[first.behind].before = second;
    first.behind = second;
    first.bytes = wanted;
    pool.insert(as_free(second));
  }
  pieces_[piece].in_use = true;
  allocated_ = saturated_sum(allocated_, pieces_[piece].bytes);
  return piece;
}

// Both are free, neither is in the pool.
void CachingAllocator::absorb_next(std::uint32_t piece) {
  Piece& p = pieces_[piece];
  const std::uint32_t next = p.behind;
  p.bytes += pieces_[next].bytes;
  p.behind = pieces_[next].behind;
  if (p.behind != kNone) pieces_[p.behind].before = piece;
  spare_.push_back(next);
}

void CachingAllocator::free(Handle block) {
  std::uint32_t piece = block;
  std::set<Free>& pool = free_[pieces_[piece].large ? 1 : 0];
  pieces_[piece].in_use = false;
  allocated_ = saturated_sum(allocated_, -pieces_[piece].bytes);
  const std::uint32_t behind = pieces_[piece].behind;
  if (behind != kNone && !pieces_[behind].in_use) {
    pool.erase(as_free(behind));
    absorb_next(piece);
  }
  const std::uint32_t before = pieces_[piece].before;
  if (before != kNone && !pieces_[before].in_use) {
    pool.erase(as_free(before));
    absorb_next(before);
    piece = before;
  }
  pool.insert(as_free(piece));
}

}  // namespace foretrace::memory
