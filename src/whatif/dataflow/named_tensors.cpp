#include "whatif/dataflow/named_tensors.hpp"

#include <algorithm>

#include "foretrace/graph/graph.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

void NamedTensors::follow(const std::vector<std::uint32_t>& operations) {
  if (tensors_.empty()) return;
  std::vector<bool> followed(trace_.size(), false);
  for (const std::uint32_t e : operations) followed[e] = true;
  for (std::uint32_t e = 0; e < trace_.size(); ++e) {
    if (!followed[e] && tensors_.of(e) != nullptr) others_.push_back(e);
  }
  std::stable_sort(others_.begin(), others_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return trace_.end(a) < trace_.end(b); });
}

void NamedTensors::advance(Ns at) {
  for (; next_ < others_.size() && trace_.end(others_[next_]) <= at; ++next_) forget(others_[next_]);
}

void NamedTensors::forget(std::uint32_t event) {
  const Operation* op = tensors_.of(event);
  if (op == nullptr) return;
  for (const trace::TensorUse& out : op->outputs) {
    // What an operation hands on or writes into is still the tensor it was.
    const bool handed_on = std::any_of(op->inputs.begin(), op->inputs.end(),
                                       [&](const trace::TensorUse& in) { return in.tensor == out.tensor; });
    if (!handed_on) values_.erase(out.tensor);
  }
}

std::uint32_t& NamedTensors::value(std::int64_t tensor) { return values_.try_emplace(tensor, kNone).first->second; }

std::vector<const trace::TensorUse*> NamedTensors::uses(const Operation* operation, std::size_t argument,
                                                        std::size_t count) const {
  std::vector<const trace::TensorUse*> found;
  if (operation != nullptr) {
    for (const trace::TensorUse& in : operation->inputs) {
      if (in.argument == argument) found.push_back(&in);
    }
  }
  if (found.size() != count) found.assign(count, nullptr);
  return found;
}

}  // namespace foretrace::whatif
