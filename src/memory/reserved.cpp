// Replays the allocations of a training program from its first step on.

#include <algorithm>
#include <cmath>
#include <map>

#include "base/saturate.hpp"
#include "foretrace/memory/memory.hpp"

namespace foretrace::memory {

namespace {

using Handle = CachingAllocator::Handle;

class Program {
 public:
  explicit Program(const Curve& c) : c_(c) { order_events(); }

  std::int64_t run() {
    allocate_parameters();
    step();
    // The first update makes the states. From the second step on nothing new is asked for: of 103 recorded steps none grew in a third.
    for (const std::int64_t bytes : parameters_) {
      for (int i = 0; i < states_; ++i) allocator_.allocate(bytes);
    }
    step();
    return allocator_.reserved();
  }

 private:
  struct Event {
    std::uint32_t at = 0;
    bool allocates = false;
    std::uint32_t block = 0;
  };

  void order_events() {
    for (std::uint32_t i = 0; i < c_.blocks.size(); ++i) {
      const Block& b = c_.blocks[i];
      // What never comes to be; peak() leaves out the same.
      if (b.allocated > c_.positions || b.freed <= b.allocated || b.bytes <= 0) continue;
      if (b.allocated > 0) events_.push_back({b.allocated, true, i});
      if (b.freed <= c_.positions) events_.push_back({b.freed, false, i});
      if (b.allocated == 0 && b.freed > c_.positions) resident_.push_back(b.bytes);
    }
    // What is freed and allocated at one moment was never there together.
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return a.at != b.at ? a.at < b.at : a.allocates < b.allocates;
    });
  }

  void allocate_parameters() {
    std::int64_t gradients = 0;
    for (const Block& b : c_.blocks) {
      if (b.kind != Kind::kGradient || b.allocated == 0 || b.freed <= c_.positions || b.bytes <= 0) continue;
      parameters_.push_back(b.bytes);
      gradients = saturated_sum(gradients, b.bytes);
    }
    std::reverse(parameters_.begin(), parameters_.end());  // backward makes gradients from the last layer to the first
    std::int64_t rest = std::max<std::int64_t>(0, c_.start_bytes);
    if (gradients > 0) {
      // Shards and other element types: as many tensors, smaller ones. Parameters and gradients that differ by rounding or by a few
      // tensors are the same size.
      constexpr double kSame = 0.05;
      std::int64_t known = c_.parameter_bytes > 0 ? c_.parameter_bytes : gradients;
      if (std::abs(static_cast<double>(known - gradients)) <= kSame * static_cast<double>(gradients)) known = gradients;
      if (known != gradients || known > rest) {
        const double share = static_cast<double>(std::min(known, rest)) / static_cast<double>(gradients);
        for (std::int64_t& bytes : parameters_) bytes = saturated(static_cast<double>(bytes) * share);
      }
      states_ = static_cast<int>(
          std::clamp(std::llround(static_cast<double>(c_.state_bytes) / static_cast<double>(known)), 0LL, 4LL));
      std::erase(parameters_, 0);
      std::int64_t each = 0;
      for (const std::int64_t bytes : parameters_) each = saturated_sum(each, bytes);
      while (states_ > 0 && saturated_product(each, 1 + states_) > rest) --states_;
      rest = saturated_sum(rest, -saturated_product(each, 1 + states_));
    }
    for (const std::int64_t bytes : parameters_) allocator_.allocate(bytes);
    if (rest > 0) allocator_.allocate(rest);  // buffers, workspaces of libraries, what is unknown
    for (const std::int64_t bytes : resident_) allocator_.allocate(bytes);
  }

  // What the step before left is freed where this one's events say so, by size; what no event frees is gone when it begins.
  std::map<std::uint32_t, Handle> left_over() {
    std::map<std::uint32_t, Handle> freed_here;
    for (const Event& e : events_) {
      if (e.allocates || c_.blocks[e.block].allocated > 0) continue;
      const auto left = left_.find(c_.blocks[e.block].bytes);
      if (left == left_.end()) continue;
      freed_here[e.block] = left->second;
      left_.erase(left);
    }
    for (const auto& [bytes, handle] : left_) allocator_.free(handle);
    left_.clear();
    return freed_here;
  }

  void step() {
    std::map<std::uint32_t, Handle> alive = left_over();
    for (const Event& e : events_) {
      if (e.allocates) {
        alive[e.block] = allocator_.allocate(c_.blocks[e.block].bytes);
      } else if (const auto block = alive.extract(e.block)) {
        allocator_.free(block.mapped());
      }
    }
    for (const auto& [block, handle] : alive) left_.emplace(c_.blocks[block].bytes, handle);
  }

  const Curve& c_;
  CachingAllocator allocator_;
  std::vector<Event> events_;
  std::vector<std::int64_t> parameters_, resident_;
  int states_ = 0;
  std::multimap<std::int64_t, Handle> left_;  // by the step before, by size
};

}  // namespace

std::int64_t replayed_reserved(const Curve& curve) { return Program(curve).run(); }

void anchor_reserved(Curve& curve) {
  if (curve.recorded_reserved <= 0) return;
  curve.unexplained_reserved = curve.recorded_reserved - replayed_reserved(curve);
}

std::int64_t reserved(const Curve& curve, std::int64_t peak_bytes) {
  return std::max(peak_bytes, saturated_sum(replayed_reserved(curve), curve.unexplained_reserved));
}

bool surely_fits(std::int64_t peak_bytes, double bytes) {
  // Recorded steps reserve 1.01 to 1.93 times their peak (103 traces), all but two of them 1.5 at most.
  constexpr double kMostReserved = 2;
  return kMostReserved * static_cast<double>(peak_bytes) <= bytes;
}

bool fits(const Curve& curve, double bytes) {
  const std::int64_t most = peak(curve).bytes;
  if (static_cast<double>(most) > bytes) return false;
  if (surely_fits(most, bytes)) return true;
  return static_cast<double>(reserved(curve, most)) <= bytes;
}

std::int64_t reserved(const Curve& curve) { return reserved(curve, peak(curve).bytes); }

}  // namespace foretrace::memory
