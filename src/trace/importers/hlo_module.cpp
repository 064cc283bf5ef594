#include "trace/importers/hlo_module.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/saturate.hpp"
#include "base/text.hpp"
#include "foretrace/base/types.hpp"
#include "trace/importers/proto_wire.hpp"
#include "trace/tensor_size.hpp"

namespace foretrace::trace {

namespace {

constexpr int kTuple = 13;
struct Type {
  std::string_view name;
  double bytes;
};
constexpr std::array<Type, 29> kTypes = {{{"", 0},         {"pred", 1},  {"s8", 1},    {"s16", 2},    {"s32", 4},
                                          {"s64", 8},      {"u8", 1},    {"u16", 2},   {"u32", 4},    {"u64", 8},
                                          {"f16", 2},      {"f32", 4},   {"f64", 8},   {"", 0},       {"", 0},
                                          {"c64", 8},      {"bf16", 2},  {"", 0},      {"c128", 16},  {"f8e5m2", 1},
                                          {"f8e4m3fn", 1}, {"s4", 0.5},  {"u4", 0.5},  {"f8e4m3", 1}, {"f8e5m2", 1},
                                          {"f8e4m3", 1},   {"s2", 0.25}, {"u2", 0.25}, {"f8e4m3", 1}}};

HloShape read_shape(std::string_view bytes, int depth = 0) {
  HloShape out;
  constexpr int kDeepest = 16;
  for (ProtoWire w(bytes); w.next();) {
    if (w.field == 2) out.type = static_cast<int>(w.number);
    if (w.field == 3) w.append_to(out.dims);
    if (w.field == 4 && depth < kDeepest) out.parts.push_back(read_shape(w.bytes, depth + 1));
    for (ProtoWire layout(w.bytes); w.field == 5 && layout.next();) {
      if (layout.field == 1) layout.append_to(out.innermost_first);
    }
  }
  if (!possible_shape(out.dims)) out.dims.clear();
  return out;
}

std::int64_t largest_group(std::string_view bytes) {  // ReplicaGroup: replica_ids = 1
  std::vector<std::int64_t> ids;
  for (ProtoWire w(bytes); w.next();) {
    if (w.field == 1) w.append_to(ids);
  }
  return static_cast<std::int64_t>(ids.size());
}

// CollectiveDeviceListProto, which newer compilers write instead: replica_groups = 1, iota_replica_group_list = 2
// {num_replica_groups = 1, num_devices_per_group = 2}.
std::int64_t largest_listed_group(std::string_view bytes) {
  std::int64_t most = 0;
  for (ProtoWire w(bytes); w.next();) {
    if (w.field == 1) most = std::max(most, largest_group(w.bytes));
    if (w.field != 2) continue;
    for (ProtoWire iota(w.bytes); iota.next();) {
      if (iota.field == 2) most = std::max(most, iota.integer());
    }
  }
  return most;
}

HloInstruction read_instruction(std::string_view bytes) {
  HloInstruction out;
  for (ProtoWire w(bytes); w.next();) {
    if (w.field == 1) out.name = w.bytes;
    if (w.field == 2) out.opcode = w.bytes;
    if (w.field == 3) out.shape = read_shape(w.bytes);
    for (ProtoWire metadata(w.bytes); w.field == 7 && metadata.next();) {
      if (metadata.field == 2) out.op_name = metadata.bytes;
    }
    if (w.field == 9) out.parameter = w.integer();
    if (w.field == 13) out.element = w.integer();
    if (w.field == 14) w.append_to(out.dimensions);
    if (w.field == 15) out.window = w.bytes;
    if (w.field == 16) out.conv = w.bytes;
    if (w.field == 28) out.target = w.bytes;
    if (w.field == 30) out.dot = w.bytes;
    if (w.field == 33) out.gather = w.bytes;
    if (w.field == 35) out.id = w.integer();
    if (w.field == 36) w.append_to(out.operands);
    if (w.field == 38) w.append_to(out.calls);
    if (w.field == 43) out.config = w.bytes;
    if (w.field == 49) out.groups = std::max(out.groups, largest_group(w.bytes));
    if (w.field == 50) out.feature_groups = std::max<std::int64_t>(1, w.integer());
    if (w.field == 51) out.precision = w.bytes;
    if (w.field == 87) out.groups = std::max(out.groups, largest_listed_group(w.bytes));
  }
  return out;
}

HloKind kind_of(const HloInstruction& in) {
  const std::string_view op = in.opcode;
  if (is_one_of(
          op,
          "parameter constant tuple get-tuple-element bitcast after-all partition-id replica-id opt-barrier domain "
          "add-dependency while conditional call infeed outfeed token async-update get-dimension-size "
          "iota-placeholder") ||
      op.ends_with("-done")) {
    return HloKind::kNothing;
  }
  for (const std::string_view name : {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
                                      "collective-broadcast", "ragged-all-to-all", "send", "recv"}) {
    if (op.starts_with(name)) return HloKind::kCollective;
  }
  if (is_one_of(op, "copy copy-start")) return HloKind::kCopy;
  if (is_one_of(op, "custom-call convolution cholesky fft triangular-solve")) return HloKind::kLibrary;
  return HloKind::kGenerated;
}

}  // namespace

std::string_view hlo_type_name(int type) {
  return type >= 0 && type < static_cast<int>(kTypes.size()) ? kTypes[static_cast<std::size_t>(type)].name : "";
}

std::int64_t HloShape::elements() const {
  if (type != kTuple) return elements_of(dims);
  std::int64_t most = 0;
  for (const HloShape& p : parts) most = std::max(most, p.elements());
  return most;
}

double HloShape::bytes() const {
  if (type == kTuple) {
    double sum = 0;
    for (const HloShape& p : parts) sum += p.bytes();
    return sum;
  }
  const double size =
      type >= 0 && type < static_cast<int>(kTypes.size()) ? kTypes[static_cast<std::size_t>(type)].bytes : 0;
  return size == 0 ? 0 : size * static_cast<double>(elements_of(dims));
}

const HloInstruction* HloModule::at(std::int64_t id) const {
  const auto it = instructions_.find(id);
  return it == instructions_.end() ? nullptr : &it->second;
}

std::uint32_t HloModule::find(std::string_view instruction) const {
  const auto it = by_name_.find(std::string(instruction));
  return it == by_name_.end() ? kNone : it->second;
}

const std::vector<std::int64_t>* HloModule::body_of(std::int64_t computation, int depth) const {
  constexpr int kDeepest = 16;  // a damaged file may call itself
  const auto it = computations_.find(computation);
  return it == computations_.end() || depth > kDeepest ? nullptr : &it->second.order;
}

bool HloModule::read(std::string_view proto) {
  for (ProtoWire w(proto); w.next();) {
    if (w.field == 1 && w.packed) read_module(w.bytes);
  }
  if (entry_ < 0) return false;
  has_gradients = std::any_of(instructions_.begin(), instructions_.end(),
                              [](const auto& i) { return contains(i.second.op_name, "transpose("); });
  flatten(entry_, 0);
  count_parameters();
  follow_samples();
  follow_types();
  return !launches.empty();
}

void HloModule::read_module(std::string_view bytes) {
  std::string_view schedule;
  for (ProtoWire w(bytes); w.next();) {
    if (w.field == 1) name = w.bytes;
    if (w.field == 6) entry_ = w.integer();
    if (w.field == 7) schedule = w.bytes;
    if (w.field != 3) continue;
    std::int64_t id = -1;
    Computation computation;
    for (ProtoWire c(w.bytes); c.next();) {
      if (c.field == 5) id = c.integer();
      if (c.field == 6) computation.root = c.integer();
      if (c.field != 2) continue;
      HloInstruction in = read_instruction(c.bytes);
      computation.order.push_back(in.id);
      instructions_.insert_or_assign(in.id, std::move(in));
    }
    computations_[id] = std::move(computation);
  }
  if (!schedule.empty()) read_schedule(schedule);
}

// HloScheduleProto: sequences = 1, a map of computation -> InstructionSequence{instruction_ids = 1}.
void HloModule::read_schedule(std::string_view bytes) {
  for (ProtoWire w(bytes); w.next();) {
    if (w.field != 1) continue;
    std::int64_t computation = -1;
    std::vector<std::int64_t> order;
    for (ProtoWire entry(w.bytes); entry.next();) {
      if (entry.field == 1) computation = entry.integer();
      if (entry.field != 2) continue;
      for (ProtoWire sequence(entry.bytes); sequence.next();) {
        if (sequence.field == 1) sequence.append_to(order);
      }
    }
    const auto it = computations_.find(computation);
    if (it != computations_.end() && !order.empty()) it->second.order = std::move(order);
  }
}

void HloModule::flatten(std::int64_t computation, int depth) {
  constexpr int kDeepest = 32;
  constexpr std::size_t kMaxLaunches = 4'000'000;
  const auto it = computations_.find(computation);
  if (it == computations_.end() || depth > kDeepest) return;
  for (const std::int64_t id : it->second.order) {
    const HloInstruction* in = at(id);
    if (in == nullptr || launches.size() > kMaxLaunches) continue;
    const bool inlined = is_one_of(in->opcode, "while conditional call async-start");
    if (inlined) {
      const auto begin = static_cast<std::uint32_t>(launches.size());
      for (const std::int64_t called : in->calls) flatten(called, depth + 1);
      const auto end = static_cast<std::uint32_t>(launches.size());
      if (in->opcode == "while" && begin < end) loops.push_back({begin, end});
      continue;
    }
    const HloKind kind = kind_of(*in);
    if (kind == HloKind::kNothing) continue;
    Launch launch;
    launch.instruction = in;
    launch.kind = kind;
    launch.kernel = in->name;
    std::replace_if(launch.kernel.begin(), launch.kernel.end(), [](char c) { return c == '.' || c == '-'; }, '_');
    launch.work = describe(*in, kind);
    if (kind == HloKind::kCollective) launch.message = message_of(*in);
    by_name_.try_emplace(in->name, static_cast<std::uint32_t>(launches.size()));
    launches.push_back(std::move(launch));
  }
}

// The same numbers elsewhere, in another order or type.
bool HloModule::moves_only(const HloInstruction& in) const {
  if (in.operands.empty()) return false;
  if (is_one_of(in.opcode, "bitcast copy convert transpose get-tuple-element")) return true;
  const std::uint32_t launch = in.opcode == "fusion" && in.operands.size() == 1 ? find(in.name) : kNone;
  return launch != kNone && launches[launch].work.family == "copy";
}

// Trained parameters are inputs that forward or backward reads and the update too; a batch is not updated, and an
// optimizer's states are read by the update only.
void HloModule::count_parameters() {
  std::map<std::int64_t, int> read;  // 1: by a pass, 2: by the update
  const auto mark = [&](std::int64_t id, int by) {
    for (int depth = 0; depth < 8; ++depth) {
      const HloInstruction* in = at(id);
      if (in == nullptr) return;
      if (in->opcode == "parameter") {
        read[id] |= by;
        return;
      }
      if (!moves_only(*in)) return;
      id = in->operands.front();
    }
  };
  for (const Launch& launch : launches) {
    const bool update = launch.work.phase == "optimizer";
    if (!update && moves_only(*launch.instruction)) continue;
    for (const std::int64_t operand : launch.instruction->operands) mark(operand, update ? 2 : 1);
  }
  // What goes into a loop is read by its turns; updates are not in loops.
  for (const auto& [id, loop] : instructions_) {
    if (loop.opcode != "while" || loop.operands.empty()) continue;
    const HloInstruction* begin = at(loop.operands.front());
    if (begin == nullptr || begin->opcode != "tuple") continue;
    for (const std::int64_t part : begin->operands) mark(part, 1);
  }
  for (const auto& [id, by] : read) {
    const HloInstruction* in = at(id);
    if (by == 1 && in->shape.type != kTuple) read_only_.push_back(id);
    if (by != 3 || in->shape.type == kTuple || in->shape.elements() < 2) continue;
    parameter_elements = saturated_sum(parameter_elements, in->shape.elements());
    ++parameter_tensors;
  }
}

// A copy or cast of parameters alone, however it was named.
bool HloModule::of_parameters(const HloInstruction& in, int depth) const {
  if (in.operands.empty() || depth > 4) return false;
  return std::all_of(in.operands.begin(), in.operands.end(), [&](std::int64_t id) {
    const HloInstruction* operand = at(id);
    if (operand == nullptr) return false;
    if (operand->opcode == "parameter") return operand->shape.dims.size() > 1 || operand->shape.elements() == 1;
    return operand->opcode == "constant" ||
           (is_one_of(operand->opcode, "bitcast copy convert transpose") && of_parameters(*operand, depth + 1));
  });
}

// What one rank brings is what the operands hold; the result of an asynchronous start repeats them.
HloMessage HloModule::message_of(const HloInstruction& in) const {
  HloMessage out;
  double bytes = 0;
  std::int64_t elements = 0;
  bool alike = true;
  for (const std::int64_t id : in.operands) {
    const HloInstruction* operand = at(id);
    if (operand == nullptr || operand->shape.type == kTuple || operand->shape.bytes() <= 0) continue;
    const std::string_view type = hlo_type_name(operand->shape.type);
    if (out.dtype.empty()) out.dtype = type;
    alike = alike && out.dtype == type;
    bytes += operand->shape.bytes();
    elements = saturated_sum(elements, operand->shape.elements());
  }
  constexpr double kInt64Limit = 9e18;  // larger values do not fit into 64 bits
  if (!alike) {
    out.dtype = "u8";
    elements = bytes < kInt64Limit ? static_cast<std::int64_t>(bytes) : 0;
  }
  out.sent = out.received = elements;
  const std::string_view op = in.opcode;
  const std::int64_t ranks = std::max<std::int64_t>(0, in.groups);
  if (op.starts_with("all-gather") && (ranks == 0 || __builtin_mul_overflow(elements, ranks, &out.received))) {
    out.received = op == "all-gather" ? in.shape.elements() : 0;
  }
  if (op.starts_with("reduce-scatter")) out.received = ranks > 0 ? elements / ranks : 0;
  return out;
}

}  // namespace foretrace::trace
