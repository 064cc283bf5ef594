#include "whatif/rewrite/sequence_length.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/saturate.hpp"
#include "hardware/cost.hpp"
#include "trace/latencies.hpp"
#include "whatif/dataflow/op_facts.hpp"
#include "whatif/rewrite/attention_heads.hpp"
#include "whatif/rewrite/rows.hpp"
#include "work/describe_op.hpp"

namespace foretrace::whatif {

namespace {

using memory::Block;
using memory::Kind;
using work::OpView;
using work::Shape;
using work::Work;

double ratio(double after, double before) { return before > 0 ? after / before : 1; }
double ratio(std::int64_t after, std::int64_t before) {
  return ratio(static_cast<double>(after), static_cast<double>(before));
}
void grow(std::int64_t& size, double by) {
  if (by != 1) size = std::max<std::int64_t>(1, saturated(std::round(static_cast<double>(size) * by)));
}

// Sizes of one kind, each as its operation's tensors say: `now` and `then` are the same operation at both lengths. Ratios, so
// that what earlier changes made of the work stays.
struct Grower {
  const SequenceShapes& shapes;
  const Work &now, &then;
  double x;
  KeysSeen seen;

  void operator()(work::Gemm& g) const {
    const auto* a = std::get_if<work::Gemm>(&now.kind);
    if (a == nullptr) return;
    if (a->batch > 1) return by_ratio(g, &work::Gemm::batch, &work::Gemm::m, &work::Gemm::n, &work::Gemm::k);
    // Of a layer: what its rows are is known, whatever their number.
    if (shapes.per_position(g.weight_grad ? a->k : a->m)) grow(g.weight_grad ? g.k : g.m, x);
  }
  void operator()(work::Attention& g) const {
    if (seen == KeysSeen::kFewerHeads) return divide_heads(g, std::max<std::int64_t>(1, std::llround(1 / x)));
    if (seen == KeysSeen::kAll) return grow(g.queries, x);
    if (const auto* a = std::get_if<work::Attention>(&now.kind); a != nullptr && a->queries > 0)
      return by_ratio(g, &work::Attention::queries, &work::Attention::keys);
    grow(g.queries, x);
    grow(g.keys, x);
  }
  void operator()(work::Recurrent& g) const { grow(g.steps, x); }
  void operator()(work::Rows& g) const { by_ratio(g, &work::Rows::rows, &work::Rows::columns); }
  void operator()(work::Gather& g) const {
    const auto* a = std::get_if<work::Gather>(&now.kind);
    // Where the trace records no index there are as many more of them as elements in the table.
    if (a != nullptr && a->rows <= 0) grow(g.rows, ratio(then.elements, now.elements));
    by_ratio(g, &work::Gather::rows, &work::Gather::columns, &work::Gather::table, &work::Gather::sets,
             &work::Gather::bags);
  }
  template <class Other>
  void operator()(Other&) const {}

 private:
  // Each size grows as it does between the operation's own descriptions.
  template <class Kind, class... Sizes>
  void by_ratio(Kind& kind, Sizes... sizes) const {
    const auto* a = std::get_if<Kind>(&now.kind);
    const auto* b = std::get_if<Kind>(&then.kind);
    if (a != nullptr && b != nullptr) (grow(kind.*sizes, ratio(b->*sizes, a->*sizes)), ...);
  }
};

// The tensor a block holds: its elements now and then.
struct Held {
  std::int64_t elements = 0, then = 0;
};

// Every block that holds positions becomes as large as its tensor does: tokens and what layers keep of them x times, scores x
// times x, what belongs to parameters and samples not at all.
class MemoryLengthener {
 public:
  MemoryLengthener(const Model& m, const SequenceShapes& shapes, double x)
      : t_(*m.trace), shapes_(shapes), x_(x), earlier_(m.pass_samples) {}

  void resize(Block& b) {
    if (b.kind == Kind::kGradient || b.kind == Kind::kResident || b.stage == memory::Stage::kUpdate) return;
    if (b.op == kNone) {  // the batch
      if (b.kind == Kind::kInput) set(b, x_);
      return;
    }
    const Operation& op = look_up(b.op);
    // Eight bytes in an element, or one, only where no usual type explains a block: a tensor of another shape may be as large.
    if (held(b, op.tensors, {2, 4}) || held(b, op.tensors, {8, 1})) return;
    // What a compiler keeps of a tensor follows it.
    const bool kept = b.kind == Kind::kActivation && !b.workspace && !op.tensors.empty();
    set(b, kept ? ratio(op.tensors.front().then, op.tensors.front().elements) : op.growth);
  }

 private:
  // As recorded, or as an earlier change of batch or length left it; scores follow a length twice.
  bool held(Block& b, const std::vector<Held>& tensors, const std::array<std::int64_t, 2>& sizes) const {
    for (const Held& h : tensors) {
      for (const double earlier : {1.0, earlier_, earlier_ * earlier_}) {
        if (held(b, h, earlier, sizes)) return true;
        if (earlier_ == 1) break;
      }
    }
    return false;
  }
  static bool held(Block& b, const Held& h, double earlier, const std::array<std::int64_t, 2>& sizes) {
    if (h.elements <= 0) return false;
    for (const std::int64_t size : sizes) {
      const std::int64_t bytes = saturated(static_cast<double>(saturated_product(h.elements, size)) * earlier);
      if (!memory::could_hold(b, bytes)) continue;
      // What the allocator gave beyond the tensor stays as it is.
      const std::int64_t beyond = b.bytes - bytes;
      b.bytes = rounded(saturated(static_cast<double>(saturated_product(h.then, size)) * earlier)) +
                (beyond >= memory::kGrain ? beyond : 0);
      return true;
    }
    return false;
  }

  struct Operation {
    std::vector<Held> tensors;  // that it could have allocated, the likeliest first
    double growth = 1;          // of all it reads and writes
  };

  static std::int64_t rounded(std::int64_t bytes) {
    return (bytes + memory::kGrain - 1) / memory::kGrain * memory::kGrain;
  }
  static void set(Block& b, double growth) {
    if (growth != 1) b.bytes = rounded(saturated(static_cast<double>(b.bytes) * growth));
  }

  const Operation& look_up(std::uint32_t event) {
    const std::pair key(t_.events.name[event].value, t_.events.args[event].value);
    const auto [it, added] = known_.try_emplace(key);
    if (added) read(event, it->second);
    return it->second;
  }

  void read(std::uint32_t event, Operation& out) const {
    const std::string_view name = t_.name(event);
    const OpView now(t_, t_.events.args[event]);
    const OpView then = shapes_.longer(now, x_);
    const auto add = [&](const Shape& a, const Shape& b) {
      if (!a.empty()) out.tensors.push_back({work::elements_of(a), work::elements_of(b)});
    };
    // Plain allocations say their size: empty(size, …), empty_strided(size, strides, …), resize_(self, size).
    const bool sized = name == "aten::empty" || name == "aten::empty_strided" || name == "aten::zeros" ||
                       name == "aten::full" || name == "aten::ones";
    if (sized || name == "aten::resize_") {
      const Shape size = now.integers(sized ? 0 : 1);
      add(size, shapes_.longer(size, false, x_));
    }
    add(result_shape(name, now), result_shape(name, then));
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now.tensor(i, 1)) add(now[i].shape(), then[i].shape());
    }
    const work::OpClass what = work::classify_op(name);
    const double before = work::describe_op(what, name, now).bytes();
    const double after = work::describe_op(what, name, then).bytes();
    // What none of its tensors explains is scratch memory of the library: a product's does not follow its size.
    if (before > 0 && what.family != work::Family::kGemm) out.growth = after / before;
  }

  const trace::Trace& t_;
  const SequenceShapes& shapes_;
  double x_;
  double earlier_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Operation> known_;
};

class Sequence {
 public:
  Sequence(Model& m, Draft& draft, const SequenceShapes& shapes, double x, KeysSeen seen)
      : m_(m), draft_(draft), shapes_(shapes), x_(x), seen_(seen) {}

  Status run() {
    if (x_ == 1) {
      draft_.note_change();  // asked and answered: as it is
      return {};
    }
    for (const Row& row : rows_of(m_, draft_)) {
      if (row.phase == Phase::kOptimizer || row.phase == Phase::kCommunication) continue;
      all_ += row.time;
      lengthen(row);
    }
    if (grown_ == 0) return fail(ErrorCode::kDeclined, "no GPU work depends on the sequence length");
    if (unknown_ > all_ / 2) {
      return fail(ErrorCode::kDeclined,
                  "most of the step's kernels have no shapes, from which its sequences could be found");
    }
    if (unknown_ > all_ / 10)
      m_.not_modelled.emplace_back("shapes, which part of the trace lacks: those kernels grow in proportion");
    if (seen_ == KeysSeen::kAlike) lengthen_tables();
    if (m_.memory) {
      MemoryLengthener lengthener(m_, shapes_, x_);
      for (Block& b : m_.memory->blocks) lengthener.resize(b);
    }
    return {};
  }

 private:
  void lengthen(const Row& row) {
    const Work work = m_.works[row.work];
    if (work.of_parameters) return;
    if (work.op_event == kNone) {
      unknown_ += row.time;
      follow(row, work, x_);
      return;
    }
    const std::string_view name = m_.trace->name(work.op_event);
    const work::OpClass what = work::classify_op(name);
    const OpView view(*m_.trace, m_.trace->events.args[work.op_event]);
    const OpView longer = shapes_.longer(view, x_);
    const Work now = work::describe_op(what, name, view);
    const Work then = work::describe_op(what, name, longer);
    if (!now.has_shape()) {
      follow(row, work, growth_of(view, longer));
      return;
    }
    const bool other = now.kind.index() != work.kind.index();
    Work becomes = work;
    if (other && !std::holds_alternative<work::Attention>(work.kind)) {
      // What another change or the driver put there on the same tensors: a cast, a copy.
      scale(becomes, ratio(then.bytes(), now.bytes()));
    } else {
      std::visit(Grower{shapes_, now, then, x_, seen_}, becomes.kind);
      if (!is_product(becomes)) {
        grow(becomes.elements, ratio(then.elements, now.elements));
        becomes.flops *= ratio(then.flops, now.flops);
        becomes.bytes_read *= ratio(then.bytes_read, now.bytes_read);
        becomes.bytes_written *= ratio(then.bytes_written, now.bytes_written);
        becomes.fixed_read *= ratio(then.fixed_read, now.fixed_read);
        becomes.fixed_written *= ratio(then.fixed_written, now.fixed_written);
      }
    }
    refresh(becomes);
    if (becomes.flops == work.flops && becomes.bytes() == work.bytes() && becomes.kind == work.kind) return;
    hardware::Cost cost = rescale_row(m_, row, becomes);
    if (!cost.known || work.family == work::Family::kOther) {
      follow(row, becomes, ratio(becomes.bytes(), work.bytes()));
      return;
    }
    cost.origin = graph::Origin::kScaled;
    set_row(m_, draft_, row, cost, becomes);
    ++grown_;
  }

  static void scale(Work& w, double by) {
    grow(w.elements, by);
    w.flops *= by;
    w.bytes_read *= by, w.bytes_written *= by, w.fixed_read *= by, w.fixed_written *= by;
  }

  static double growth_of(const OpView& now, const OpView& then) {
    double before = 0;
    double after = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
      before += static_cast<double>(now[i].elements());
      after += static_cast<double>(then[i].elements());
    }
    return ratio(after, before);
  }

  // In proportion, above the time of a kernel that does next to nothing.
  void follow(const Row& row, const Work& becomes, double by) {
    if (by == 1) return;
    const auto least = static_cast<double>(m_.latencies->short_kernel) * static_cast<double>(row.tasks.size());
    const double time = static_cast<double>(row.time);
    const double fixed = std::min(time, least);
    set_row(m_, draft_, row, fixed + (time - fixed) * by, becomes, graph::Origin::kScaled);
    ++grown_;
  }

  // A learned table of positions that is too short becomes longer: parameter, gradient, what the optimizer keeps, its update.
  void lengthen_tables() {
    std::int64_t more = 0;
    for (const SequenceShapes::Table& t : shapes_.position_tables()) {
      const std::int64_t wanted = saturated(std::ceil(static_cast<double>(t.used) * x_));
      if (wanted > t.rows) more = saturated_sum(more, saturated_product(wanted - t.rows, t.columns));
      if (wanted > t.rows)
        m_.not_modelled.push_back(fmt::format(
            "what a longer table of positions does to training: it has {} rows and must grow to {}", t.rows, wanted));
    }
    if (more == 0 || m_.parameter_elements <= 0) return;
    const double by = 1 + static_cast<double>(more) / static_cast<double>(m_.parameter_elements);
    draft_.scale(draft_.select({.gpu = true, .phase = Phase::kOptimizer}), by);
    m_.parameter_elements = saturated_sum(m_.parameter_elements, more);
    if (!m_.memory) return;
    constexpr std::int64_t kBytes = 4;
    memory::Curve& c = *m_.memory;
    const std::int64_t states = saturated(static_cast<double>(c.state_bytes) * (by - 1));
    c.parameter_bytes = saturated_sum(c.parameter_bytes, kBytes * more);
    c.state_bytes = saturated_sum(c.state_bytes, states);
    c.start_bytes = saturated_sum(c.start_bytes, saturated_sum(2 * kBytes * more, states));
  }

  Model& m_;
  Draft& draft_;
  const SequenceShapes& shapes_;
  double x_;
  KeysSeen seen_;
  std::size_t grown_ = 0;
  Ns all_ = 0, unknown_ = 0;
};

}  // namespace

Status change_length(Model& m, Draft& draft, const SequenceShapes& shapes, double x, KeysSeen seen) {
  return Sequence(m, draft, shapes, x, seen).run();
}

}  // namespace foretrace::whatif
