#include "plan/stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace foretrace::plan {
namespace {

// Both passes of a part, as long as the slower of GPU and CPU takes.
double time_of(const Part& p) {
  return static_cast<double>(std::max(p.forward + p.backward, p.forward_cpu + p.backward_cpu));
}

// Blocks are equal, so the next one goes where least is to do: no other order makes the longest stage shorter.
void balance(const Parts& parts, int layers, std::vector<Stage>& stages) {
  for (Stage& s : stages) s.blocks = 1;
  for (int left = layers - static_cast<int>(stages.size()); left > 0; --left) {
    std::min_element(stages.begin(), stages.end(), [&](const Stage& a, const Stage& b) {
      return a.sum(parts, time_of) < b.sum(parts, time_of);
    })->blocks += 1;
  }
}

}  // namespace

double Stage::sum(const Parts& p, double (*of)(const Part&)) const {
  return blocks * of(p.block) + (first ? of(p.first) : 0) + (last ? of(p.last) : 0);
}

double Stage::most(const Parts& p, double (*of)(const Part&)) const {
  double out = blocks > 0 ? of(p.block) : 0;
  if (first) out = std::max(out, of(p.first));
  if (last) out = std::max(out, of(p.last));
  return out;
}

Result<std::vector<Stage>> cut(const Plan& plan, const Parts& parts, int layers, std::uint32_t stages) {
  const auto count = static_cast<int>(stages);
  if (plan.stages.empty() && layers < count) {
    return fail(ErrorCode::kDeclined, fmt::format("{} blocks do not fill {} stages", layers, count));
  }
  std::vector<Stage> out(stages);
  out.front().first = true;
  out.back().last = true;
  if (!plan.stages.empty()) {
    const int all = std::accumulate(plan.stages.begin(), plan.stages.end(), 0);
    if (all != layers) {
      return fail(ErrorCode::kDeclined, fmt::format("the stages have {} blocks, the model has {}", all, layers));
    }
    for (std::uint32_t i = 0; i < stages; ++i) out[i].blocks = plan.stages[i];
  } else if (plan.balance == "time") {
    balance(parts, layers, out);
  } else {
    const auto border = [&](std::uint32_t i) { return static_cast<int>(std::int64_t{layers} * i / count); };
    for (std::uint32_t i = 0; i < stages; ++i) out[i].blocks = border(i + 1) - border(i);
  }
  return out;
}

}  // namespace foretrace::plan
