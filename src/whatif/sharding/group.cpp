#include "whatif/sharding/group.hpp"

#include <algorithm>

#include "trace/latencies.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

std::vector<Parameter> group_parameters() {
  std::vector<Parameter> parameters{{.name = "size",
                                     .about = "GPUs that share the model",
                                     .type = ParameterType::kNumber,
                                     .required = true,
                                     .check = whole_number<kMostWorkers>}};
  for (Parameter& p : network_parameters()) parameters.push_back(std::move(p));
  return parameters;
}

Status check_group(const Parameters& p) {
  if (p.number("size") < 2) return {};
  return check_nodes(static_cast<std::int64_t>(p.number("size")), static_cast<std::int64_t>(p.number("gpus_per_node")));
}

Result<std::unique_ptr<Group>> Group::make(Model& m, Draft& draft, const Parameters& p) {
  const Graph& g = m.graph;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == TaskKind::kCollective && g.event[t].valid())
      return fail(ErrorCode::kDeclined,
                  "the trace is of several GPUs that communicate: how they share the model now is not known",
                  "ask this of a trace of one GPU");
  }
  if (step_facts(m)->compiled)
    return fail(ErrorCode::kDeclined, "a compiled step does not tell the shapes of its kernels",
                "ask this of the step before it is compiled");
  FORETRACE_TRY_VOID(check_group(p));
  FORETRACE_TRY(Network network, chosen_network(m, p));
  return std::unique_ptr<Group>(new Group(m, draft, std::move(network), static_cast<int>(p.number("size"))));
}

namespace {
Gradients on_main_stream(const Graph& g) {
  Gradients out;
  out.stream = main_stream(g);
  return out;
}
}  // namespace

Group::Group(Model& m, Draft& draft, Network network, int size)
    : stream_(on_main_stream(m.graph)),
      network_(std::move(network)),
      cluster_{network_.collectives.get(), size, network_.gpus_per_node},
      builder_(m, draft, stream_, how_, cluster_) {}

void Group::meet(Meeting meeting) {
  if (meeting.from.known() && meeting.at.known()) meetings_.push_back(std::move(meeting));
}

double Group::bytes() const {
  double all = 0;
  for (const Meeting& meeting : meetings_) all += meeting.bytes;
  return all;
}

void Group::finish() {
  const Graph& g = builder_.m.graph;
  // Where the work is launched by another thread, the stream's order still is that of the step.
  std::stable_sort(meetings_.begin(), meetings_.end(),
                   [](const Meeting& a, const Meeting& b) { return a.from.gpu < b.from.gpu; });
  Place last;
  std::uint32_t behind = kNone;  // the call of the collective before, at the same place
  for (const Meeting& meeting : meetings_) {
    Place from = meeting.from;
    if (behind != kNone && from.cpu == last.cpu && from.gpu == last.gpu) from.cpu = behind;
    last = meeting.from;
    const Ns call = builder_.ns(builder_.ddp.collective_us, cpu_phase(meeting.phase));
    behind = builder_.cpu(from, meeting.name + ": call", call, meeting.phase);
    const std::uint32_t task = builder_.collective(builder_.lane(), meeting.kind, meeting.bytes, meeting.name);
    builder_.start_behind(task, from);
    const std::uint32_t next = meeting.at.gpu + 1;
    if (next < g.lanes[g.lane[meeting.at.gpu]].end) builder_.wait_for(next, task);
  }
}

}  // namespace foretrace::whatif
