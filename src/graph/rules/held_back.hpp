#pragma once
// Finds the task that delayed a GPU task when neither its launch, its stream nor a known wait did.

#include <cstdint>
#include <vector>

#include "graph/step_state.hpp"

namespace foretrace::graph {

struct Holder {
  Source source;
  std::uint32_t point = kWhole;  ///< of the source's time, at which it let the task go
  bool certain = false;          ///< a dependency the trace does not name, rather than room on the device
};

class HeldBack {
 public:
  explicit HeldBack(const StepState& state);

  /// To be called for every StepWork in turn, by begin: keeps account of what runs.
  void advance_to(std::uint32_t step_work);
  /// The task of another stream that let `step_work` go at last, not before `satisfied`. `long_wait`: it stood still for so
  /// long that something must have held it; then causes are accepted that would be guesses for a short gap.
  [[nodiscard]] Holder find(std::uint32_t step_work, Ns satisfied, bool long_wait) const;

 private:
  [[nodiscard]] Source just_ended(const GpuWork& w, Ns satisfied, Ns within) const;
  [[nodiscard]] Holder fills_the_device(const GpuWork& w, bool any_wave) const;
  [[nodiscard]] Holder about_to_end(const GpuWork& w) const;
  [[nodiscard]] std::uint32_t collective_ahead(std::uint32_t step_work) const;

  const StepState& s_;
  std::vector<Source> by_end_;
  std::vector<Source> by_begin_;
  std::size_t next_ = 0;
  std::vector<Source> running_;  ///< when the one at hand begins, by begin
};

}  // namespace foretrace::graph
