// Which tensors of a program in FP32 stay FP32 when its inputs are half: norms, softmax and losses compute in FP32 whatever they are given,
// and what XLA keeps of them between two kernels it keeps in FP32. A program in FP32 holds no casts that would say where, but what is done
// does: a value that meets a statistic of its kind (its mean, its maximum, the sum of its exponentials) is inside, until a parameter scales
// it, it is added to something else, or a product takes it.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "trace/importers/hlo_module.hpp"

namespace foretrace::trace {

namespace {

constexpr int kTuple = 13;

// In the order in which one outweighs another where two ways lead to a value.
enum class Standing : std::uint8_t { kConstant, kParameter, kSum, kStatistic, kWide, kData };

struct Value {
  Standing standing = Standing::kConstant;
  std::vector<Value> parts;

  void join(const Value& other) {
    standing = std::max(standing, other.standing);
    if (parts.size() < other.parts.size()) parts.resize(other.parts.size());
    for (std::size_t i = 0; i < other.parts.size(); ++i) parts[i].join(other.parts[i]);
  }
};

bool is_floating(const HloShape& shape) {
  const std::string_view name = hlo_type_name(shape.type);
  return name.starts_with('f') || name.starts_with("bf");
}

// As many parts as the shape has: a damaged file may say otherwise of every instruction on the way.
void fit(Value& value, const HloShape& shape) {
  if (value.parts.size() > shape.parts.size()) value.parts.resize(shape.parts.size());
  for (std::size_t i = 0; i < value.parts.size(); ++i) fit(value.parts[i], shape.parts[i]);
}

bool is_half(const HloShape& shape) {
  return hlo_type_name(shape.type) == "bf16" || hlo_type_name(shape.type) == "f16";
}

// Of an operation done element by element.
Standing together(std::string_view op, const std::set<Standing>& of) {
  const auto has = [&](Standing s) { return of.contains(s); };
  if (has(Standing::kWide)) {
    const bool added = op == "add" || op == "subtract";
    const bool scaled = op == "multiply" || op == "divide";
    const bool other = has(Standing::kData) || has(Standing::kParameter);
    if ((added && other) || (scaled && has(Standing::kParameter))) return Standing::kData;
    return Standing::kWide;
  }
  if (has(Standing::kData)) return has(Standing::kStatistic) ? Standing::kWide : Standing::kData;
  return of.empty() ? Standing::kConstant : *of.rbegin();
}

}  // namespace

class HloWide {
 public:
  explicit HloWide(HloModule& module) : m_(module) {}

  void run() {
    for (const auto& [id, in] : m_.instructions_) {
      if (is_half(in.shape)) return;  // it has types of its own, which say where they are
    }
    for (const std::int64_t id : m_.read_only_) values_[id].standing = Standing::kData;
    follow(m_.entry_, 0);
    find_multiplied();
    for (HloModule::Launch& launch : m_.launches) tell(launch);
  }

 private:
  const Value& of(std::int64_t id) const {
    static const Value kNothing;
    const auto it = values_.find(id);
    return it == values_.end() ? kNothing : it->second;
  }
  const Value& operand(const HloInstruction& in, std::size_t i) const {
    static const Value kNothing;
    return i < in.operands.size() ? of(in.operands[i]) : kNothing;
  }

  void follow(std::int64_t computation, int depth) {
    const std::vector<std::int64_t>* body = m_.body_of(computation, depth);
    if (body == nullptr) return;
    for (const std::int64_t id : *body) {
      const HloInstruction* in = m_.at(id);
      if (in == nullptr) continue;
      if (in->opcode == "parameter") {
        // Of the program: what is trained, unless it was said to be data.
        if (depth == 0) values_.try_emplace(id, Value{Standing::kParameter, {}});
        continue;
      }
      Value value = result(*in, depth);
      fit(value, in->shape);
      values_.insert_or_assign(id, std::move(value));
    }
  }

  Value called(std::int64_t computation, const std::vector<std::int64_t>& operands, int depth) {
    const auto it = m_.computations_.find(computation);
    if (it == m_.computations_.end()) return {};
    for (const std::int64_t id : it->second.order) {
      const HloInstruction* inner = m_.at(id);
      if (inner == nullptr || inner->opcode != "parameter") continue;
      const auto n = static_cast<std::size_t>(inner->parameter);
      if (n < operands.size()) values_.insert_or_assign(id, of(operands[n]));
    }
    follow(computation, depth + 1);
    return of(m_.root_of(it->second));
  }

  Value result(const HloInstruction& in, int depth) {
    const std::string_view op = in.opcode;
    Value out;
    if (op == "fusion" || op == "call" || op == "async-start") {
      for (const std::int64_t c : in.calls) out.join(called(c, in.operands, depth));
    } else if (op == "while") {
      // Twice around: what is data after one turn is data in the next.
      out = operand(in, 0);
      for (int turn = 0; turn < 2; ++turn) {
        values_.insert_or_assign(in.id, out);
        for (const std::int64_t c : in.calls) out.join(called(c, {in.id}, depth));
      }
      filled(in, out);
    } else if (op == "conditional") {
      for (std::size_t c = 0; c < in.calls.size() && c + 1 < in.operands.size(); ++c)
        out.join(called(in.calls[c], {in.operands[c + 1]}, depth));
    } else if (op == "tuple") {
      for (const std::int64_t id : in.operands) out.parts.push_back(of(id));
    } else if (op == "get-tuple-element") {
      const Value& whole = operand(in, 0);
      const auto part = static_cast<std::size_t>(std::max<std::int64_t>(0, in.element));
      out = part < whole.parts.size() ? whole.parts[part] : Value{whole.standing, {}};
    } else if (op == "dot" || op == "convolution" || op == "custom-call") {
      out.standing = Standing::kData;
    } else if (op == "gather") {
      out.standing = operand(in, 0).standing == Standing::kWide ? Standing::kWide : Standing::kData;
    } else if (op == "reduce" || op == "reduce-window") {
      summed(in, out);
    } else if (op == "broadcast") {
      out = operand(in, 0);
      if (out.standing == Standing::kSum) out.standing = Standing::kStatistic;
    } else if (op == "scatter" || op == "dynamic-update-slice") {
      written(in, out);
    } else if (op == "slice" || op == "dynamic-slice" || op == "pad" || op == "reduce-precision") {
      out.standing = operand(in, 0).standing;
    } else if (is_floating(in.shape)) {
      std::set<Standing> standings;
      for (const std::int64_t id : in.operands) {
        const HloInstruction* from = m_.at(id);
        if (from != nullptr && is_floating(from->shape)) standings.insert(of(id).standing);
      }
      out.standing = together(op, standings);
    }
    return out;
  }

  // Zeros that a loop fills turn by turn have the type of what it puts there.
  void filled(const HloInstruction& loop, const Value& out) {
    const HloInstruction* begin = loop.operands.empty() ? nullptr : m_.at(loop.operands.front());
    if (begin == nullptr || begin->opcode != "tuple") return;
    for (std::size_t i = 0; i < begin->operands.size() && i < out.parts.size(); ++i) {
      if (out.parts[i].standing != Standing::kWide) continue;
      std::int64_t id = begin->operands[i];
      for (const HloInstruction* made = m_.at(id); made != nullptr; made = m_.at(id)) {
        if (of(id).standing != Standing::kConstant) break;
        values_[id].standing = Standing::kWide;
        if (made->operands.empty()) break;
        if (made->opcode == "get-tuple-element") {
          std::vector<Value>& parts = values_[made->operands.front()].parts;
          const auto part = static_cast<std::size_t>(std::max<std::int64_t>(0, made->element));
          if (part < parts.size()) parts[part].standing = Standing::kWide;
        }
        if (!is_one_of(made->opcode, "copy bitcast")) break;
        id = made->operands.front();
      }
    }
  }

  // Sums, maxima: of data and of what is derived from it.
  void summed(const HloInstruction& in, Value& out) const {
    Standing most = Standing::kConstant;
    for (std::size_t i = 0; i < in.operands.size() / 2; ++i) most = std::max(most, operand(in, i).standing);
    out.standing = most > Standing::kParameter ? Standing::kSum : most;
    if (in.shape.type == kTuple) out.parts.assign(in.shape.parts.size(), Value{out.standing, {}});
  }

  // Rows written into zeros: a loss takes the logarithm of one class of each sample, and its gradient goes back there.
  void written(const HloInstruction& in, Value& out) const {
    const Standing into = operand(in, 0).standing;
    const Standing rows = operand(in, in.opcode == "scatter" ? 2 : 1).standing;
    const bool statistics = rows == Standing::kSum || rows == Standing::kStatistic;
    out.standing = std::max(into, in.opcode == "scatter" && statistics ? Standing::kWide : rows);
  }

  // What a product reads is in the product's type: it is converted where it is made.
  void find_multiplied() {
    for (const HloModule::Launch& launch : m_.launches) {
      if (launch.work.family != "gemm" && !launch.work.family.starts_with("convolution")) continue;
      for (std::int64_t id : launch.instruction->operands) {
        for (const HloInstruction* in = m_.at(id); in != nullptr; in = m_.at(id)) {
          const bool first = multiplied_.insert(place(*in)).second;
          if (!first || !is_one_of(in->opcode, "bitcast copy transpose") || in->operands.empty()) break;
          id = in->operands.front();
        }
      }
    }
  }

  using Place = std::pair<std::int64_t, std::int64_t>;  // an instruction, and which part of its result
  Place place(const HloInstruction& in) const {
    if (in.opcode == "get-tuple-element" && !in.operands.empty()) return {in.operands.front(), in.element};
    return {in.id, -1};
  }
  [[nodiscard]] bool stays_wide(const Value& value, const Place& at, const HloShape& shape) const {
    return value.standing == Standing::kWide && is_floating(shape) && !multiplied_.contains(at);
  }

  void tell(HloModule::Launch& launch) const {
    const HloInstruction& in = *launch.instruction;
    CompiledOp& work = launch.work;
    if (launch.kind != HloKind::kGenerated && launch.kind != HloKind::kCopy) return;
    if (work.family == "gemm" || work.family.starts_with("convolution")) return;
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      const HloInstruction* from = m_.at(in.operands[i]);
      if (from != nullptr && stays_wide(of(from->id), place(*from), from->shape))
        work.fixed_read += m_.bytes_of_operand(in, i);
    }
    const Value& result = of(in.id);
    if (in.shape.type != kTuple) {
      if (stays_wide(result, {in.id, -1}, in.shape)) work.fixed_written = work.bytes_written;
      return;
    }
    for (std::size_t i = 0; i < in.shape.parts.size() && i < result.parts.size(); ++i) {
      const HloShape& part = in.shape.parts[i];
      if (stays_wide(result.parts[i], {in.id, static_cast<std::int64_t>(i)}, part)) work.fixed_written += part.bytes();
    }
    work.fixed_written = std::min(work.fixed_written, work.bytes_written);
  }

  HloModule& m_;
  std::map<std::int64_t, Value> values_;
  std::set<Place> multiplied_;
};

// Where some of what a kernel reads or writes is half, FP32 next to it is meant to be: in the same program in FP32 it is what it is.
void HloModule::keep_wide(const HloInstruction& in, CompiledOp& out) const {
  const auto is = [](const HloShape& shape, std::string_view a, std::string_view b) {
    return hlo_type_name(shape.type) == a || hlo_type_name(shape.type) == b;
  };
  double wide_read = 0, wide_written = 0;
  std::string_view half = "";
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    const HloInstruction* from = at(in.operands[i]);
    if (from == nullptr) continue;
    if (is(from->shape, "bf16", "f16")) half = hlo_type_name(from->shape.type);
    if (is(from->shape, "f32", "f64")) wide_read += bytes_of_operand(in, i);
  }
  const std::vector<HloShape> one{in.shape};
  bool writes_half = false;
  for (const HloShape& part : in.shape.type == kTuple ? in.shape.parts : one) {
    writes_half = writes_half || is(part, "bf16", "f16");
    if (is(part, "f32", "f64")) wide_written += part.bytes();
  }
  if (half.empty() && !writes_half) return;
  out.fixed_read += wide_read;
  out.fixed_written += std::min(wide_written, out.bytes_written);
  if (!half.empty()) out.dtype = half;
}

void HloModule::follow_types() { HloWide(*this).run(); }

}  // namespace foretrace::trace
