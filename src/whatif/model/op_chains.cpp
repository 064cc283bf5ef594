#include "whatif/model/op_chains.hpp"

#include <algorithm>

#include "foretrace/whatif/draft.hpp"
#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

void OpChains::find_parents() const {
  std::call_once(found_, [this] {
    const trace::Events& e = trace_.events;
    parent_.assign(trace_.size(), kNone);
    for (std::uint32_t i = 0; i < trace_.size(); ++i) {
      if (trace_.kind(i) == trace::EventKind::kOp) order_.push_back(i);
    }
    // A longer operation of the same start is the outer one.
    std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (e.lane[a] != e.lane[b]) return e.lane[a] < e.lane[b];
      return e.start[a] != e.start[b] ? e.start[a] < e.start[b] : e.duration[a] > e.duration[b];
    });
    std::vector<std::uint32_t> open;
    for (const std::uint32_t i : order_) {
      while (!open.empty() && (e.lane[open.back()] != e.lane[i] || trace_.end(open.back()) < trace_.end(i))) {
        open.pop_back();
      }
      if (!open.empty()) parent_[i] = open.back();
      open.push_back(i);
    }
  });
}

std::vector<bool> OpChains::matching(const std::string& glob) const {
  find_parents();
  std::vector<std::int8_t> names(trace_.strings.size(), -1);  // each name is matched once
  std::vector<bool> found(trace_.size(), false);
  for (const std::uint32_t i : order_) {
    if (parent_[i] != kNone && found[parent_[i]]) {
      found[i] = true;
      continue;
    }
    const StringId name = trace_.events.name[i];
    std::int8_t& known = names[name.index()];
    if (known < 0) known = glob_match(glob, trace_.strings[name]) ? 1 : 0;
    found[i] = known != 0;
  }
  return found;
}

std::uint32_t OpChains::around(std::uint32_t op) const {
  find_parents();
  return parent_[op];
}

std::uint32_t OpChains::outermost(std::uint32_t op) const {
  find_parents();
  while (parent_[op] != kNone) op = parent_[op];
  return op;
}

std::vector<bool> matching_operations(const Model& model, const std::string& glob) {
  return model.chains->matching(glob);
}

}  // namespace foretrace::whatif
