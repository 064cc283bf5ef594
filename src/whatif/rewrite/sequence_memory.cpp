#include "whatif/rewrite/sequence_memory.hpp"

#include <cmath>
#include <map>
#include <optional>

#include "base/saturate.hpp"
#include "whatif/dataflow/result_shape.hpp"
#include "work/describe_op.hpp"

namespace foretrace::whatif {

namespace {

using memory::Block;
using memory::Kind;
using work::OpView;
using work::Shape;

// The tensor a block holds: its elements now and then.
struct Held {
  std::int64_t elements = 0, then = 0;
};

class Lengthener {
 public:
  Lengthener(const Model& m, const SequenceShapes& shapes, double x)
      : t_(*m.trace), shapes_(shapes), x_(x), earlier_(m.pass_samples) {}

  void resize(Block& b) {
    if (b.kind == Kind::kGradient || b.kind == Kind::kResident || b.stage == memory::Stage::kUpdate) return;
    if (b.op == kNone) {  // the batch
      if (b.kind == Kind::kInput) set(b, x_);
      return;
    }
    const Operation& op = look_up(b.op);
    // As recorded, or as an earlier change of batch or length left it; scores follow a length twice.
    for (const double earlier : {1.0, earlier_, earlier_ * earlier_}) {
      for (const Held& h : op.tensors) {
        if (held(b, h, earlier)) return;
      }
      if (earlier_ == 1) break;
    }
    set(b, op.growth);
  }

 private:
  bool held(Block& b, const Held& h, double earlier) const {
    if (h.elements <= 0) return false;
    for (const std::int64_t size : {2, 4, 8, 1}) {
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

}  // namespace

void lengthen_memory(Model& model, const SequenceShapes& shapes, double x) {
  Lengthener lengthener(model, shapes, x);
  for (Block& b : model.memory->blocks) lengthener.resize(b);
}

}  // namespace foretrace::whatif
