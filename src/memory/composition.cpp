#include <algorithm>

#include "base/saturate.hpp"
#include "foretrace/memory/memory.hpp"

namespace foretrace::memory {

namespace {

// A gradient of every parameter is allocated in backward: how much parameters take where the optimizer does not tell.
std::int64_t gradient_bytes(const Curve& c) {
  std::int64_t all = 0;
  for (const Block& b : c.blocks) {
    if (b.kind == Kind::kGradient && b.allocated > 0) all = saturated_sum(all, b.bytes);
  }
  return all;
}

}  // namespace

Composition composition(const Curve& c, std::int64_t reserved) {
  const Peak most = peak(c);
  Composition out;
  std::int64_t resident = c.start_bytes;
  for (const Block& b : c.blocks) {
    if (b.allocated > most.at || b.freed <= most.at) continue;
    std::int64_t& of_kind = b.kind == Kind::kResident                   ? resident
                            : b.kind == Kind::kGradient                 ? out.gradients
                            : b.kind == Kind::kActivation               ? out.activations
                            : b.kind == Kind::kTemporary && b.workspace ? out.workspaces
                                                                        : out.other;
    of_kind = saturated_sum(of_kind, b.bytes);
  }
  const auto take = [&resident](std::int64_t wanted) {
    const std::int64_t taken = std::clamp<std::int64_t>(wanted, 0, std::max<std::int64_t>(0, resident));
    resident -= taken;
    return taken;
  };
  out.parameters = take(c.parameter_bytes > 0 ? c.parameter_bytes : gradient_bytes(c));
  out.optimizer_states = take(c.state_bytes);
  out.other = saturated_sum(out.other, resident);
  out.fragmentation = std::max<std::int64_t>(0, saturated_sum(reserved, -most.bytes));
  return out;
}

}  // namespace foretrace::memory
