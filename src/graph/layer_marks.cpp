#include "graph/layer_marks.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "trace/communication.hpp"
#include "trace/ranges.hpp"

namespace foretrace::graph {

using trace::EventKind;

std::uint8_t classify_range(trace::EventKind kind, std::string_view name) {
  const auto starts = [&](std::string_view p) { return name.starts_with(p); };
  if (kind == EventKind::kPython) {
    if (starts("nn.Module: ")) return kLayerRange;
    return trace::is_loader_range(name) ? kDataLoader : kPlain;
  }
  if (trace::is_communication_range(name)) return kCommunication;
  if (trace::is_loader_range(name)) return kDataLoader;
  if (starts("enumerate(DataLoader)")) return kPlain;
  if (trace::is_step_range(name)) return kPlain;
  if (kind == EventKind::kAnnotation) {
    if (starts("layer:")) return kLayerRange;
    if (starts("Optimizer.")) return kOptimizer;
    if (starts("DistributedDataParallel.") || starts("FSDP::")) return kPlain;
    return kUserRange;
  }
  if (kind == EventKind::kOp) {
    if (trace::is_autograd_node(name)) return kAutogradNode | kOpMark;
    if (starts("Optimizer.")) return kOptimizer | kOpMark;
    if (contains(name, "_amp_")) return kOptimizer | kOpMark;
    return kOpMark;
  }
  return kPlain;
}

std::string module_between(std::string_view before, std::string_view after) {
  std::size_t common = 0;  // end of the components they share
  std::size_t at = 0;
  while (at < before.size() && at < after.size()) {
    const std::size_t end_before = std::min(before.find('.', at), before.size());
    const std::size_t end_after = std::min(after.find('.', at), after.size());
    const std::string_view a = before.substr(at, end_before - at);
    const std::string_view b = after.substr(at, end_after - at);
    if (a != b) {
      const auto number = [](std::string_view s) {
        return s.find_first_not_of("0123456789") == std::string_view::npos;
      };
      // Members of a list, one after the other: the first is not over until the second begins.
      if (number(a) && number(b) && end_before < before.size()) common = end_before;
      break;
    }
    common = end_before;
    at = end_before + 1;
  }
  return std::string(before.substr(0, common));
}

}  // namespace foretrace::graph
