// How many samples and tokens a step works on, where the shapes of its operations are unambiguous.

#include <fmt/format.h>

#include <map>
#include <set>

#include "analysis/summary/parts.hpp"
#include "foretrace/work/work.hpp"
#include "graph/step_begin.hpp"
#include "graph/step_kind.hpp"
#include "whatif/dataflow/sequence_shapes.hpp"
#include "whatif/model/backward_end.hpp"
#include "work/op_view.hpp"

namespace foretrace::analysis {
namespace {

using work::OpView;
using work::Shape;

bool holds_ids(const work::Argument& a) { return a.type == "long int" || a.type == "int"; }

// What the operations of a step look up and compare with, as their shapes say.
struct Inputs {
  std::vector<std::pair<Shape, Shape>> lookups;  ///< (table, ids)
  std::size_t losses = 0;                        ///< against a class for each sample or pixel
  std::set<std::int64_t> targets;                ///< their first dimension
};

class Reader {
 public:
  explicit Reader(const SummaryInput& in) : in_(in), g_(in.analysis->graph) {}

  std::optional<StepBatch> run() {
    const graph::StepNature nature = graph::step_nature(in_.trace, g_);
    if (nature.kind == graph::StepKind::kDecode) return generated(nature.sequences);
    read_operations();
    const std::size_t ends = whatif::backward_ends(g_).size();
    passes_ = nature.kind == graph::StepKind::kTraining ? std::max<std::size_t>(1, ends) : 1;
    if (!inputs_.lookups.empty()) return tokens();
    return images();
  }

 private:
  static std::optional<StepBatch> generated(std::int64_t sequences) {
    if (sequences <= 0) return std::nullopt;
    const auto n = static_cast<double>(sequences);
    return StepBatch{std::nullopt, n, fmt::format("a token for each of {} sequences", sequences)};
  }

  void read_operations() {
    const graph::GraphLane& main = g_.lanes[g_.main_lane];
    const std::optional<Ns> begin = graph::step_begin(in_.trace, g_);
    if (!main.trace_lane.valid() || !begin) return;
    const Ns end = *begin + std::max(g_.traced, g_.period);
    const trace::Trace& t = in_.trace;
    for (std::uint32_t e = 0; e < t.size(); ++e) {
      if (t.kind(e) != trace::EventKind::kOp || t.events.lane[e] != main.trace_lane) continue;
      if (t.events.start[e] < *begin || t.events.start[e] >= end) continue;
      const std::string_view name = t.name(e);
      if (name == "aten::embedding") lookup(OpView(t, t.events.args[e]));
      if (name == "aten::nll_loss_forward" || name == "aten::nll_loss2d_forward") loss(OpView(t, t.events.args[e]));
    }
  }

  void lookup(const OpView& op) {
    if (!op.tensor(0, 2) || !op.tensor(1, 1) || !holds_ids(op[1])) return;
    inputs_.lookups.emplace_back(op[0].shape(), op[1].shape());
  }

  void loss(const OpView& op) {
    ++inputs_.losses;
    inputs_.targets.insert(op.tensor(1, 1) ? op[1].shape()[0] : 0);
  }

  // One shape of ids, looked up once in each pass, over which attention or a recurrent layer runs.
  std::optional<StepBatch> tokens() {
    std::int64_t batch = 0;
    for (const auto& [table, ids] : inputs_.lookups) {
      if (ids.size() > 2) return std::nullopt;
      if (ids.size() == 2) batch = std::max(batch, ids[0]);
    }
    // Positions are the same for every sample: one row of them serves all.
    std::map<Shape, std::size_t> calls;
    std::set<std::int64_t> lengths;
    for (const auto& [table, ids] : inputs_.lookups) {
      if (ids.size() != 2 || (ids[0] == 1 && batch > 1)) continue;
      if (ids[0] != batch) return std::nullopt;
      ++calls[table];
      lengths.insert(ids[1]);
    }
    if (batch == 0 || lengths.size() != 1) return std::nullopt;
    for (const auto& [table, count] : calls) {
      if (count != passes_) return std::nullopt;
    }
    const std::int64_t length = *lengths.begin();
    if (!whatif::sequence_sizes(work::describe(in_.trace, g_)).contains(length)) return std::nullopt;
    const auto samples = static_cast<double>(batch) * static_cast<double>(passes_);
    return StepBatch{samples, samples * static_cast<double>(length),
                     fmt::format("token ids of {} x {}{}", batch, length, in_passes())};
  }

  // All convolutions have one batch, and so has the loss where there is one.
  std::optional<StepBatch> images() {
    std::set<std::int64_t> batches;
    for (const work::Work& w : work::describe(in_.trace, g_).rows) {
      if (const auto* c = std::get_if<work::Convolution>(&w.kind); c != nullptr && !w.backward)
        batches.insert(c->input[0]);
    }
    if (batches.size() != 1 || *batches.begin() <= 0) return std::nullopt;
    if (inputs_.losses > 0 ? inputs_.targets != batches || inputs_.losses != passes_ : passes_ > 1) return std::nullopt;
    return StepBatch{static_cast<double>(*batches.begin()) * static_cast<double>(passes_), std::nullopt,
                     fmt::format("a batch of {} in every convolution{}{}", *batches.begin(),
                                 inputs_.losses > 0 ? " and the loss" : "", in_passes())};
  }

  [[nodiscard]] std::string in_passes() const { return passes_ > 1 ? fmt::format(", {} passes", passes_) : ""; }

  const SummaryInput& in_;
  const graph::Graph& g_;
  Inputs inputs_;
  std::size_t passes_ = 1;
};

}  // namespace

std::optional<StepBatch> batch_of_step(const SummaryInput& input) {
  if (input.analysis == nullptr || !input.own_events) return std::nullopt;
  return Reader(input).run();
}

}  // namespace foretrace::analysis
