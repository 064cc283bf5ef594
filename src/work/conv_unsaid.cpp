#include "work/conv_unsaid.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace foretrace::work {

namespace {

/// What an operation says of its input and weight.
using Operands = std::array<std::int64_t, 8>;

Operands operands_of(const Convolution& c) {
  return {c.input[0], c.input[1], c.input[2], c.input[3], c.out_channels, c.kernel_h, c.kernel_w, c.groups};
}

bool only_tensors(const trace::Trace& trace, const Work& work) {
  if (work.op_event == kNone) return false;
  const trace::OpInputs* inputs = trace.args.inputs(trace.events.args[work.op_event]);
  return inputs != nullptr && inputs->dims.valid() && !inputs->concrete.valid();
}

}  // namespace

std::int64_t stride_between(std::int64_t in, std::int64_t out, std::int64_t reach) {
  if (in <= 0 || out <= 0 || reach <= 0) return 1;
  const std::int64_t longest = in / out + 1;
  for (std::int64_t stride = 1; stride <= longest; ++stride) {
    // With more padding the result only grows: `out` lies between those of no padding and of half the kernel.
    const std::int64_t least = (in - reach) / stride + 1, most = (in + 2 * (reach / 2) - reach) / stride + 1;
    if (least <= out && out <= most) return stride;
  }
  return 1;
}

void take_sizes_from_gradients(Works& works, const trace::Trace& trace) {
  struct Gradient {
    std::uint32_t op_event;
    const Convolution* sizes;
  };
  std::map<Operands, std::vector<Gradient>> gradients;
  std::vector<Work*> forward;
  for (Work& work : works.rows) {
    auto* c = std::get_if<Convolution>(&work.kind);
    if (c == nullptr || c->input[0] <= 0 || !only_tensors(trace, work)) continue;
    if (work.family == Family::kConvForward) {
      forward.push_back(&work);
      continue;
    }
    std::vector<Gradient>& found = gradients[operands_of(*c)];
    if (found.empty() || found.back().op_event != work.op_event) found.push_back({work.op_event, c});
  }
  std::stable_sort(forward.begin(), forward.end(),
                   [](const Work* a, const Work* b) { return a->op_event < b->op_event; });
  std::map<Operands, std::size_t> taken;
  for (auto& [operands, found] : gradients) {
    std::stable_sort(found.begin(), found.end(),
                     [](const Gradient& a, const Gradient& b) { return a.op_event > b.op_event; });
  }
  for (Work* work : forward) {
    auto& c = std::get<Convolution>(work->kind);
    const Operands operands = operands_of(c);
    const auto it = gradients.find(operands);
    if (it == gradients.end()) continue;
    const Convolution& told = *it->second[taken[operands]++ % it->second.size()].sizes;
    c.out_h = told.out_h;
    c.out_w = told.out_w;
    c.stride = told.stride;
    refresh(*work);
  }
}

}  // namespace foretrace::work
