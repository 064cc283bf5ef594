#include "graph/layer_marks.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "trace/communication.hpp"
#include "trace/ranges.hpp"

namespace foretrace::graph {

using trace::EventKind;

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Parts of a step and calls of a module are no modules of their own.
bool is_phase_word(std::string_view word) {
  constexpr std::array<std::string_view, 16> kWords = {
      "forward", "backward", "fwd",  "bwd",  "optimizer", "optim",     "step",   "zero_grad",
      "loss",    "train",    "eval", "data", "inference", "iteration", "warmup", "dataloader"};
  std::string small = lower(word);
  for (const std::string_view rest : {"_pass", "_step"}) {
    if (small.size() > rest.size() && small.ends_with(rest)) small.resize(small.size() - rest.size());
  }
  return std::find(kWords.begin(), kWords.end(), small) != kWords.end();
}

}  // namespace

bool names_a_module(std::string_view name) {
  if (name.starts_with("nn.Module: ")) return true;
  std::size_t at = 0;
  std::string_view last;
  while (at <= name.size()) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    last = name.substr(at, end - at);
    const bool word =
        !last.empty() && std::all_of(last.begin(), last.end(), [](char c) { return is_letter(c) || is_digit(c); });
    if (!word) return false;
    at = end + 1;
  }
  return is_letter(name.front()) && !is_phase_word(last);
}

bool is_user_range(trace::EventKind kind, std::string_view name) {
  if (kind != EventKind::kAnnotation || trace::is_step_range(name) || trace::is_communication_range(name)) return false;
  constexpr std::array<std::string_view, 5> kOfPyTorch = {"layer:", "Optimizer.", "DistributedDataParallel.",
                                                          "FSDP::", "enumerate(DataLoader)"};
  return std::none_of(kOfPyTorch.begin(), kOfPyTorch.end(), [&](std::string_view p) { return name.starts_with(p); });
}

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
    return is_user_range(kind, name) && names_a_module(name) ? kUserRange : kPlain;
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
