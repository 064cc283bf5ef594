
#include <algorithm>
#include <set>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"

namespace foretrace::whatif {
namespace {

// Operations that do nothing but read something back: all they gave the GPU are copies to the host.
class Readers {
 public:
  Readers(const Model& m, const Selection& waits) : m_(m) {
    for (const std::uint32_t t : waits) {
      const std::uint32_t op = around(t);
      if (op != kNone) found_.insert(op);
    }
    for (std::uint32_t t = 0; t < m.graph.size(); ++t) {
      if (graph::is_gpu(m.graph.kind[t]) && !to_host(t)) found_.erase(around(t));
    }
  }
  [[nodiscard]] bool reads(std::uint32_t task) const { return found_.count(around(task)) > 0; }
  [[nodiscard]] bool to_host(std::uint32_t t) const {
    return m_.graph.kind[t] == TaskKind::kMemcpy && m_.graph.task_name(t).find("DtoH") != std::string_view::npos;
  }
  /// The outermost operation around a task: aten::item around its copy, its wait and what it does in between.
  [[nodiscard]] std::uint32_t around(std::uint32_t task) const {
    const EventId op = m_.graph.op[task];
    return op.valid() ? m_.chains->outermost(op.value) : kNone;
  }

 private:
  const Model& m_;
  std::set<std::uint32_t> found_;
};

Status apply_no_sync(Model& m, Draft& draft, const Parameters&) {
  const Graph& g = m.graph;
  // Waits of the main thread for the GPU, with the calls in front of them; the optimizer's own (a gradient scaler's look
  // at its overflow flag) stay.
  const Selection waits = draft.select({.kind = TaskKind::kWait, .lane = g.main_lane, .where = [&](std::uint32_t t) {
                                          return g.event[t].valid() && g.phase[t] != Phase::kOptimizer;
                                        }});
  if (waits.empty()) return fail(ErrorCode::kDeclined, "the step does not wait for the GPU");
  Selection gone = waits;
  Selection calls;
  for (const std::uint32_t t : waits) {
    if (t > g.lanes[g.main_lane].begin && g.kind[t - 1] == TaskKind::kCall) calls.push_back(t - 1);
  }
  gone.insert(gone.end(), calls.begin(), calls.end());
  // The operation that read the value goes with all it did: on the CPU, and its copy to the host. Copies that no operation explains
  // were waited for as well, unless the step keeps activations on the host.
  Selection inside = calls;
  inside.insert(inside.end(), waits.begin(), waits.end());
  const Readers readers(m, inside);
  const bool offloads = step_facts(m)->offloads;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    const bool cpu = g.lane[t] == g.main_lane && (g.kind[t] == TaskKind::kCpu || g.kind[t] == TaskKind::kCall);
    const bool copy = readers.to_host(t);
    if ((cpu || copy) && readers.reads(t)) gone.push_back(t);
    if (copy && !g.op[t].valid() && !offloads) gone.push_back(t);
  }
  std::sort(gone.begin(), gone.end());
  gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
  draft.remove(gone);
  draft.make_periodic();
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  to.step.push_back("    # no-sync: nothing here waits for the GPU; read the loss (loss.item()) every 50th step or so" +
                    (p.gain.empty() ? "" : "," + p.gain.substr(3)));
}

const Registered kRegistered(
    {.name = "no-sync",
     .about = "the step no longer waits for the GPU (the loss is not read every step)",
     .assumes = "nothing in the next step needs the value that was read",
     .source = "PyTorch performance guide: avoid unnecessary synchronisation",
     .changes = Changes::kWaits,
     .fits = Fits::kNotServing,
     .code = "if step % 50 == 0: print(loss.item())",
     .inference_code = "keep results on the GPU, and read them (.item(), .cpu()) every 50th step",
     .jax_code = "if i % 50 == 0: jax.block_until_ready(loss)  # and read nothing in between",
     .effort = Effort::kLine,
     .stage = Stage::kRuntime,
     .advise = {"no-sync"},
     .validated = true,
     .apply = apply_no_sync,
     .write_code = write_code});

}  // namespace
}  // namespace foretrace::whatif
