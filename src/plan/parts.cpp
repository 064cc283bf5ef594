#include "plan/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "plan/step_reader.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::plan {
namespace {

using graph::Graph;
using graph::Phase;
using whatif::BlockOfLayers;
using whatif::Model;

// The longest list of blocks.
whatif::ListOfBlocks main_blocks(const Graph& g) {
  whatif::ListOfBlocks most;
  for (whatif::ListOfBlocks& list : whatif::lists_of_blocks(g)) {
    if (list.blocks.size() > most.blocks.size()) most = std::move(list);
  }
  return most;
}

// Those that are trained.
std::vector<BlockOfLayers> trained_blocks(const Graph& g) {
  std::vector<BlockOfLayers> blocks = main_blocks(g).blocks;
  std::erase_if(blocks, [](const BlockOfLayers& b) { return b.first_backward == kNone; });
  return blocks;
}

// A block is what a step with one more has in addition; what is left is in front of the blocks and behind them.
void divide(const Whole& whole, const Whole& deeper, Parts& out) {
  const auto each = [&](auto Part::* of) {
    using Number = std::remove_reference_t<decltype(out.block.*of)>;
    out.block.*of = std::max<Number>(0, deeper.all.*of - whole.all.*of);
    const Number rest = std::max<Number>(0, whole.all.*of - static_cast<Number>(out.blocks) * (out.block.*of));
    out.last.*of = std::min(whole.last.*of, rest);
    out.first.*of = rest - out.last.*of;
  };
  each(&Part::forward), each(&Part::backward), each(&Part::weight), each(&Part::once);
  each(&Part::forward_cpu), each(&Part::backward_cpu), each(&Part::weight_cpu), each(&Part::once_cpu);
  each(&Part::exposed), each(&Part::flops), each(&Part::parameters), each(&Part::tensors);
  each(&Part::activation), each(&Part::copies);
  // The forward pass ends in the last part, without a visible beginning of its own.
  const auto forward = [&](Ns Part::* of, Ns before) {
    const Ns rest = out.first.*of + out.last.*of;
    out.first.*of = std::min(before, rest);
    out.last.*of = rest - out.first.*of;
  };
  forward(&Part::forward, whole.first_forward);
  forward(&Part::forward_cpu, whole.first_forward_cpu);
  out.update = whole.update;
  out.update_cpu = whole.update_cpu;
}

double elements_of(const Model& m) { return static_cast<double>(m.parameter_elements); }

// Where the parameters that are in no block are, and the sizes of single ones, by the gradients in the order of backward.
void read_gradients(const Depths& changed, const Depths& traced, const Borders& b, Parts& out) {
  const Result<whatif::Gradients> found = whatif::find_gradients(changed.model);
  if (!found) return;
  out.gradient_bytes = static_cast<double>(found->bytes_per_element);
  if (traced.model.memory && elements_of(traced.model) > 0) {
    double bytes = 0;
    for (const memory::Block& k : traced.model.memory->blocks) {
      const bool own = k.allocated > 0;  // not the step's before
      if (k.kind == memory::Kind::kGradient && own) bytes += static_cast<double>(k.bytes);
    }
    // Between two and four bytes in each the nearer decides: some gradients are never seen.
    if (bytes > 0) out.gradient_bytes = bytes / elements_of(traced.model) < 3 ? 2 : 4;
  }
  double behind = 0, behind_tensors = 0;
  for (const whatif::Gradient& gradient : found->list) {
    const auto n = static_cast<double>(gradient.elements);
    const bool last = gradient.gpu != kNone && gradient.gpu < b.last_block_back;
    const bool first = gradient.gpu == kNone || gradient.gpu >= b.first_block_back;
    double& largest = (last ? out.last : first ? out.first : out.block).largest;
    largest = std::max(largest, n);
    behind += last ? n : 0;
    behind_tensors += last ? 1 : 0;
  }
  // Single gradients of a divided model are taken to be divided alike; what is divided of the blocks is known better.
  const double share = elements_of(traced.model) > 0 ? elements_of(changed.model) / elements_of(traced.model) : 1;
  const double block = share * (elements_of(traced.deeper) - elements_of(traced.model));
  const double rest = static_cast<double>(found->elements) - out.blocks * block;
  const auto split = [&](double Part::* of, double last) {
    const double both = out.first.*of + out.last.*of;
    out.last.*of = std::min(last, both);
    out.first.*of = both - out.last.*of;
  };
  split(&Part::parameters, rest > 0 ? (out.first.parameters + out.last.parameters) * behind / rest : 0);
  split(&Part::tensors, behind_tensors);
}

void read_memory(const Model& m, const StepReader& reader, Parts& out) {
  const memory::Curve& c = *m.memory;
  out.memory = true;
  const auto both = static_cast<double>(c.parameter_bytes + c.state_bytes);
  out.parameter_bytes =
      elements_of(m) > 0 ? std::min(both, elements_of(m) * out.gradient_bytes) : static_cast<double>(c.parameter_bytes);
  out.state_bytes = both - out.parameter_bytes;
  // Less than none where the step begins with less than the optimizer keeps.
  out.other_bytes = static_cast<double>(c.start_bytes) - both;
  const auto whole = [&](double Part::* of) { return out.first.*of + out.blocks * (out.block.*of) + out.last.*of; };
  const StepReader::Levels most = reader.levels();
  const double kept = whole(&Part::activation), copies = whole(&Part::copies);
  const double gradients = whole(&Part::parameters) * out.gradient_bytes;
  out.old_gradients = gradients > 0 ? most.early.before / gradients : 0;
  out.old_transient = most.early.bytes - most.early.before - kept - copies;
  out.last.transient = most.behind.bytes - most.behind.before - kept - copies;
  out.block.transient = most.back.bytes - most.back.before - most.back.own - (kept - out.last.activation) - copies;
  const StepReader::Level& bare = most.without_gradients;
  out.block.scratch = bare.bytes - bare.before - bare.own - (kept - out.last.activation) - copies;
  out.first.transient = most.end.bytes - most.end.before - most.end.own - copies;
}

}  // namespace

Parts mixed(const Parts& some, const Parts& others, double share) {
  Parts out = others;
  const auto average = [&](auto Part::* of) {
    using Number = std::remove_reference_t<decltype(out.block.*of)>;
    out.block.*of = static_cast<Number>(share * static_cast<double>(some.block.*of) +
                                        (1 - share) * static_cast<double>(others.block.*of));
  };
  for (const auto of : {&Part::forward, &Part::backward, &Part::weight, &Part::once, &Part::forward_cpu,
                        &Part::backward_cpu, &Part::weight_cpu, &Part::once_cpu, &Part::exposed}) {
    average(of);
  }
  average(&Part::activation);
  out.block.transient = std::max(some.block.transient, others.block.transient);
  out.block.scratch = std::max(some.block.scratch, others.block.scratch);
  return out;
}

Result<RepeatedBlock> repeated_block(const Model& m) {
  if (std::none_of(m.graph.kind.begin(), m.graph.kind.end(), [](graph::TaskKind k) { return graph::is_gpu(k); })) {
    return fail(ErrorCode::kDeclined, "no GPU work in this step", "`foretrace doctor` says what the trace holds");
  }
  whatif::ListOfBlocks found = main_blocks(m.graph);
  if (found.blocks.empty()) {
    return fail(ErrorCode::kDeclined, "no block of layers repeats in this step: a plan divides blocks",
                "`foretrace scale TRACE --workers 8` predicts data parallel, which needs none");
  }
  return RepeatedBlock{std::move(found.name), static_cast<int>(found.blocks.size())};
}

Result<Parts> parts_of(const Depths& changed, const Depths& traced) {
  const Model& m = changed.model;
  if (std::none_of(m.graph.phase.begin(), m.graph.phase.end(), [](Phase p) { return p == Phase::kBackward; })) {
    return fail(ErrorCode::kDeclined, "the step computes no gradients, and plans are for training");
  }
  const std::vector<BlockOfLayers> blocks = trained_blocks(m.graph);
  const std::vector<BlockOfLayers> more = trained_blocks(changed.deeper.graph);
  if (blocks.empty() || more.empty()) return fail(ErrorCode::kDeclined, "no block of layers repeats in this step");
  FORETRACE_TRY(const Borders borders, borders_of(m.graph, blocks));
  FORETRACE_TRY(const Borders deeper, borders_of(changed.deeper.graph, more));
  Parts out;
  out.blocks = static_cast<int>(blocks.size());
  StepReader reader(m, borders);
  divide(reader.read(), StepReader(changed.deeper, deeper).read(), out);
  out.output = reader.output();
  out.flops_by_type = reader.flops_by_type();
  // Behind the last block's own layers nothing shows where it ends.
  out.boundary = reader.boundary(blocks[blocks.size() > 1 ? blocks.size() - 2 : 0]);
  read_gradients(changed, traced, borders, out);
  // The head's weight is among the last part's parameters, or it is the embedding's: which is nearer decides.
  const bool own = 2 * out.last.parameters >= reader.head() || 2 * out.first.parameters < reader.head();
  out.tied = own ? 0 : reader.head();
  if (!m.memory) return out;
  read_memory(m, reader, out);
  return out;
}

}  // namespace foretrace::plan
