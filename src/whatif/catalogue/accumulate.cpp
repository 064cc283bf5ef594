#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/latencies.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/backward_end.hpp"
#include "whatif/model/memory_positions.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/parallel/gradients.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {
namespace {

bool computes_gradients(Phase p) { return p == Phase::kForward || p == Phase::kBackward; }

// Whoever shards parameters gathers them and reduces their gradients in every pass. DistributedDataParallel reduces in the last one
// only (no_sync).
bool communicates_in_every_pass(const Model& m) {
  const Graph& g = m.graph;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] != TaskKind::kCollective || !g.launch[t].valid() || moves_samples(m, t)) continue;
    const Phase launched = g.phase[g.launch[t].index()];
    const bool shards = g.task_name(t).find("ReduceScatter") != std::string_view::npos ||
                        g.task_name(t).find("AllGather") != std::string_view::npos;
    // ZeRO-1 gathers what it has updated.
    if (shards && launched != Phase::kOptimizer) return true;
  }
  return false;
}

// A forward and a backward pass: their GPU work, the main thread up to the end of backward, the autograd thread.
// What waits for the end of backward is no part of it, whatever it looks like (a scaler's checks, the next batch).
Selection one_pass(const Model& m, const Draft& draft, std::uint32_t end, const std::vector<std::uint32_t>& behind) {
  const Graph& g = m.graph;
  std::uint32_t first_forward = end;
  for (std::uint32_t t = end; t > g.lanes[g.main_lane].begin; --t) {
    if (g.phase[t] == Phase::kForward && g.kind[t] != TaskKind::kWait) first_forward = t;
  }
  const bool communicates = communicates_in_every_pass(m);
  return draft.select({.where = [&](std::uint32_t t) {
    if (t >= behind[g.lane[t]]) return false;
    if (g.kind[t] == TaskKind::kCollective) return communicates || moves_samples(m, t);
    if (graph::is_gpu(g.kind[t])) return computes_gradients(g.phase[t]) && g.kind[t] != TaskKind::kMemcpy;
    if (g.lane[t] == g.main_lane) return t >= first_forward && t <= end && g.phase[t] != Phase::kOptimizer;
    return g.phase[t] == Phase::kBackward || (communicates && g.phase[t] == Phase::kCommunication);
  }});
}

// On each lane of the pass the task the next one follows: all that need not wait for the end of the first pass stays in front
// of the second, also where it is not repeated (copies, collectives and the thread's work for them).
std::vector<std::uint32_t> ends_of(const Graph& g, const Selection& pass, const std::vector<std::uint32_t>& behind) {
  std::vector<std::uint32_t> last(g.lanes.size(), kNone);
  for (const std::uint32_t t : pass) last[g.lane[t]] = behind[g.lane[t]] - 1;
  return last;
}

// From the second pass on each gradient is added to what is there: read twice, written once.
void add_gradient_sums(const Model& m, Draft& draft, const Selection& pass, const std::vector<std::uint32_t>& copies) {
  const Graph& g = m.graph;
  const std::int64_t tensors = m.parameter_tensors;
  if (tensors == 0 || m.device.bandwidth_gbs <= 0) return;
  Place end;
  for (std::size_t k = 0; k < pass.size(); ++k) {
    if (graph::is_gpu(g.kind[pass[k]]) && g.phase[pass[k]] == Phase::kBackward) end.gpu = copies[k];
    if (!graph::is_gpu(g.kind[pass[k]]) && g.lane[pass[k]] != g.main_lane) end.cpu = copies[k];
  }
  if (!end.known()) return;
  const double bytes = 3.0 * static_cast<double>(m.parameter_element_bytes) * static_cast<double>(m.parameter_elements);
  const Ns each =
      m.latencies->short_kernel + static_cast<Ns>(bytes / m.device.streaming_gbs() / static_cast<double>(tensors));
  for (std::int64_t k = 0; k < tensors; ++k) {
    draft.insert({.name = "gradient accumulation",
                  .cost = each,
                  .phase = Phase::kBackward,
                  .after = end,
                  .cpu_cost = m.cpu_time(m.host.eager.op_us, Phase::kBackward)});
  }
}

// DistributedDataParallel may keep gradients in its buckets, which are there throughout. What the passes before the last one add up
// is not in them: a tensor for each parameter, until the last pass copies it into its bucket.
void keep_sums(const Model& m, memory::Curve& c) {
  const Result<Gradients> gradients = find_gradients(m);
  if (!gradients) return;
  const MemoryPositions positions(m);
  std::vector<memory::Block> sums;
  for (std::uint32_t i = 0; i < gradients->list.size(); ++i) {
    sums.push_back({.bytes = gradients->bytes(i),
                    .freed = std::max(c.backward_from + 1, positions.of(gradients->list[i].gpu)),
                    .kind = memory::Kind::kGradient,
                    .stage = memory::Stage::kBackward,
                    .of_parameters = true});
  }
  memory::add_blocks(c, sums);
}

// From the second pass on, all gradients are there throughout, and those of the step before are not. Each new one is there
// next to them until it is added.
void keep_gradients(const Model& m, memory::Curve& c) {
  std::erase_if(c.blocks, [](const memory::Block& b) { return b.kind == memory::Kind::kGradient && b.allocated == 0; });
  std::vector<memory::Block> added;
  for (memory::Block& b : c.blocks) {
    if (b.kind != memory::Kind::kGradient) continue;
    added.push_back(b);
    added.back().kind = memory::Kind::kTemporary;
    added.back().of_parameters = true;
    added.back().freed = b.allocated + 1;
    b.allocated = 0;
  }
  const bool in_buckets = added.empty() && step_facts(m)->reductions > 0 && !communicates_in_every_pass(m);
  if (in_buckets) return keep_sums(m, c);
  memory::add_blocks(c, added);
}

std::vector<std::uint32_t> known(const std::vector<std::uint32_t>& tasks) {
  std::vector<std::uint32_t> out = tasks;
  std::erase(out, kNone);
  return out;
}

Status apply_accumulate(Model& m, Draft& draft, const Parameters& parameters) {
  const Graph& g = m.graph;
  constexpr double kMostParts = 256;  // a guard: every part is a copy of the step in the graph
  const double parts = parameters.number("n");
  if (parts > kMostParts || parts != std::floor(parts)) {
    return fail(ErrorCode::kDeclined, fmt::format("n must be a whole number from 2 to {}", kMostParts));
  }
  const int n = static_cast<int>(parts);
  const std::uint32_t end = end_of_backward(g);
  if (end == kNone) return fail(ErrorCode::kDeclined, "the step shows no backward pass on a thread of its own");
  scale_batch(m, draft, 1.0 / n);
  if (m.memory) keep_gradients(m, *m.memory);
  const std::vector<std::uint32_t> behind = first_behind(g, end);
  const Selection pass = one_pass(m, draft, end, behind);
  std::vector<std::uint32_t> last = ends_of(g, pass, behind);
  for (int i = 1; i < n; ++i) {
    const std::vector<std::uint32_t> copies = draft.clone(pass, known(last));
    std::fill(last.begin(), last.end(), kNone);
    for (std::size_t k = 0; k < pass.size(); ++k) last[g.lane[pass[k]]] = copies[k];
    add_gradient_sums(m, draft, pass, copies);
  }
  return {};
}

std::string already_there(const Model& m, const Parameters&) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (has->passes < 2) return {};
  return fmt::format("the step already adds up the gradients of {} passes before its update", has->passes);
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  to.passes = std::max(1, static_cast<int>(p.parameters.number("n")));
  to.step.push_back(
      fmt::format("    # accumulate: {} parts{}", to.passes, p.gain.empty() ? "" : "," + p.gain.substr(3)));
}

std::string code_for(const Parameters& p, bool /*training*/) {
  const double n = p.number("n");
  return fmt::format("for part in batch.chunk({0:g}): (loss_fn(model(part)) / {0:g}).backward()", n);
}

const Registered kRegistered(
    {.name = "accumulate",
     .about = "the same batch in n parts, gradients added up before the update",
     .parameters = {{.name = "n",
                     .about = "number of parts",
                     .default_value = "2",
                     .type = ParameterType::kNumber,
                     .minimum = 1,
                     .check = whole_number<256>}},
     .assumes = "parts of equal size",
     .source = "gradient accumulation",
     .changes = Changes::kAccumulation,
     .parts = {.memory = Part::kModelled},
     .fits = Fits::kTraining,
     .code = "for part in batch.chunk(n): (loss_fn(model(part)) / n).backward()",
     .code_for = code_for,
     .effort = Effort::kFewLines,
     .stage = Stage::kBatch,
     .repeats_work = true,
     .advise = {"accumulate:n=2"},
     .validated = true,
     .apply = apply_accumulate,
     .already = already_there,
     .whole_program =
         "accumulation is a loop inside a compiled program (jax.lax.scan, optax.MultiSteps), which XLA compiles anew",
     .write_code = write_code});

}  // namespace
}  // namespace foretrace::whatif
