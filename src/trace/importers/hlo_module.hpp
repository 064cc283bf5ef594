#pragma once
// XLA's compiled programs (HloProto in /host:metadata of an xplane file): instructions in the order they are launched, with
// what each computes. Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/compiled_op.hpp"

namespace foretrace::trace {

struct HloShape {
  int type = 0;  ///< xla.PrimitiveType; 13: a tuple
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t>
      innermost_first;  ///< the layout: dimensions as they are in memory; empty: the last is innermost
  std::vector<HloShape> parts;

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] double bytes() const;  ///< of all parts
};
/// "f32", "bf16", "s32", …; "" for what is no array.
std::string_view hlo_type_name(int type);

struct HloInstruction {
  std::string name, opcode, target, op_name;
  HloShape shape;
  std::int64_t id = 0;
  std::int64_t parameter = 0;  ///< of a parameter, which
  std::int64_t element = 0;    ///< of a get-tuple-element, which
  std::vector<std::int64_t> operands, calls;
  std::vector<std::int64_t> dimensions;  ///< of a transpose, broadcast or reduction
  std::string_view config;               ///< backend_config, JSON; is in the bytes the module was read from
  std::string_view dot, window, conv, gather, precision;
  std::int64_t groups = 0;  ///< ranks that take part in a collective
  std::int64_t feature_groups = 1;
};

/// How a GPU runs an instruction.
enum class HloKind : std::uint8_t { kNothing, kGenerated, kLibrary, kCopy, kCollective };

/// What one rank gives to a collective and gets from it, in elements; 0 where the program does not say.
struct HloMessage {
  std::string dtype;  ///< "f32"; "u8" where several types go together
  std::int64_t sent = 0, received = 0;
};

class HloModule {
 public:
  /// From the bytes of an HloProto, which must outlive it. False where they are none.
  bool read(std::string_view proto);

  struct Launch {
    const HloInstruction* instruction = nullptr;
    HloKind kind = HloKind::kNothing;
    std::string kernel;  ///< the name of the kernel the compiler makes of it: "input_reduce_fusion_4"
    CompiledOp work;
    HloMessage message;  ///< of a collective
  };
  std::string name;
  std::vector<Launch> launches;  ///< in the order of the schedule; bodies of loops once
  struct Loop {
    std::uint32_t begin = 0, end = 0;  ///< of `launches`: body and condition of a while instruction
    [[nodiscard]] bool holds(std::uint32_t launch) const { return begin <= launch && launch < end; }
  };
  std::vector<Loop> loops;     ///< inner ones before those around them
  bool has_gradients = false;  ///< some operation is of a backward pass
  std::int64_t parameter_elements = 0,
               parameter_tensors = 0;  ///< inputs that the passes read and the update writes anew

  /// The launch of the instruction called so; kNone where there is none.
  [[nodiscard]] std::uint32_t find(std::string_view instruction) const;

 private:
  friend class HloSamples;
  friend class HloWide;
  struct Computation {
    std::vector<std::int64_t> order;  // instruction ids, as scheduled
    std::int64_t root = -1;
  };
  void read_module(std::string_view bytes);
  void read_schedule(std::string_view bytes);
  void flatten(std::int64_t computation, int depth);
  [[nodiscard]] const HloInstruction* at(std::int64_t id) const;
  CompiledOp describe(const HloInstruction& in, HloKind kind) const;
  /// Instructions of a computation in the order written, operands before what uses them; null: there is none, or calls nest too deep.
  [[nodiscard]] const std::vector<std::int64_t>* body_of(std::int64_t computation, int depth) const;
  [[nodiscard]] HloMessage message_of(const HloInstruction& in) const;
  // hlo_sizes.cpp
  void set_sizes(const HloInstruction& in, CompiledOp& out) const;
  void keep_wide(const HloInstruction& in, CompiledOp& out) const;
  void set_convolution(const HloInstruction& in, CompiledOp& out) const;
  void look_inside(const HloInstruction& fusion, CompiledOp& out, int depth) const;
  using Parts = std::unordered_map<std::int64_t, double>;  // by instruction
  [[nodiscard]] double part_needed(const Computation& body, std::int64_t id, Parts& known) const;
  [[nodiscard]] double part_used(const Computation& body, const HloInstruction& value, Parts& known) const;
  [[nodiscard]] std::int64_t root_of(const Computation& body) const;
  [[nodiscard]] double bytes_written_by(const HloInstruction& in) const;
  [[nodiscard]] double bytes_of_operand(const HloInstruction& in, std::size_t operand) const;
  [[nodiscard]] bool of_parameters(const HloInstruction& in, int depth) const;
  [[nodiscard]] std::string scope_of(const HloInstruction& in) const;
  [[nodiscard]] bool moves_only(const HloInstruction& in) const;
  void count_parameters();
  void follow_samples();  // hlo_samples.cpp
  void follow_types();    // hlo_wide.cpp

  std::unordered_map<std::int64_t, HloInstruction> instructions_;
  std::unordered_map<std::int64_t, Computation> computations_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::vector<std::int64_t> read_only_;  // inputs that the passes read and the update does not
  std::int64_t entry_ = -1;
};

/// DotDimensionNumbers, of a dot or of a library's call.
struct HloDot {
  std::vector<std::int64_t> lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
};
HloDot read_dot(std::string_view bytes);
bool read_config_dot(std::string_view config, HloDot& out);

/// What stands in an operation's scope: "jit(step)/transpose(jvp(block0))/dot_general" -> {"block0", backward}.
struct HloScope {
  std::string layer;
  bool forward = false, backward = false;  ///< neither: outside of what is differentiated
};
HloScope parse_scope(std::string_view op_name);

}  // namespace foretrace::trace
