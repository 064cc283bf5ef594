#pragma once
// The kernels that copy a convolution's tensors between memory layouts, as tasks separate from its main kernel.

#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

class LayoutTasks {
 public:
  LayoutTasks(const Graph& graph, const Row& row);

  /// The row without such kernels.
  [[nodiscard]] const Row& rest() const { return rest_; }

  struct Made {
    double time = 0;        ///< of all copies
    std::size_t tasks = 0;  ///< how many there are
  };
  /// The copies that row `work` brings, around `kept`, its other kernels, which run `times` times over and take `time` with them.
  /// Those there were stay where as many are needed, and go with their launches where not.
  Made make(Model& model, Draft& draft, const std::vector<std::uint32_t>& kept, std::size_t times, double time,
            std::uint32_t work) const;

 private:
  Row rest_;
  std::vector<std::uint32_t> copies_;
};

}  // namespace foretrace::whatif
