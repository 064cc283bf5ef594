#pragma once
// Scratch memory of convolutions. A strict FP32 algorithm may take gigabytes (FFT); one on tensor cores needs room for the
// tensors that its library copies into the layout of its kernel.

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// A convolution or one of its gradients: what its scratch memory follows.
struct ScratchUser {
  work::Work recorded;                    ///< as the trace has it
  work::Work now;                         ///< as changes so far left it
  std::vector<std::string_view> kernels;  ///< names
};
/// By operation and pass.
using ScratchUsers = std::map<std::pair<std::uint32_t, work::Family>, ScratchUser>;

/// The memory of a step with another batch.
///
///   BatchMemory(model).at(2);
class BatchMemory {
 public:
  /// `model` has memory, and outlives this.
  explicit BatchMemory(const Model& model);
  [[nodiscard]] memory::Curve at(double x) const;

 private:
  const memory::Curve& curve_;
  ScratchUsers users_;
};

/// After changes of element type and layout: works from `before` on replace those in front of it. Blocks that no law explains get what the
/// convolution needs now.
void resize_workspaces(Model& model, std::size_t before);

}  // namespace foretrace::whatif
