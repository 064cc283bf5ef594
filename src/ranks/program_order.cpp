#include "ranks/program_order.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>

namespace foretrace::ranks {
namespace {

using graph::Graph;
using graph::Phase;
using graph::TaskKind;
using work::Family;

bool has_phase(Phase phase) {
  return phase == Phase::kForward || phase == Phase::kBackward || phase == Phase::kOptimizer;
}

// The operation says what is computed; without one, the kernel's name may.
class Families {
 public:
  explicit Families(const trace::Trace& trace) : t_(trace), of_op_(trace.strings.size()), of_kernel_(of_op_) {}

  work::OpClass of(const Graph& g, std::uint32_t task) {
    if (g.op[task].valid()) {
      const work::OpClass named =
          cached(of_op_, g.op[task].value, [](std::string_view n) { return work::classify_op(n); });
      if (named.family != Family::kOther) return named;
    }
    return cached(of_kernel_, g.event[task].value,
                  [](std::string_view n) { return work::OpClass{work::family_of_kernel(n)}; });
  }

 private:
  using Known = std::vector<std::optional<work::OpClass>>;  // by name
  template <class Find>
  work::OpClass cached(Known& known, std::uint32_t event, Find find) {
    std::optional<work::OpClass>& at = known[t_.events.name[event].index()];
    if (!at) at = find(t_.name(event));
    return *at;
  }

  const trace::Trace& t_;
  Known of_op_, of_kernel_;
};

std::vector<Act> order_of(const trace::Trace& trace, const std::vector<GroupOperation>& operations, const Graph& g,
                          const RankPart& part) {
  std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> of_kernel;  // event: first, count
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    ++of_kernel.emplace(operations[i].event, std::pair(i, 0U)).first->second.second;
  }
  Families families(trace);
  std::vector<Act> out;
  for (std::uint32_t l = part.first_lane; l < part.end_lane; ++l) {
    std::uint32_t before = kNone;
    for (std::uint32_t t = g.lanes[l].begin; t < g.lanes[l].end; ++t) {
      if (!graph::is_gpu(g.kind[t]) || !g.event[t].valid()) continue;
      const std::uint32_t e = g.event[t].value;
      if (e == before) continue;  // the tail of a kernel
      before = e;
      Act act;
      act.event = e;
      act.start = trace.events.start[e];
      act.end = trace.end(e);
      act.launched = act.start;
      if (const TaskId call = g.launch[t]; call.valid() && g.event[call.index()].valid())
        act.launched = trace.events.start[g.event[call.index()].value];
      act.phase = g.phase[t];
      if (const auto found = of_kernel.find(e); found != of_kernel.end()) {
        std::tie(act.first, act.count) = found->second;
        act.family = Family::kCommunication;
        act.phase = Phase::kOther;
      } else {
        const work::OpClass computed = families.of(g, t);
        act.family = g.kind[t] == TaskKind::kKernel ? computed.family : Family::kMemory;
        act.form = computed.form;
        act.lookup = computed.form == work::Form::kEmbedding ||
                     (computed.family == Family::kEmbedding && g.op[t].valid() &&
                      trace.name(g.op[t].value).find("lookup") != std::string_view::npos);
      }
      out.push_back(act);
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Act& a, const Act& b) {
    return std::tuple(a.launched, a.start) < std::tuple(b.launched, b.start);
  });
  return out;
}

void place_communication(std::vector<Act>& acts) {
  Phase near = Phase::kOther;
  for (const Act& a : acts) {
    if (near == Phase::kOther && !a.communicates() && has_phase(a.phase)) near = a.phase;
  }
  for (Act& a : acts) {
    if (a.communicates()) {
      a.phase = near;
    } else if (has_phase(a.phase)) {
      near = a.phase;
    }
  }
}

}  // namespace

std::vector<Act> program_order(const trace::Trace& trace, const std::vector<GroupOperation>& operations, const Graph& g,
                               const RankPart& part) {
  std::vector<Act> out = order_of(trace, operations, g, part);
  place_communication(out);
  return out;
}

}  // namespace foretrace::ranks
