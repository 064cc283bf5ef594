#include "analysis/names.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.hpp"
#include "trace/communication.hpp"
#include "trace/ranges.hpp"

namespace foretrace::analysis {
namespace {

template <std::size_t N>
bool starts_with_any(std::string_view text, const std::array<std::string_view, N>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return text.starts_with(p); });
}

// People mark phases by hand as "## forward ##", "[backward]", "Optimizer": the bare word in lower case.
std::string bare_word(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  while (!name.empty() && !is_letter(name.front())) name.remove_prefix(1);
  while (!name.empty() && !is_letter(name.back())) name.remove_suffix(1);
  std::string word(name.substr(0, 32));
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return word;
}

constexpr std::array<std::string_view, 2> kOptimizer{"Optimizer.", "aten::_amp_"};
constexpr std::array<std::string_view, 3> kReadBack{"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"};
constexpr std::array<std::string_view, 2> kForward{"DistributedDataParallel.forward",
                                                   "FullyShardedDataParallel.forward"};

}  // namespace

NameClass classify_name(std::string_view name) {
  if (trace::is_autograd_node(name)) {
    return contains(name, "AccumulateGrad") ? NameClass::kAccumulateGrad : NameClass::kBackwardNode;
  }
  if (name.starts_with("layer:")) return NameClass::kLayer;
  if (name.starts_with("nn.Module: ")) return NameClass::kModule;
  if (trace::is_step_range(name)) return NameClass::kStepRange;
  if (starts_with_any(name, kOptimizer)) return NameClass::kOptimizer;
  if (trace::is_communication_range(name) || trace::is_communication_kernel(name)) return NameClass::kCommunication;
  if (trace::is_loader_range(name)) return NameClass::kData;
  if (starts_with_any(name, kReadBack)) return NameClass::kReadBack;
  if (starts_with_any(name, kForward)) return NameClass::kForward;
  if (name.starts_with("aten::")) return NameClass::kPlain;
  const std::string word = bare_word(name);
  if (word == "forward" || word == "forward pass") return NameClass::kForward;
  if (word == "backward" || word == "backward pass") return NameClass::kBackward;
  if (word == "optimizer" || word == "optimizer step" || word == "zero_grad") return NameClass::kOptimizer;
  return NameClass::kPlain;
}

}  // namespace foretrace::analysis
