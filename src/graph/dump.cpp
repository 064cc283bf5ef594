#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "graph/text_form.hpp"

namespace foretrace::graph {

namespace {

class Writer {
 public:
  explicit Writer(const Graph& g) : g_(g), carried_(g.carried) {
    std::stable_sort(carried_.begin(), carried_.end(),
                     [](const auto& a, const auto& b) { return a.dependency.from < b.dependency.from; });
  }

  std::string run() {
    write("{}\nstep {}", kTextHeader, quoted(g_.step_name));
    number("traced", g_.traced);
    number("period", g_.period);
    if (g_.recorded_steps.steps > 0) {
      number("steps", static_cast<std::int64_t>(g_.recorded_steps.steps));
      number("steps_low", g_.recorded_steps.low);
      number("steps_high", g_.recorded_steps.high);
    }
    number("main", g_.main_lane);
    if (g_.last.valid()) write(" last={}", g_.last.value);
    number("copies", g_.copies, 1);
    if (g_.periodic) write(" periodic");
    if (g_.ramp_up) write(" ramp_up");
    write("\nnotes");
    for (const NoteKey& note : kNoteKeys) number(note.name, static_cast<std::int64_t>(g_.notes.*note.count));
    number("unexplained_time", g_.notes.unexplained_time);
    if (g_.notes.waited > 0) number("waited", g_.notes.waited);
    for (const StartupKey& part : kStartupKeys) number(part.name, g_.notes.startup.*part.time);
    number("allocator", g_.notes.allocator);
    if (g_.notes.queue_depth_measured) write(" queue_depth_measured");
    write("\n");
    for (std::size_t l = 0; l < g_.layers.size(); ++l) {
      const Layer& layer = g_.layers[l];
      write("layer {} {} {}{}\n", l, quoted(g_.strings[layer.name]), quoted(g_.strings[layer.type]),
            layer.synthetic ? " synthetic" : "");
    }
    for (const GraphLane& lane : g_.lanes) {
      write("lane {} {}", kLaneKindNames[static_cast<std::size_t>(lane.kind)], quoted(g_.strings[lane.name]));
      if (lane.role != LaneRole::kWork) write(" role={}", kLaneRoleNames[static_cast<std::size_t>(lane.role)]);
      if (lane.trace_lane.valid()) write(" trace={}", lane.trace_lane.value);
      number("device", lane.device, -1);
      number("stream", lane.stream, -1);
      number("queue", lane.queue_depth);
      number("queue_lag", lane.queue_lag);
      if (lane.by_priority) write(" by-priority");
      write("\n");
      for (std::uint32_t t = lane.begin; t < lane.end; ++t) task(t);
    }
    return std::move(out_);
  }

 private:
  template <class... Args>
  void write(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
  }

  void number(std::string_view key, std::int64_t value, std::int64_t otherwise = 0) {
    if (value != otherwise) write(" {}={}", key, value);
  }

  static std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
      } else {
        out += c;
      }
    }
    return out + '"';
  }

  void task(std::uint32_t t) {
    write("task {} {}", t, to_string(g_.kind[t]));
    if (g_.name[t].valid() && g_.name[t].value != 0) write(" {}", quoted(g_.task_name(t)));
    number("cost", g_.cost[t]);
    number("lag", g_.lane_lag[t]);
    number("at", g_.measured[t]);
    number("priority", g_.priority_of(t));
    const Recorded recorded = g_.recorded_in(t);
    for (const RecordedKey& key : kRecordedKeys) number(key.name, recorded.*key.count);
    if (g_.phase[t] != Phase::kOther) write(" phase={}", to_string(g_.phase[t]));
    if (g_.layer[t].valid()) write(" layer={}", g_.layer[t].value);
    if (g_.launch[t].valid()) write(" launch={}", g_.launch[t].value);
    if (g_.event[t].valid()) write(" event={}", g_.event[t].value);
    if (g_.op[t].valid()) write(" op={}", g_.op[t].value);
    if (g_.origin[t] != Origin::kMeasured) write(" origin={}", to_string(g_.origin[t]));
    write("\n");
    if (g_.soft[t] != kNone) {
      const SoftDependency& soft = g_.soft_dependencies[g_.soft[t]];
      write("< {} share", soft.from.value);
      number("lag", soft.lag);
      number("point", soft.point, kWhole);
      number("slack", soft.slack);
      write("\n");
    }
    for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
      if (g_.dep_kind[d] == DependencyKind::kShare) continue;  // written on the line of the task that waits
      write("> {} {}", g_.dep_to[d], to_string(g_.dep_kind[d]));
      number("lag", g_.dep_lag[d]);
      number("point", g_.dep_point[d], kWhole);
      write("\n");
    }
    for (; at_ < carried_.size() && carried_[at_].dependency.from == t; ++at_) {
      const auto& [d, back] = carried_[at_];
      write("^ {} {}", d.to, to_string(d.kind));
      number("lag", d.lag);
      number("point", d.point, kWhole);
      number("back", back, 1);
      write("\n");
    }
  }

  const Graph& g_;
  std::vector<CarriedDependency> carried_;  // by what is waited for
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string dump(const Graph& graph) { return Writer(graph).run(); }

}  // namespace foretrace::graph
