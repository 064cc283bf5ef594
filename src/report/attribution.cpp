#include "report/attribution.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "report/names.hpp"

namespace foretrace::report {
namespace {

using trace::EventKind;

using trace::Trace;

bool is_cpu_row(EventKind kind) {
  return kind == EventKind::kOp || kind == EventKind::kAnnotation || kind == EventKind::kRuntime ||
         kind == EventKind::kPython;
}

// Which of two events with the same extent encloses the other.
int outer_rank(EventKind kind) {
  switch (kind) {
    case EventKind::kPython:
      return 0;
    case EventKind::kAnnotation:
      return 1;
    case EventKind::kOp:
      return 2;
    default:
      return 3;
  }
}

// Traces before 2022 write ranges under the category of operations; their names tell.
bool is_range(NameClass name, std::string_view text) {
  return name == NameClass::kStepRange || name == NameClass::kLayer || name == NameClass::kData ||
         (name == NameClass::kOptimizer && text.starts_with("Optimizer."));
}

class Builder {
 public:
  Builder(const Trace& trace, Ns start, Ns end) : trace_(trace), names_(trace.strings) {
    result_.start = start;
    result_.end = end;
  }

  Attribution build() {
    collect_cpu();
    nest();
    find_autograd_lanes();
    assign_forward();
    assign_backward();
    collect_gpu();
    return std::move(result_);
  }

 private:
  NameClass name_class(std::uint32_t event) { return names_[trace_.events.name[event]]; }

  void collect_cpu() {
    const trace::Events& events = trace_.events;
    for (std::size_t e = 0; e < events.size(); ++e) {
      const Ns start = events.start[e], end = start + events.duration[e];
      if (start >= result_.end || end <= result_.start) continue;
      const EventKind kind = trace_.kind(e);
      if (!is_cpu_row(kind)) continue;
      CpuRow row;
      row.start = std::max(start, result_.start);
      row.end = std::min(end, result_.end);
      row.event = static_cast<std::uint32_t>(e);
      row.lane = events.lane[e];
      row.kind =
          kind == EventKind::kOp && is_range(names_[events.name[e]], trace_.name(e)) ? EventKind::kAnnotation : kind;
      result_.cpu.push_back(row);
    }
    const auto before = [](const CpuRow& a, const CpuRow& b) {
      if (a.lane != b.lane) return a.lane < b.lane;
      if (a.start != b.start) return a.start < b.start;
      if (a.end != b.end) return a.end > b.end;
      const int x = outer_rank(a.kind), y = outer_rank(b.kind);
      return x != y ? x < y : a.event < b.event;
    };
    std::sort(result_.cpu.begin(), result_.cpu.end(), before);
  }

  // Parents, innermost operations and self times. Events that overlap without nesting (some profilers write those) count
  // as inside the earlier one, for the part that is.
  void nest() {
    std::vector<std::uint32_t> open;
    LaneId lane;
    for (std::uint32_t r = 0; r < result_.cpu.size(); ++r) {
      CpuRow& row = result_.cpu[r];
      if (row.lane != lane) {
        open.clear();
        lane = row.lane;
      }
      while (!open.empty() && result_.cpu[open.back()].end <= row.start) open.pop_back();
      row.self = row.end - row.start;
      if (!open.empty()) {
        CpuRow& parent = result_.cpu[open.back()];
        row.parent = open.back();
        row.op = parent.op;
        parent.self = std::max<Ns>(0, parent.self - (std::min(row.end, parent.end) - row.start));
      }
      if (row.kind == EventKind::kOp) row.op = r;
      open.push_back(r);
    }
  }

  // The thread autograd runs backward on: it evaluates nodes and carries no step or optimizer range. Without a GPU
  // backward runs on the calling thread, which this leaves alone.
  void find_autograd_lanes() {
    autograd_.assign(trace_.lanes.size(), false);
    std::vector<bool> main(trace_.lanes.size(), false);
    for (const CpuRow& row : result_.cpu) {
      const NameClass name = name_class(row.event);
      if (name == NameClass::kBackwardNode) autograd_[row.lane.index()] = true;
      if (name == NameClass::kStepRange || (name == NameClass::kOptimizer && row.kind == EventKind::kAnnotation)) {
        main[row.lane.index()] = true;
      }
    }
    for (std::size_t l = 0; l < main.size(); ++l) autograd_[l] = autograd_[l] && !main[l];
  }

  Phase phase_of(const CpuRow& row, NameClass name) const {
    const bool on_autograd = autograd_[row.lane.index()];
    switch (name) {
      case NameClass::kOptimizer:
        return Phase::kOptimizer;
      case NameClass::kBackwardNode:
      case NameClass::kAccumulateGrad:
      case NameClass::kBackward:
        return Phase::kBackward;
      case NameClass::kCommunication:
        return Phase::kCommunication;
      case NameClass::kData:
        return Phase::kData;
      default:
        break;
    }
    const Phase outer = row.parent != kNone ? result_.cpu[row.parent].phase
                        : on_autograd       ? Phase::kBackward
                                            : Phase::kOther;
    if (outer != Phase::kOther) return outer;
    const bool forward = name == NameClass::kForward || name == NameClass::kLayer || name == NameClass::kModule;
    if (forward || (row.kind == EventKind::kOp && name == NameClass::kPlain)) return Phase::kForward;
    return Phase::kOther;
  }

  std::uint32_t layer_id(StringId name_id) {
    const auto [at, fresh] = layer_ids_.try_emplace(name_id.value, static_cast<std::uint32_t>(result_.layers.size()));
    if (fresh) {
      std::string_view name = trace_.strings[name_id];
      name.remove_prefix(name.find(':') + 1);
      if (name.starts_with(' ')) name.remove_prefix(1);
      const std::size_t bar = name.rfind('|');
      LayerName layer;
      layer.name = name.substr(0, bar);
      if (bar != std::string_view::npos) {
        layer.type = name.substr(bar + 1);
      } else {
        layer.type = layer.name.substr(0, layer.name.rfind('_'));  // "nn.Module: Conv2d_3" tells its type so
      }
      result_.layers.push_back(std::move(layer));
    }
    return at->second;
  }

  void assign_forward() {
    // A module frame names a layer only where no annotation does: annotations are what the user asked for.
    std::vector<bool> by_annotation(result_.cpu.size(), false);
    for (std::uint32_t r = 0; r < result_.cpu.size(); ++r) {
      CpuRow& row = result_.cpu[r];
      const NameClass name = name_class(row.event);
      row.phase = phase_of(row, name);
      if (row.parent != kNone) {
        row.layer = result_.cpu[row.parent].layer;
        by_annotation[r] = by_annotation[row.parent];
      }
      if (name == NameClass::kLayer) {
        row.layer = layer_id(trace_.events.name[row.event]);
        by_annotation[r] = true;
      } else if (name == NameClass::kModule && !by_annotation[r]) {
        row.layer = layer_id(trace_.events.name[row.event]);
      }
    }
  }

  void assign_backward() {
    // The operation that created an autograd node is the last one with its sequence number: those before it only saw
    // the number that would be given next.
    struct Source {
      Ns start;
      std::uint32_t layer;
    };
    std::unordered_map<std::int64_t, Source> source;
    for (const CpuRow& row : result_.cpu) {
      if (row.kind != EventKind::kOp || row.phase == Phase::kBackward) continue;
      const trace::OpIds* ids = trace_.op(row.event);
      if (ids == nullptr || ids->sequence_number < 0) continue;
      const auto [at, fresh] = source.try_emplace(ids->sequence_number, Source{row.start, row.layer});
      if (!fresh && row.start >= at->second.start) at->second = {row.start, row.layer};
    }
    std::uint32_t last_layer = kNone;
    LaneId lane;
    for (CpuRow& row : result_.cpu) {
      if (row.lane != lane) last_layer = kNone;
      lane = row.lane;
      if (row.phase != Phase::kBackward && row.phase != Phase::kCommunication) continue;
      const NameClass name = name_class(row.event);
      if (name == NameClass::kLayer || name == NameClass::kModule) continue;  // recomputed forward says it itself
      if (name == NameClass::kBackwardNode) {
        const trace::OpIds* ids = trace_.op(row.event);
        const auto at = ids != nullptr ? source.find(ids->sequence_number) : source.end();
        if (at != source.end()) row.layer = at->second.layer;
        last_layer = row.layer;
      } else if (name == NameClass::kAccumulateGrad) {
        row.layer = last_layer;
      } else if (row.parent != kNone) {
        row.layer = result_.cpu[row.parent].layer;
      }
    }
  }

  void collect_gpu() {
    std::unordered_map<std::int64_t, std::uint32_t> launch_of, op_of;
    for (std::uint32_t r = 0; r < result_.cpu.size(); ++r) {
      const CpuRow& row = result_.cpu[r];
      const Ns start = trace_.events.start[row.event];
      if (start < result_.start) continue;  // launched before the window began
      if (row.kind == EventKind::kRuntime && trace_.events.correlation[row.event] > 0) {
        launch_of.try_emplace(trace_.events.correlation[row.event], r);
      } else if (row.kind == EventKind::kOp && trace_.events.external_id[row.event] > 0) {
        op_of.try_emplace(trace_.events.external_id[row.event], r);
      }
    }
    // Work that starts in the window and has no launch in it belongs to the window only if it has none at all.
    std::unordered_set<std::int64_t> doubtful;
    const trace::Events& events = trace_.events;
    for (std::size_t e = 0; e < events.size(); ++e) {
      if (!trace::is_gpu_work(trace_.kind(e))) continue;
      const std::int64_t correlation = events.correlation[e];
      GpuRow row;
      row.event = static_cast<std::uint32_t>(e);
      const auto launch = correlation > 0 ? launch_of.find(correlation) : launch_of.end();
      if (launch != launch_of.end()) {
        row.launch = launch->second;
      } else {
        if (events.start[e] < result_.start || events.start[e] >= result_.end) continue;
        const auto op = events.external_id[e] > 0 ? op_of.find(events.external_id[e]) : op_of.end();
        if (op != op_of.end()) row.launch = op->second;
        if (correlation > 0) doubtful.insert(correlation);
      }
      result_.gpu.push_back(row);
    }
    drop_launched_elsewhere(doubtful);
    for (GpuRow& row : result_.gpu) assign_gpu(row);
  }

  void drop_launched_elsewhere(const std::unordered_set<std::int64_t>& doubtful) {
    if (doubtful.empty()) return;
    std::unordered_set<std::int64_t> elsewhere;
    const trace::Events& events = trace_.events;
    for (std::size_t e = 0; e < events.size(); ++e) {
      if (trace_.kind(e) == EventKind::kRuntime && doubtful.contains(events.correlation[e])) {
        elsewhere.insert(events.correlation[e]);
      }
    }
    std::erase_if(result_.gpu, [&](const GpuRow& row) { return elsewhere.contains(events.correlation[row.event]); });
  }

  void assign_gpu(GpuRow& row) {
    if (row.launch != kNone) {
      row.phase = result_.cpu[row.launch].phase;
      row.layer = result_.cpu[row.launch].layer;
    }
    const std::string_view name = trace_.name(row.event);
    const EventKind kind = trace_.kind(row.event);
    if (kind == EventKind::kKernel) {
      const bool collective = name_class(row.event) == NameClass::kCommunication ||
                              trace_.args.collective(trace_.events.args[row.event]) != nullptr;
      if (collective) {
        row.phase = Phase::kCommunication;
      } else if (row.phase == Phase::kCommunication) {
        // Packing and scaling around a collective is work of the phase the collective was issued in.
        row.phase = enclosing_phase(row.launch);
      }
    } else if (kind == EventKind::kMemcpy) {
      const bool to_device = name.find("HtoD") != std::string_view::npos;
      if (to_device && (row.phase == Phase::kForward || row.phase == Phase::kOther)) row.phase = Phase::kData;
      if (name.find("PtoP") != std::string_view::npos) row.phase = Phase::kCommunication;
    }
  }

  Phase enclosing_phase(std::uint32_t r) const {
    while (r != kNone && result_.cpu[r].phase == Phase::kCommunication) {
      if (result_.cpu[r].parent == kNone && autograd_[result_.cpu[r].lane.index()]) return Phase::kBackward;
      r = result_.cpu[r].parent;
    }
    return r == kNone ? Phase::kOther : result_.cpu[r].phase;
  }

  const Trace& trace_;
  NameClasses names_;
  Attribution result_;
  std::vector<bool> autograd_;
  std::unordered_map<std::uint32_t, std::uint32_t> layer_ids_;
};

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kCommunication:
      return "communication";
    case Phase::kData:
      return "data";
    default:
      return "other";
  }
}

std::uint32_t Attribution::at(LaneId lane, Ns time) const {
  const auto after = std::upper_bound(
      cpu.begin(), cpu.end(), std::pair(lane, time),
      [](const auto& key, const CpuRow& r) { return key.first != r.lane ? key.first < r.lane : key.second < r.start; });
  if (after == cpu.begin()) return kNone;
  auto row = static_cast<std::uint32_t>(after - cpu.begin() - 1);
  if (cpu[row].lane != lane) return kNone;
  while (row != kNone && cpu[row].end <= time) row = cpu[row].parent;
  return row;
}

Attribution attribute(const Trace& trace, Ns start, Ns end) { return Builder(trace, start, end).build(); }

}  // namespace foretrace::report
