#include "whatif/sharding/group.hpp"

#include <algorithm>

#include "trace/latencies.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/parallel/in_step.hpp"
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
  if (communicates(g))
    return fail(ErrorCode::kDeclined,
                "the trace is of several GPUs that communicate: how they share the model now is not known",
                "ask this of a trace of one GPU");
  if (step_facts(m)->compiled)
    return fail(ErrorCode::kDeclined, "a compiled step does not show the shapes of its kernels",
                "ask this of the step before it is compiled");
  FORETRACE_TRY_VOID(check_group(p));
  FORETRACE_TRY(Network network, chosen_network(m, p));
  const int size = static_cast<int>(p.number("size"));
  slow_down(draft, g, slowest_of(m, size));  // they synchronise in every layer
  run_in_step(m, draft, size);
  return std::unique_ptr<Group>(new Group(m, draft, std::move(network), size));
}

namespace {
Gradients on_main_stream(const Graph& g) {
  Gradients out;
  out.stream = main_stream(g);
  return out;
}
}  // namespace

Group::Group(Model& m, Draft& draft, Network network, int size)
    : m_(m),
      draft_(draft),
      stream_(on_main_stream(m.graph)),
      network_(std::move(network)),
      cluster_{network_.collectives.get(), size, network_.gpus_per_node},
      builder_(m, draft, stream_, how_, cluster_) {}

void Group::add_collective(Meeting meeting) {
  if (meeting.from.known() && meeting.at.known()) meetings_.push_back(std::move(meeting));
}

Status Group::reduce_gradients(const std::function<bool(const Gradient&)>& own) {
  FORETRACE_TRY(Gradients gradients, find_gradients(m_));
  if (own) std::erase_if(gradients.list, own);
  if (gradients.list.empty()) return {};
  gradients.elements = 0;
  for (const Gradient& g : gradients.list) gradients.elements += g.elements;
  Builder reduce(m_, draft_, gradients, how_, cluster_);
  FORETRACE_TRY_VOID(apply_ddp(reduce));
  if (m_.memory)
    m_.memory->start_bytes -= gradients.bytes();  // gradients are parts of the buckets, not separate copies
  m_.buckets = plan_of(gradients, how_).size();
  return {};
}

void Group::copy(Place& at, const Meeting& meeting, const work::Work& work) {
  insert_work(m_, draft_, at, meeting.name + ": copy", work,
              {.phase = meeting.phase, .cpu_cost = m_.launch_time(meeting.phase)});
}

// `from` becomes the place behind all of it. Returns the collective.
std::uint32_t Group::put(const Meeting& meeting, Place& from) {
  if (meeting.before) copy(from, meeting, *meeting.before);
  const Ns call = builder_.ns(builder_.ddp.collective_us, cpu_phase(meeting.phase));
  from.cpu = builder_.cpu(from, meeting.name + ": call", call, meeting.phase);
  const std::uint32_t task = builder_.collective(builder_.lane(), meeting.kind, meeting.bytes, size(), meeting.name,
                                                 static_cast<double>(meeting.times));
  builder_.start_behind(task, from);
  return task;
}

void Group::finish() {
  const Graph& g = builder_.m.graph;
  // Where the work is launched by another thread, the stream's order still is that of the step.
  std::stable_sort(meetings_.begin(), meetings_.end(),
                   [](const Meeting& a, const Meeting& b) { return a.from.gpu < b.from.gpu; });
  Place last;
  Place behind;  // all that is there already, at the same place
  for (const Meeting& meeting : meetings_) {
    const bool same = last.known() && meeting.from.cpu == last.cpu && meeting.from.gpu == last.gpu;
    const bool waits_here = meeting.from.cpu == meeting.at.cpu && meeting.from.gpu == meeting.at.gpu;
    Place from = same ? behind : meeting.from;
    const std::uint32_t task = put(meeting, from);
    Place at = waits_here ? from : meeting.at;
    if (meeting.behind) {
      const std::uint32_t before = at.gpu;
      copy(at, meeting, *meeting.behind);
      if (at.gpu != before) builder_.wait_for(at.gpu, task);
    } else if (const std::uint32_t next = meeting.at.gpu + 1; next < g.lanes[g.lane[meeting.at.gpu]].end) {
      builder_.wait_for(next, task);
    }
    last = meeting.from;
    behind = waits_here ? at : from;
  }
}

}  // namespace foretrace::whatif
