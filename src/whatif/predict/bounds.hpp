#pragma once
// What no changed step can take less than. Work that a change left alone takes the GPU as long as in the trace, and overlaps as it
// did there; changed and added work takes no less than the GPU's peak rates allow: its FLOP, its bytes, the weights it reads, and
// for copies from or to the host the link. A bound is an alarm: an answer that needs it shows an error of a what-if.
//
//   const Bounds bounds(base, today);
//   bounds.of(changed).step;      // ns, of the simulated step

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

class Bounds {
 public:
  /// `base` is the model before any change, `today` its simulated step.
  Bounds(const Model& base, Ns today);

  /// Of the base with changes applied; `decided` is left to the caller.
  [[nodiscard]] Bound of(const Model& changed) const;

 private:
  /// A GPU task of the trace, by when it began.
  struct Recorded {
    Ns begin, cost;
    std::uint32_t event;
  };

  std::vector<Recorded> recorded_;         ///< sorted by begin
  std::vector<std::uint32_t> by_event_;    ///< places in recorded_, sorted by event
  /// By the event of an operation that was faster than its description allows: its measured time over its floor.
  std::unordered_map<std::uint32_t, double> faster_than_described_;
  double today_share_ = 1;                 ///< today's step over the bound of the base, 1 at most
};

}  // namespace foretrace::whatif
