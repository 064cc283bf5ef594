#include "whatif/rewrite/joined_convolutions.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "base/text.hpp"
#include "whatif/rewrite/unit_rows.hpp"

namespace foretrace::whatif {
namespace {

using work::Convolution;
using work::Family;
using work::Work;

constexpr double kAnyTime = std::numeric_limits<double>::infinity();

class Joiner {
 public:
  Joiner(Model& m, Draft& draft, Selection& gone)
      : m_(m), draft_(draft), gone_(gone), held_(shared_flow(m)), flow_(*held_), rows_(rows_of(m, draft)) {
    parts_ = rows_by_unit(m, flow_, rows_);
  }

  std::size_t run(bool enlarge) {
    // The tensor, its dtype, and what the convolutions have in common.
    using Key = std::tuple<std::uint32_t, int, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                           std::int64_t, bool>;
    std::map<Key, std::vector<std::uint32_t>> alike;
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
      const Row* r = convolution(u);
      if (r == nullptr) continue;
      const Work& w = m_.works[r->work];
      const auto& c = std::get<Convolution>(w.kind);
      const std::int64_t h = enlarge ? 0 : c.kernel_h;
      const std::int64_t v = enlarge ? 0 : c.kernel_w;
      alike[{flow_.content(flow_.units[u].inputs.front().value), static_cast<int>(w.dtype), c.stride, c.dilation,
             c.out_h, c.out_w, h, v, c.channels_last}]
          .push_back(u);
    }
    // Zeros around a small kernel are multiplied like anything else.
    if (enlarge) most_ = kAnyTime;
    std::size_t groups = 0;
    for (const auto& [key, units] : alike) {
      if (units.size() < 2) continue;
      join(units);
      ++groups;
    }
    return groups;
  }

 private:
  // The row of a convolution that stands for itself: one group, one input that an operation of this step wrote or that was given.
  [[nodiscard]] const Row* convolution(std::uint32_t unit) const {
    const auto found = parts_.find(unit);
    if (found == parts_.end() || flow_.units[unit].inputs.empty()) return nullptr;
    for (const Row* r : found->second.forward) {
      const Work& w = m_.works[r->work];
      if (w.family == Family::kConvForward && std::get<Convolution>(w.kind).groups <= 1) return r;
    }
    return nullptr;
  }

  [[nodiscard]] const std::vector<std::uint32_t>& readers(std::uint32_t unit) const {
    static const std::vector<std::uint32_t> kNobody;
    const std::vector<std::uint32_t>& made = flow_.units[unit].outputs;
    return made.empty() ? kNobody : flow_.values[made.front()].consumers;
  }

  // The norm or the activation that alone reads what a unit made; kNone for anything else.
  [[nodiscard]] std::uint32_t follower(std::uint32_t unit) const {
    const std::vector<std::uint32_t>& next = readers(unit);
    if (next.size() != 1) return kNone;
    const std::string_view name = flow_.units[next.front()].name;
    return contains_any(name, {"batch_norm", "relu", "hardswish", "silu", "clamp_min"}) ? next.front() : kNone;
  }

  // What several do, as work of one that is as wide as all.
  [[nodiscard]] Work sum_of(const std::vector<const Row*>& rows) const {
    Work all = m_.works[rows.front()->work];
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const Work& w = m_.works[rows[i]->work];
      if (auto* conv = std::get_if<Convolution>(&all.kind)) {
        const auto& other = std::get<Convolution>(w.kind);
        conv->out_channels += other.out_channels;
        conv->kernel_h = std::max(conv->kernel_h, other.kernel_h);
        conv->kernel_w = std::max(conv->kernel_w, other.kernel_w);
      } else if (auto* norm = std::get_if<work::BatchNorm>(&all.kind)) {
        norm->input[1] += std::get<work::BatchNorm>(w.kind).input[1];
        norm->channels += std::get<work::BatchNorm>(w.kind).channels;
      }
      all.elements += w.elements;
      all.flops += w.flops;
      all.bytes_read += w.bytes_read;
      all.bytes_written += w.bytes_written;
    }
    return all;
  }

  // Rows of one kind in each of the units become one.
  void join_kind(const std::vector<std::uint32_t>& units, bool backward) {
    std::map<Family, std::vector<const Row*>> kinds;
    for (const std::uint32_t u : units) {
      const UnitRows& of = parts_[u];
      for (const Row* r : backward ? of.backward : of.forward) kinds[m_.works[r->work].family].push_back(r);
    }
    for (const auto& [family, rows] : kinds) {
      if (rows.size() == units.size()) join_rows(m_, draft_, rows, sum_of(rows), gone_, most_);
    }
  }

  void join(const std::vector<std::uint32_t>& units) {
    const Work input = m_.works[convolution(units.front())->work];
    std::vector<std::uint32_t> last = units;
    while (true) {
      join_kind(last, false);
      join_kind(last, true);
      std::vector<std::uint32_t> next;
      for (const std::uint32_t u : last) next.push_back(follower(u));
      const bool together = std::all_of(next.begin(), next.end(), [&](std::uint32_t u) {
        return u != kNone && next.front() != kNone && flow_.units[u].name == flow_.units[next.front()].name;
      });
      if (!together) break;
      last = next;
    }
    drop_sums(units, input);
    if (!drop_concatenation(last)) hand_on_parts(last);
  }

  // The gradient of the input is one tensor where each of them had its own to add.
  void drop_sums(const std::vector<std::uint32_t>& units, const Work& forward) {
    const auto& c = std::get<Convolution>(forward.kind);
    const std::int64_t elements = c.input[0] * c.input[1] * c.input[2] * c.input[3];
    std::size_t left = units.size() - 1;
    for (const std::uint32_t u : units) {
      for (const Row* r : parts_[u].sums) {
        if (left == 0 || m_.works[r->work].elements != elements) continue;
        gone_.insert(gone_.end(), r->tasks.begin(), r->tasks.end());
        --left;
      }
    }
  }

  // Parts that were concatenated before need no copy.
  bool drop_concatenation(const std::vector<std::uint32_t>& last) {
    const std::vector<std::uint32_t>& next = readers(last.front());
    if (next.size() != 1 || flow_.units[next.front()].name != "aten::cat" ||
        flow_.units[next.front()].inputs.size() != last.size())
      return false;
    if (std::any_of(last.begin(), last.end(), [&](std::uint32_t u) { return readers(u) != next; })) return false;
    keep_once(last, next.front());
    const UnitRows& of = parts_[next.front()];
    for (const auto* rows : {&of.forward, &of.backward}) {
      for (const Row* r : *rows) gone_.insert(gone_.end(), r->tasks.begin(), r->tasks.end());
    }
    return true;
  }

  // What was kept of the parts and again of all together is kept once.
  void keep_once(const std::vector<std::uint32_t>& last, std::uint32_t concatenation) {
    if (!m_.memory) return;
    std::set<std::uint32_t>
        makers;  // of the parts' memory: an activation in place wrote into what another operation did
    for (const std::uint32_t u : last) {
      for (const std::uint32_t value : flow_.units[u].outputs)
        makers.insert(flow_.values[flow_.values[value].storage].producer);
    }
    std::vector<memory::Block>& blocks = m_.memory->blocks;
    const auto made_by = [&](const memory::Block& b) { return b.op == kNone ? kNone : flow_.unit_of(b.op); };
    std::uint32_t freed = 0;
    for (const memory::Block& b : blocks) {
      if (made_by(b) == concatenation) freed = std::max(freed, b.freed);
    }
    std::erase_if(blocks, [&](const memory::Block& b) { return made_by(b) == concatenation; });
    for (memory::Block& b : blocks) {
      if (!b.workspace && makers.contains(made_by(b))) b.freed = std::max(b.freed, freed);
    }
    memory::recompute(*m_.memory);
  }

  void copy(Place at, std::int64_t elements, work::Dtype dtype, const char* name, Phase phase, const Row& like) {
    Work w = work::elementwise_work(elements, 1, 1, dtype);
    w.access = work::Access::kStrided;
    insert_work(m_, draft_, at, name, w,
                {.phase = phase, .layer = m_.graph.layer[like.tasks.front()], .cpu_cost = m_.launch_time(phase)});
  }

  // Parts that a convolution reads are copied for it in either pass; their gradients are concatenated.
  void hand_on_parts(const std::vector<std::uint32_t>& last) {
    std::int64_t all = 0;
    const Row* earliest = nullptr;
    for (const std::uint32_t u : last) {
      const UnitRows& of = parts_[u];
      if (of.forward.empty()) continue;
      const Row& r = *of.forward.back();
      const Work& w = m_.works[r.work];
      const std::int64_t elements = part_elements(r);
      all += elements;
      if (!of.backward.empty() && (earliest == nullptr || of.backward.front()->begin < earliest->begin))
        earliest = of.backward.front();
      for (const std::uint32_t reader : readers(u)) {
        const Row* conv = convolution(reader);
        if (conv == nullptr) continue;
        copy(place_before(m_.graph, conv->tasks.front()), elements, w.dtype, "copy of a part", Phase::kForward, *conv);
        for (const Row* back : parts_[reader].backward) {
          if (m_.works[back->work].family != Family::kConvWeightGrad) continue;
          copy(place_before(m_.graph, back->tasks.front()), elements, w.dtype, "copy of a part", Phase::kBackward,
               *back);
        }
      }
    }
    if (earliest != nullptr) {
      copy(place_before(m_.graph, earliest->tasks.front()), all, m_.works[earliest->work].dtype,
           "concatenated gradients", Phase::kBackward, *earliest);
    }
  }

  [[nodiscard]] std::int64_t part_elements(const Row& r) const {
    const Work& w = m_.works[r.work];
    if (const auto* c = std::get_if<Convolution>(&w.kind)) return c->input[0] * c->out_channels * c->out_h * c->out_w;
    return w.elements;
  }

  double most_ = 1;
  Model& m_;
  Draft& draft_;
  Selection& gone_;
  std::shared_ptr<const Dataflow> held_;
  const Dataflow& flow_;
  std::vector<Row> rows_;
  std::map<std::uint32_t, UnitRows> parts_;
};

}  // namespace

std::size_t join_convolutions(Model& m, Draft& draft, bool enlarge, Selection& gone) {
  return Joiner(m, draft, gone).run(enlarge);
}

}  // namespace foretrace::whatif
