#include <algorithm>
#include <array>

#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

std::string_view to_string(Need need) {
  constexpr std::array<std::string_view, 6> kNames = {"shapes",        "a backward pass", "layer ranges",
                                                      "memory events", "communication",   "DataLoader ranges"};
  return kNames[static_cast<std::size_t>(need)];
}

std::string to_string(const std::vector<Need>& needs) {
  std::string all;
  for (const Need need : needs) all += (all.empty() ? "" : "; ") + std::string(to_string(need));
  return all;
}

std::string_view to_string(Changes changes) {
  constexpr std::array<std::string_view, 19> kNames = {
      "costs",     "batch",     "accumulation", "precision", "layout", "kernels", "recomputation",
      "placement", "optimizer", "compilation",  "launches",  "waits",  "input",   "host",
      "device",    "workers",   "network",      "sequence",  "depth"};
  return kNames[static_cast<std::size_t>(changes)];
}

std::string_view to_string(Part part) {
  constexpr std::array<std::string_view, 3> kNames = {"unchanged", "modelled", "not modelled"};
  return kNames[static_cast<std::size_t>(part)];
}

namespace {

template <class Matches>
bool any_task(const graph::Graph& g, Matches matches) {
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (matches(t)) return true;
  }
  return false;
}

bool has_operations(const trace::Trace& trace) {
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (trace.kind(e) == trace::EventKind::kOp) return true;
  }
  return false;
}

}  // namespace

std::string missing(const Model& model, Need need) {
  const graph::Graph& g = model.graph;
  switch (need) {
    case Need::kShapes: {
      const bool known = std::any_of(model.works.rows.begin(), model.works.rows.end(), [](const work::Work& w) {
        return w.family != work::Family::kMemory && w.has_shape();
      });
      if (known) return "";
      return has_operations(*model.trace)
                 ? "the trace records no shapes of operations (profile with record_shapes=True)"
                 : "the trace holds no operations, only the GPU's side (profile the CPU too)";
    }
    case Need::kBackward:
      return any_task(g, [&](std::size_t t) { return g.phase[t] == graph::Phase::kBackward; })
                 ? ""
                 : "the step has no backward pass";
    case Need::kLayers:
      return std::any_of(g.layers.begin(), g.layers.end(), [](const graph::Layer& l) { return !l.synthetic; })
                 ? ""
                 : "the trace names no layers (record with foretrace.record, or with_modules=True)";
    case Need::kMemoryEvents:
      return model.memory ? "" : "the trace has no memory events (profile with profile_memory=True)";
    case Need::kCommunication:
      return any_task(g, [&](std::size_t t) { return g.kind[t] == graph::TaskKind::kCollective; })
                 ? ""
                 : "no communication in this step";
    case Need::kLoader:
      return any_task(g, [&](std::size_t t) { return g.phase[t] == graph::Phase::kData; })
                 ? ""
                 : "no DataLoader gives a batch within the step";
  }
  return {};
}

}  // namespace foretrace::whatif
