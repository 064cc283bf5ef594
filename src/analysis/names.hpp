#pragma once
// Facts from the names of events: which range is an optimizer step, which kernel a collective.

#include <cstdint>
#include <string_view>
#include <vector>

#include "foretrace/base/types.hpp"

namespace foretrace::analysis {

enum class NameClass : std::uint8_t {
  kUnknown,  ///< not looked at yet
  kPlain,
  kOptimizer,       ///< Optimizer.step#…, Optimizer.zero_grad#…, gradient-scaler operations, "## optimizer ##"
  kBackwardNode,    ///< autograd::engine::evaluate_function: …
  kAccumulateGrad,  ///< the node that adds a gradient into its parameter
  kBackward,        ///< "## backward ##" and the like
  kForward,         ///< "## forward ##", DistributedDataParallel.forward
  kCommunication,   ///< nccl:…, c10d::…, record_param_comms; kernels of collectives
  kData,            ///< gets a batch (trace/names/loaders.csv)
  kStepRange,       ///< ProfilerStep#N
  kReadBack,        ///< aten::item and what it calls: the CPU asks for a value
  kLayer,           ///< layer:<name>|<type>
  kModule,          ///< nn.Module: <name>
};
NameClass classify_name(std::string_view name);

/// classify_name once per distinct name.
class NameClasses {
 public:
  explicit NameClasses(const StringTable& strings) : strings_(strings), known_(strings.size(), NameClass::kUnknown) {}
  NameClass operator[](StringId id) {
    NameClass& known = known_[id.index()];
    if (known == NameClass::kUnknown) known = classify_name(strings_[id]);
    return known;
  }

 private:
  const StringTable& strings_;
  std::vector<NameClass> known_;
};

}  // namespace foretrace::analysis
