#include "whatif/job/overlap_places.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ranks/operations.hpp"
#include "simulate/steady_runs.hpp"
#include "trace/latencies.hpp"
#include "whatif/job/overlapping_kernels.hpp"
#include "whatif/job/stream_units.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {

namespace {

using ranks::CollectiveKind;

/// Why a collective stays as it is.
enum class Stays : std::uint8_t { kGradients, kHidden, kRecordedParts, kNoProduct, kUnknown };
constexpr std::size_t kStays = 5;

std::string_view why(Stays stays, int parts) {
  switch (stays) {
    case Stays::kGradients:
      return "move gradients or parameters, which are cut into buckets or units (bucket, fsdp)";
    case Stays::kHidden:
      return "overlap kernels all the time: nothing of them is exposed";
    case Stays::kRecordedParts:
      return "are parts of one already, each overlapping the product of the next";
    case Stays::kUnknown:
      return "do not show the size and shape of what they carry, or where they were launched";
    default:
      return parts == 1 ? "start behind what they send, and what reads the result waits for them: only parts "
                          "(chunks=2 or more) can overlap something"
                        : "have no product next to them that can be cut along its rows";
  }
}

struct Tensor {
  std::int64_t in = 0, out = 0;  // elements
};

class Finder {
 public:
  Finder(const Model& m, const NamedCollectives& which, int parts)
      : m_(m), g_(m.graph), which_(which), parts_(parts), units_(m) {
    for (ranks::Operation& op : ranks::operations_of(*m.trace, m.trace->distributed.rank)) {
      operations_.try_emplace(op.event, Named{op.kind, std::move(op.group), std::move(op.description)});
    }
    lane_ = g_.lanes[units_.lane()];
    find_dependencies();
  }

  Result<std::vector<OverlapPlace>> run(std::string* left_out) {
    std::vector<OverlapPlace> found;
    const std::vector<Ns> exposed = exposed_communication(m_);
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (g_.kind[t] != TaskKind::kCollective || !g_.event[t].valid() || !is_named(t)) continue;
      ++named_;
      look_at(t, exposed[t], found);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const OverlapPlace& a, const OverlapPlace& b) { return a.waiting < b.waiting; });
    leave_recorded_parts(found);
    leave_shared_products(found);
    if (named_ == 0) return fail(ErrorCode::kDeclined, nothing_named(), "foretrace ranks lists what each group does");
    if (found.empty()) return fail(ErrorCode::kDeclined, fmt::format("its {} {}", text(), why(most(), parts_)));
    if (left_out != nullptr && found.size() < named_) {
      *left_out = fmt::format("{} of {} {} stay as they are: they {}", named_ - found.size(), named_, text(),
                              why(most(), parts_));
    }
    return found;
  }

 private:
  [[nodiscard]] std::string text() const {
    std::string kind = fmt::format("{}s", ranks::to_string(which_.kind));
    return which_.group.empty() ? kind : fmt::format("{} of {}", kind, which_.group);
  }
  [[nodiscard]] std::string nothing_named() const {
    std::string there;
    for (const std::string& name : other_) there += (there.empty() ? "" : ", ") + name;
    return fmt::format("the step has no {}{}", text(), there.empty() ? "" : ": there are " + there);
  }
  void leave(Stays why) { ++left_[static_cast<std::size_t>(why)]; }
  [[nodiscard]] Stays most() const {
    return static_cast<Stays>(std::max_element(left_.begin(), left_.end()) - left_.begin());
  }

  [[nodiscard]] const trace::CollectiveInfo* info(std::uint32_t t) const {
    return m_.trace->args.collective(m_.trace->events.args[g_.event[t].index()]);
  }

  bool is_named(std::uint32_t t) {
    const auto of = operations_.find(g_.event[t].value);
    if (of == operations_.end()) return false;
    const auto& [kind, group, description] = of->second;
    const bool of_group = which_.group.empty() || which_.group == group || which_.group == description ||
                          "mesh_" + which_.group == description;  // a dimension of a device mesh
    if (kind == which_.kind && of_group) return true;
    const std::string& shown = description.empty() ? group : description;
    other_.insert(fmt::format("{}s{}{}", ranks::to_string(kind), shown.empty() ? "" : " of ", shown));
    return false;
  }

  [[nodiscard]] bool computes(std::uint32_t t) const { return t >= lane_.begin && t < lane_.end; }

  // Of each collective, the last task of the computing stream that it waits for, and the first that waits for it.
  void find_dependencies() {
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (computes(t) && g_.kind[t] == TaskKind::kCollective) borders_.push_back(t);
      for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
        const std::uint32_t to = g_.dep_to[d];
        if (computes(t) && g_.kind[to] == TaskKind::kCollective) {
          borders_.push_back(t);
          const auto [at, added] = before_.emplace(to, t);
          if (!added) at->second = std::max(at->second, t);
        } else if (computes(to) && g_.kind[t] == TaskKind::kCollective) {
          const auto [at, added] = waiting_.emplace(t, to);
          if (!added) at->second = std::min(at->second, to);
        }
      }
    }
  }

  [[nodiscard]] OverlapPlace place_of(std::uint32_t c) const {
    OverlapPlace p{.collective = c};
    if (computes(c)) {
      p.before = c > lane_.begin ? c - 1 : kNone;
      p.waiting = c + 1 < lane_.end ? c + 1 : kNone;
      return p;
    }
    if (const auto at = before_.find(c); at != before_.end()) p.before = at->second;
    // What waits for a later one of its stream waits for it.
    for (std::uint32_t later = c; later < g_.lanes[g_.lane[c]].end && p.waiting == kNone; ++later) {
      if (const auto at = waiting_.find(later); at != waiting_.end()) p.waiting = at->second;
    }
    return p;
  }

  void look_at(std::uint32_t c, Ns exposed, std::vector<OverlapPlace>& found) {
    OverlapPlace p = place_of(c);
    const trace::CollectiveInfo* of = info(c);
    // What a hand-over between streams takes, no overlap hides.
    const Ns least = m_.latencies->collective_start + m_.latencies->stream_hand_over;
    // Where the record lacks the tensor's shape, the product that makes or reads just as much tells.
    const bool samples = moves_samples(m_, c);
    if (!samples && has_shape(c)) return leave(Stays::kGradients);
    if (is_part(c)) return leave(Stays::kRecordedParts);
    if (exposed <= least) return leave(Stays::kHidden);
    if (of == nullptr || of->in_elements <= 0 || of->out_elements <= 0 || p.before == kNone || p.waiting == kNone ||
        !g_.launch[c].valid()) {
      return leave(Stays::kUnknown);
    }
    const Tensor tensor{of->in_elements, of->out_elements};
    find_reader(p, tensor);
    if (parts_ > 1) find_cut(p, tensor);
    if (!samples && p.cut.empty()) return leave(Stays::kUnknown);
    find_late(p, tensor);
    if (p.side == CutSide::kNone && p.late.empty() && p.complete == p.before && p.reader == p.waiting) {
      return leave(Stays::kNoProduct);
    }
    found.push_back(std::move(p));
  }

  [[nodiscard]] bool has_shape(std::uint32_t c) const {
    if (!g_.op[c].valid()) return false;
    const trace::OpInputs* inputs = m_.trace->args.inputs(m_.trace->events.args[g_.op[c].index()]);
    return inputs != nullptr && inputs->dims.valid();
  }
  // Another change cut it: its parts are next to each other.
  [[nodiscard]] bool is_part(std::uint32_t c) const {
    const graph::GraphLane& lane = g_.lanes[g_.lane[c]];
    const auto same = [&](std::uint32_t t) { return g_.event[t].valid() && g_.event[t].value == g_.event[c].value; };
    return (c > lane.begin && same(c - 1)) || (c + 1 < lane.end && same(c + 1));
  }

  // What neither makes what it sends nor reads what it gives can overlap it.
  void find_reader(OverlapPlace& p, const Tensor& tensor) const {
    std::size_t u = units_.of(p.before);
    while (u > 0 && units_[u].without(tensor.in)) --u;
    p.complete = units_[u].without(tensor.in) || units_[u].collective ? p.before : std::min(units_[u].last, p.before);
    u = units_.of(p.waiting);
    while (u < units_.size() && units_[u].without(tensor.out)) ++u;
    p.reader = u == units_.size() || units_[u].collective ? p.waiting : std::max(units_[u].first, p.waiting);
  }

  void find_cut(OverlapPlace& p, const Tensor& tensor) const {
    using K = CollectiveKind;
    std::vector<std::uint32_t> before, behind;
    if (which_.kind != K::kAllGather) before = makers(p, tensor.in);
    if (which_.kind == K::kAllGather || which_.kind == K::kAllToAll) behind = readers(p, tensor.out);
    if (before.empty() && behind.empty()) return;
    const bool ahead = time_of(before) >= time_of(behind);
    p.side = ahead ? CutSide::kBefore : CutSide::kBehind;
    p.cut = ahead ? std::move(before) : std::move(behind);
  }

  // Gradients of weights that are computed in front of what the collective sends, although it does not need them, back to the collective
  // before it; and what is done to them.
  void find_late(OverlapPlace& p, const Tensor& tensor) const {
    const std::uint32_t sent = p.side == CutSide::kBefore ? p.cut.back() : p.complete;
    const auto last = std::lower_bound(borders_.begin(), borders_.end(), sent);
    const std::uint32_t border = last == borders_.begin() ? lane_.begin : *(last - 1) + 1;
    std::vector<std::size_t> late;
    std::set<std::int64_t> sizes;
    const std::size_t end = units_.of(p.before) + 1;
    for (std::size_t u = units_.of(border); u < end; ++u) {
      const StreamUnit& unit = units_[u];
      if (unit.collective || unit.first < border || is_cut(p, unit.first)) continue;
      const bool gradient = unit.weight_gradient && unit.last < sent && unit.result() != tensor.in;
      // A product reads the weight, which has the same size; the cast of a gradient reads the gradient.
      const bool reads = unit.product == nullptr && std::any_of(sizes.begin(), sizes.end(), [&](std::int64_t n) {
                           return n != tensor.in && unit.reads_size(n);
                         });
      if (reads && !unit.by_rows()) return;  // something is done with one already
      if (!gradient && !(reads && unit.work->backward)) continue;
      late.push_back(u);
      if (gradient) sizes.insert(unit.result());
    }
    p.late = tasks_of(std::move(late));
  }
  [[nodiscard]] static bool is_cut(const OverlapPlace& p, std::uint32_t task) {
    return std::binary_search(p.cut.begin(), p.cut.end(), task);
  }

  [[nodiscard]] Ns time_of(const std::vector<std::uint32_t>& tasks) const {
    Ns sum = 0;
    for (const std::uint32_t t : tasks) sum += g_.cost[t];
    return sum;
  }

  // The tasks of these units; none where a launch is not recorded.
  [[nodiscard]] std::vector<std::uint32_t> tasks_of(std::vector<std::size_t> units) const {
    std::sort(units.begin(), units.end());
    std::vector<std::uint32_t> out;
    for (const std::size_t u : units) {
      for (std::uint32_t t = units_[u].first; t <= units_[u].last; ++t) {
        if (!g_.launch[t].valid() || m_.works.of(t) == nullptr) return {};
        out.push_back(t);
      }
    }
    return out;
  }

  // From what the collective sends back to the product that made it.
  [[nodiscard]] std::vector<std::uint32_t> makers(const OverlapPlace& p, std::int64_t elements) const {
    std::vector<std::size_t> cut;
    for (std::size_t u = units_.of(p.before) + 1; u-- > 0;) {
      const StreamUnit& unit = units_[u];
      if (unit.collective || !unit.known) return {};
      if (unit.result() == elements && !unit.weight_gradient) {
        if (unit.product->m < parts_) return {};
        cut.push_back(u);
        return tasks_of(std::move(cut));
      }
      if (unit.product != nullptr || !unit.reads_size(elements)) continue;  // works on something else
      if (!unit.by_rows()) return {};
      cut.push_back(u);
    }
    return {};
  }

  // From what the collective gives to the last product that reads it, with what is done in between.
  [[nodiscard]] std::vector<std::uint32_t> readers(const OverlapPlace& p, std::int64_t elements) const {
    std::vector<std::size_t> cut;
    std::size_t products = 0;  // of `cut`, up to the last product of the tensor itself
    std::set<std::int64_t> sizes{elements};
    for (std::size_t u = units_.of(p.waiting); u < units_.size(); ++u) {
      const StreamUnit& unit = units_[u];
      if (unit.collective || !unit.known) break;
      const bool reads = std::any_of(sizes.begin(), sizes.end(), [&](std::int64_t n) { return unit.reads_size(n); });
      if (!reads) continue;
      if (unit.product == nullptr && !unit.by_rows()) break;
      if (unit.product != nullptr && (unit.weight_gradient ? unit.product->k : unit.product->m) < parts_) break;
      cut.push_back(u);
      if (unit.product == nullptr) continue;
      if (unit.reads_size(elements)) products = cut.size();
      if (!unit.weight_gradient) sizes.insert(unit.result());
    }
    cut.resize(products);
    return tasks_of(std::move(cut));
  }

  // A collective on a stream of its own during which the product of the next one of its size runs.
  void leave_recorded_parts(std::vector<OverlapPlace>& found) {
    const auto overlap_each_other = [&](const OverlapPlace& a, const OverlapPlace& b) {
      if (a.cut.empty() || b.cut.empty() || computes(a.collective) || a.side != b.side) return false;
      const trace::CollectiveInfo &x = *info(a.collective), &y = *info(b.collective);
      if (x.in_elements != y.in_elements || a.cut.size() != b.cut.size()) return false;
      const OverlapPlace& communicates = a.side == CutSide::kBefore ? a : b;
      const OverlapPlace& computes_then = a.side == CutSide::kBefore ? b : a;
      const Ns begin = g_.measured[communicates.collective];
      const Ns product = g_.measured[computes_then.cut.front()];
      return a.cut.back() < b.cut.front() && product >= begin &&
             product < begin + m_.trace->events.duration[g_.event[communicates.collective].index()];
    };
    std::vector<char> part(found.size(), 0);
    for (std::size_t i = 0; i + 1 < found.size(); ++i) {
      if (overlap_each_other(found[i], found[i + 1])) part[i] = part[i + 1] = 1;
    }
    drop(found, part, Stays::kRecordedParts);
  }

  // A product is cut for one collective.
  void leave_shared_products(std::vector<OverlapPlace>& found) {
    std::set<std::uint32_t> taken;
    std::vector<char> shared(found.size(), 0);
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const std::uint32_t t : found[i].cut) shared[i] = shared[i] != 0 || taken.contains(t) ? 1 : 0;
      if (shared[i] == 0) taken.insert(found[i].cut.begin(), found[i].cut.end());
    }
    drop(found, shared, Stays::kNoProduct);
  }

  void drop(std::vector<OverlapPlace>& found, const std::vector<char>& which, Stays why) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (which[i] != 0) {
        leave(why);
      } else if (kept++ != i) {
        found[kept - 1] = std::move(found[i]);
      }
    }
    found.resize(kept);
  }

  const Model& m_;
  const Graph& g_;
  const NamedCollectives& which_;
  const int parts_;
  StreamUnits units_;
  graph::GraphLane lane_;
  struct Named {
    CollectiveKind kind;
    std::string group, description;
  };
  std::map<std::uint32_t, Named> operations_;  // by event
  std::map<std::uint32_t, std::uint32_t> before_, waiting_;
  std::vector<std::uint32_t> borders_;  // tasks that are, or are waited for by, a collective; ascending
  std::set<std::string> other_;
  std::array<std::size_t, kStays> left_{};
  std::size_t named_ = 0;
};

}  // namespace

Result<std::vector<OverlapPlace>> overlap_places(const Model& model, const NamedCollectives& which, int parts,
                                                 std::string* left_out) {
  return Finder(model, which, parts).run(left_out);
}

}  // namespace foretrace::whatif
