// Which dimensions of a program's tensors grow with the batch: followed from the leading dimension of its data through every
// instruction. So a product's gradient is distinguished from a weight's, and what depends on parameters alone from the rest.

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "trace/importers/hlo_growth.hpp"
#include "trace/importers/hlo_module.hpp"
#include "trace/importers/proto_wire.hpp"

namespace foretrace::trace {

namespace {

constexpr int kTuple = 13;

bool holds(const std::vector<std::int64_t>& list, std::size_t value) {
  return std::find(list.begin(), list.end(), static_cast<std::int64_t>(value)) != list.end();
}

}  // namespace

class HloSamples {
 public:
  explicit HloSamples(HloModule& module) : m_(module) {}

  void run() {
    if (batch_ = batch_size(); batch_ == 0) return;
    for (const std::int64_t id : m_.read_only_) {
      const HloShape& shape = m_.at(id)->shape;
      if (shape.dims.empty() || shape.dims.front() != batch_) continue;
      Growth& g = growth_.try_emplace(id, nothing(shape)).first->second;
      g.set(0);
    }
    sizes_.insert(batch_);
    follow(m_.entry_, 0);
    // Where no product grows the data was mistaken for something else, or never multiplied: names have to do.
    const bool found = std::any_of(m_.launches.begin(), m_.launches.end(), [&](const HloModule::Launch& l) {
      return (l.work.family == "gemm" || l.work.conv[0] > 0) && of(l.instruction->id).any();
    });
    if (!found) return;
    for (HloModule::Launch& launch : m_.launches) tell(launch);
  }

 private:
  // The leading dimension most of the data have; tokens and labels are integers, and no parameter is.
  std::int64_t batch_size() const {
    std::map<std::int64_t, int> votes;
    bool integers = false;
    for (const bool wanted : {true, false}) {
      for (const std::int64_t id : m_.read_only_) {
        const HloShape& shape = m_.at(id)->shape;
        const std::string_view type = hlo_type_name(shape.type);
        const bool integer = type.starts_with('s') || type.starts_with('u');
        if (integer != wanted || shape.dims.empty() || shape.elements() < 2) continue;
        votes[shape.dims.front()] += 1;
        integers = integers || integer;
      }
      if (integers) break;
    }
    std::int64_t best = 0;
    int most = 0;
    for (const auto& [size, count] : votes) {
      if (count <= most || size < 1) continue;
      most = count;
      best = size;
    }
    return best;
  }

  static Growth nothing(const HloShape& shape) {
    Growth g;
    if (shape.type == kTuple) {
      for (const HloShape& p : shape.parts) g.parts.push_back(nothing(p));
    } else {
      g.dims.assign(shape.dims.size(), 0);
    }
    return g;
  }

  const Growth& of(std::int64_t id) const {
    static const Growth kNothing;
    const auto it = growth_.find(id);
    return it == growth_.end() ? kNothing : it->second;
  }
  const Growth& operand(const HloInstruction& in, std::size_t i) const {
    static const Growth kNothing;
    return i < in.operands.size() ? of(in.operands[i]) : kNothing;
  }
  const HloShape& operand_shape(const HloInstruction& in, std::size_t i) const {
    static const HloShape kNothing;
    const HloInstruction* from = i < in.operands.size() ? m_.at(in.operands[i]) : nullptr;
    return from == nullptr ? kNothing : from->shape;
  }

  void follow(std::int64_t computation, int depth) {
    const std::vector<std::int64_t>* body = m_.body_of(computation, depth);
    if (body == nullptr) return;
    for (const std::int64_t id : *body) {
      const HloInstruction* in = m_.at(id);
      if (in == nullptr || in->opcode == "parameter") continue;
      Growth g = result(*in, depth);
      for (std::size_t d = 0; d < std::min(g.dims.size(), in->shape.dims.size()); ++d) {
        if (g.dims[d] != 0 && in->shape.dims[d] > 1) sizes_.insert(in->shape.dims[d]);
      }
      growth_.insert_or_assign(id, std::move(g));
    }
  }

  Growth called(const HloInstruction& in, std::int64_t computation, const std::vector<std::int64_t>& operands,
                int depth) {
    const auto it = m_.computations_.find(computation);
    if (it == m_.computations_.end()) return nothing(in.shape);
    for (const std::int64_t id : it->second.order) {
      const HloInstruction* inner = m_.at(id);
      if (inner == nullptr || inner->opcode != "parameter") continue;
      const auto n = static_cast<std::size_t>(inner->parameter);
      if (n < operands.size()) growth_.insert_or_assign(id, of(operands[n]));
    }
    follow(computation, depth + 1);
    for (const std::int64_t id : it->second.order) {
      const HloInstruction* inner = m_.at(id);
      if (inner == nullptr || inner->opcode != "parameter") continue;
      const auto n = static_cast<std::size_t>(inner->parameter);
      if (n < operands.size() && of(id).any() && !of(operands[n]).any()) growth_.insert_or_assign(operands[n], of(id));
    }
    return of(m_.root_of(it->second));
  }

  Growth result(const HloInstruction& in, int depth) {
    const std::string_view op = in.opcode;
    Growth out = nothing(in.shape);
    if (op == "fusion" || op == "call" || op == "async-start") {
      for (const std::int64_t c : in.calls) {
        Growth inner = called(in, c, in.operands, depth);
        op == "async-start" ? void(out = std::move(inner)) : out.join(inner);
      }
    } else if (op == "while") {
      // Twice around: what grows after one turn grows in the next.
      out = operand(in, 0);
      for (int turn = 0; turn < 2; ++turn) {
        growth_.insert_or_assign(in.id, out);
        for (const std::int64_t c : in.calls) out.join(called(in, c, {in.id}, depth));
      }
      grown_before(in, out);
    } else if (op == "conditional") {
      for (std::size_t c = 0; c < in.calls.size() && c + 1 < in.operands.size(); ++c) {
        out.join(called(in, in.calls[c], {in.operands[c + 1]}, depth));
      }
    } else if (op == "tuple") {
      for (std::size_t i = 0; i < in.operands.size() && i < out.parts.size(); ++i) out.parts[i] = operand(in, i);
    } else if (op == "get-tuple-element") {
      const Growth& whole = operand(in, 0);
      if (in.element >= 0 && in.element < static_cast<std::int64_t>(whole.parts.size()))
        out = whole.parts[static_cast<std::size_t>(in.element)];
    } else if (op == "broadcast") {
      for (std::size_t i = 0; i < in.dimensions.size(); ++i) {
        if (operand(in, 0).at(static_cast<std::int64_t>(i))) out.set(in.dimensions[i]);
      }
    } else if (op == "transpose") {
      for (std::size_t i = 0; i < in.dimensions.size(); ++i) {
        if (operand(in, 0).at(in.dimensions[i])) out.set(static_cast<std::int64_t>(i));
      }
    } else if (op == "reshape" || op == "bitcast") {
      reshape(in, out);
    } else if (op == "reduce") {
      reduce(in, out);
    } else if (op == "dot") {
      dot(in, read_dot(in.dot), out);
    } else if (op == "gather") {
      gather(in, out);
    } else if (op == "convolution" || (op == "custom-call" && !in.conv.empty())) {
      convolution(in, out);
    } else if (op == "custom-call") {
      HloDot dims;
      if (in.operands.size() >= 2 && read_config_dot(in.config, dims)) {
        dot(in, dims, out);
      } else {
        alike(in, in.operands.size(), out);
      }
    } else if (op == "scatter") {
      scatter(in, out);
    } else if (op == "dynamic-update-slice") {
      alike(in, 2, out);  // a loop stacks what grows into zeros
    } else if (op == "reduce-window" || op == "dynamic-slice" || op == "pad") {
      alike(in, 1, out);
    } else {
      alike(in, in.operands.size(), out);
    }
    return out;
  }

  // What a loop fills with samples was made for as many in front of it.
  void grown_before(const HloInstruction& loop, const Growth& out) {
    const HloInstruction* begin = loop.operands.empty() ? nullptr : m_.at(loop.operands.front());
    if (begin == nullptr || begin->opcode != "tuple") return;
    for (std::size_t i = 0; i < begin->operands.size() && i < out.parts.size(); ++i) {
      if (!out.parts[i].any()) continue;
      std::int64_t id = begin->operands[i];
      for (const HloInstruction* made = m_.at(id); made != nullptr && !of(id).any(); made = m_.at(id)) {
        growth_.insert_or_assign(id, out.parts[i]);
        if (made->opcode == "get-tuple-element" && !made->operands.empty()) {
          Growth& whole = growth_[made->operands.front()];
          if (made->element >= 0 && made->element < static_cast<std::int64_t>(whole.parts.size()))
            whole.parts[static_cast<std::size_t>(made->element)] = out.parts[i];
        }
        if (made->opcode != "copy" || made->operands.empty()) break;
        id = made->operands.front();
      }
    }
  }

  // Element by element, whatever it is: as its operands of the same number of dimensions.
  void alike(const HloInstruction& in, std::size_t operands, Growth& out) const {
    for (std::size_t i = 0; i < operands; ++i) {
      const Growth& g = operand(in, i);
      if (!out.parts.empty()) {
        for (Growth& p : out.parts) {
          if (p.dims.size() == g.dims.size()) p.join(g);
        }
      } else if (g.dims.size() == out.dims.size()) {
        out.join(g);
      }
    }
  }

  // Dimensions as they are in memory, outermost first.
  static std::vector<std::size_t> in_memory(const HloShape& shape) {
    const std::size_t rank = shape.dims.size();
    std::vector<std::size_t> order(rank);
    for (std::size_t i = 0; i < rank; ++i) order[i] = i;
    if (shape.innermost_first.size() != rank) return order;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t d = shape.innermost_first[rank - 1 - i];
      if (d < 0 || d >= static_cast<std::int64_t>(rank)) return in_memory({shape.type, shape.dims, {}, {}});
      order[i] = static_cast<std::size_t>(d);
    }
    return order;
  }

  // Groups of dimensions that are the same stretch of memory on both sides. The samples are the outermost of theirs.
  void reshape(const HloInstruction& in, Growth& out) const {
    const Growth& g = operand(in, 0);
    const HloShape& from = operand_shape(in, 0);
    if (!g.any() || g.dims.size() != from.dims.size()) return;
    const std::vector<std::size_t> a =
        in_memory(in.opcode == "bitcast" ? from : HloShape{from.type, from.dims, {}, {}});
    const std::vector<std::size_t> b =
        in_memory(in.opcode == "bitcast" ? in.shape : HloShape{in.shape.type, in.shape.dims, {}, {}});
    std::size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
      double left = static_cast<double>(from.dims[a[i]]);
      double right = static_cast<double>(in.shape.dims[b[j]]);
      bool grows = g.dims[a[i]] != 0;
      std::size_t target = b[j];
      ++i, ++j;
      while (left != right) {
        if (left < right) {
          if (i == a.size()) return;
          left *= static_cast<double>(from.dims[a[i]]);
          grows = grows || g.dims[a[i]] != 0;
          ++i;
        } else {
          if (j == b.size()) return;
          if (in.shape.dims[target] == 1) target = b[j];
          right *= static_cast<double>(in.shape.dims[b[j]]);
          ++j;
        }
      }
      if (grows) out.set(static_cast<std::int64_t>(target));
    }
  }

  void reduce(const HloInstruction& in, Growth& out) const {
    for (std::size_t o = 0; o < in.operands.size() / 2; ++o) {
      const Growth& g = operand(in, o);
      std::int64_t at = 0;
      for (std::size_t d = 0; d < g.dims.size(); ++d) {
        if (holds(in.dimensions, d)) continue;
        if (g.dims[d] != 0) {
          out.set(at);
          for (Growth& p : out.parts) p.set(at);
        }
        ++at;
      }
    }
  }

  // Dimensions of both first, then what is left of the left operand, then of the right one.
  void dot(const HloInstruction& in, const HloDot& dims, Growth& whole) const {
    Growth& out = whole.parts.empty() ? whole : whole.parts.front();
    const Growth& lhs = operand(in, 0);
    const Growth& rhs = operand(in, 1);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < dims.lhs_batch.size(); ++i, ++at) {
      if (lhs.at(dims.lhs_batch[i]) || (i < dims.rhs_batch.size() && rhs.at(dims.rhs_batch[i]))) out.set(at);
    }
    const auto rest = [&](const Growth& g, const std::vector<std::int64_t>& both,
                          const std::vector<std::int64_t>& summed) {
      for (std::size_t d = 0; d < g.dims.size(); ++d) {
        if (holds(both, d) || holds(summed, d)) continue;
        if (g.dims[d] != 0) out.set(at);
        ++at;
      }
    };
    rest(lhs, dims.lhs_batch, dims.lhs_contracting);
    rest(rhs, dims.rhs_batch, dims.rhs_contracting);
  }

  // GatherDimensionNumbers: offset_dims = 1, collapsed_slice_dims = 2, index_vector_dim = 4.
  void gather(const HloInstruction& in, Growth& out) const {
    std::vector<std::int64_t> offset, collapsed;
    std::int64_t vector_dim = 0;
    for (ProtoWire w(in.gather); w.next();) {
      if (w.field == 1) w.append_to(offset);
      if (w.field == 2) w.append_to(collapsed);
      if (w.field == 4) vector_dim = w.integer();
    }
    const Growth& table = operand(in, 0);
    const Growth& indices = operand(in, 1);
    std::size_t from_table = 0, from_indices = 0;
    for (std::size_t d = 0; d < out.dims.size(); ++d) {
      if (holds(offset, d)) {
        while (holds(collapsed, from_table)) ++from_table;
        if (table.at(static_cast<std::int64_t>(from_table++))) out.set(static_cast<std::int64_t>(d));
      } else {
        if (static_cast<std::int64_t>(from_indices) == vector_dim) ++from_indices;
        if (indices.at(static_cast<std::int64_t>(from_indices++))) out.set(static_cast<std::int64_t>(d));
      }
    }
  }

  // Into a tensor that grows, or into zeros: those have the samples outermost, where a size that grows elsewhere stands. The zeros
  // themselves then grow too.
  void scatter(const HloInstruction& in, Growth& out) {
    alike(in, 1, out);
    if (in.operands.size() < 3 || out.any() || out.dims.empty() || !operand(in, 2).any()) return;
    if (!sizes_.contains(in.shape.dims.front())) return;
    out.set(0);
    growth_.insert_or_assign(in.operands.front(), out);
  }

  // ConvolutionDimensionNumbers: input_batch = 7, output_batch = 9; of a library's backward call those of the forward one.
  void convolution(const HloInstruction& in, Growth& whole) const {
    Growth& out = whole.parts.empty() ? whole : whole.parts.front();
    std::int64_t input = 0, output = 0;
    for (ProtoWire w(in.conv); w.next();) {
      if (w.field == 7) input = w.integer();
      if (w.field == 9) output = w.integer();
    }
    if (contains(in.target, "BackwardFilter")) return;
    const bool data = contains(in.target, "BackwardInput");
    if (operand(in, 0).at(data ? output : input)) out.set(data ? input : output);
  }

  // What the launch computes, from what grows.
  void tell(HloModule::Launch& launch) {
    const HloInstruction& in = *launch.instruction;
    CompiledOp& work = launch.work;
    bool reads = false;
    for (std::size_t i = 0; i < in.operands.size(); ++i) reads = reads || operand(in, i).any();
    const bool writes = of(in.id).any();
    if (work.phase == "optimizer" && writes && of_zeros(in)) work.phase = "forward";
    if (work.phase == "optimizer") return;
    work.of_parameters = !reads && !writes;
    if (work.family == "gemm" || work.family == "reduction") work.sums_samples = reads && !writes;
    // Sums over samples among several results decide how a kernel is cut into blocks.
    if (work.family == "reduction" && of(in.id).partly()) work.sums_samples = true;
    if (!reads || !writes || (work.family != "gemm" && !work.family.starts_with("convolution"))) return;
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      const HloInstruction* other = m_.at(in.operands[i]);
      if (other != nullptr && !operand(in, i).any()) work.weight = std::max(work.weight, other->shape.elements());
    }
    // A sum over samples that the compiler divided, into parts that are no multiple of the samples: they stay as many, and each sums more.
    const std::int64_t parts = work.family == "gemm" && work.weight == 0 ? work.gemm[0] : 1;
    if (parts > 1 && parts % batch_ != 0) work.sums_samples = true;
  }

  // Nothing but constants goes in.
  [[nodiscard]] bool of_zeros(const HloInstruction& in) const {
    return std::all_of(in.operands.begin(), in.operands.end(), [&](std::int64_t id) {
      const HloInstruction* from = m_.at(id);
      return from == nullptr || from->opcode == "constant";
    });
  }

  HloModule& m_;
  std::int64_t batch_ = 0;
  std::map<std::int64_t, Growth> growth_;
  std::set<std::int64_t> sizes_;  // of dimensions that grow
};

void HloModule::follow_samples() { HloSamples(*this).run(); }

}  // namespace foretrace::trace
