// What the names of a compiled program's operations say: the layer each belongs to, and the phase.

#include <vector>

#include "base/text.hpp"
#include "trace/importers/hlo_module.hpp"

namespace foretrace::trace {

HloScope parse_scope(std::string_view op_name) {
  HloScope out;
  out.backward = contains(op_name, "transpose(jvp(") || contains(op_name, "transpose(");
  out.forward = !out.backward && contains(op_name, "jvp(");
  // Components between slashes outside of brackets.
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t from = 0;
  for (std::size_t i = 0; i <= op_name.size(); ++i) {
    if (i == op_name.size() || (op_name[i] == '/' && depth == 0)) {
      parts.push_back(op_name.substr(from, i - from));
      from = i + 1;
    } else if (op_name[i] == '(') {
      ++depth;
    } else if (op_name[i] == ')') {
      --depth;
    }
  }
  if (parts.size() < 2) return out;
  parts.pop_back();  // the primitive
  for (std::string_view part : parts) {
    // "transpose(jvp(block0))" is block0; "jit(_var)" is a function that was compiled, no scope of the model.
    bool compiled = false;
    while (part.ends_with(')')) {
      const std::size_t open = part.find('(');
      if (open == std::string_view::npos) break;
      const std::string_view wrapper = part.substr(0, open);
      compiled = compiled || wrapper == "jit" || wrapper == "pjit" || wrapper == "xla_call";
      part = part.substr(open + 1, part.size() - open - 2);
    }
    if (compiled || part.empty() ||
        is_one_of(part,
                  "while body cond checkpoint rematted_computation remat closed_call scan shard_map core_call "
                  "custom_vjp_call custom_jvp_call")) {
      continue;
    }
    if (!out.layer.empty()) out.layer += '/';
    out.layer += part;
  }
  return out;
}

// The operation's own name, or of a fusion without one that of something inside it.
std::string HloModule::scope_of(const HloInstruction& in) const {
  if (!in.op_name.empty() || in.opcode != "fusion") return in.op_name;
  for (const std::int64_t called : in.calls) {
    const auto it = computations_.find(called);
    if (it == computations_.end()) continue;
    for (auto id = it->second.order.rbegin(); id != it->second.order.rend(); ++id) {
      const HloInstruction* inner = at(*id);
      if (inner != nullptr && inner->opcode != "parameter" && !inner->op_name.empty()) return inner->op_name;
    }
  }
  return {};
}

CompiledOp HloModule::describe(const HloInstruction& in, HloKind kind) const {
  CompiledOp out;
  out.operation = in.name;
  const HloScope scope = parse_scope(scope_of(in));
  out.layer = scope.layer;
  // Where no scope names a layer, what is computed does: "(dot_general)".
  const std::string of = scope_of(in);
  if (out.layer.empty() && !of.empty()) out.layer = "(" + of.substr(of.rfind('/') + 1) + ")";
  const bool weights = of_parameters(in, 0);
  if (scope.backward) {
    out.phase = "backward";
  } else if (scope.forward || !has_gradients) {
    out.phase = "forward";
  } else {
    // Named after an argument of the program, not after an operation: parameters brought into the layout that the passes want.
    const bool moved = of.find('/') == std::string::npos;
    out.phase = weights && (kind == HloKind::kCopy || moved) ? "forward" : "optimizer";
  }
  out.of_parameters = out.phase == "optimizer" || (weights && !scope.forward && !scope.backward);
  if (kind == HloKind::kCollective) {
    out.family = "collective";
  } else if (kind == HloKind::kCopy) {
    out.family = "copy";
  }
  set_sizes(in, out);
  return out;
}

}  // namespace foretrace::trace
