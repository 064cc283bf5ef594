// A Chakra execution trace (MLCommons; schema et_def.proto): protobuf messages, each preceded by its length, first the metadata of
// the file, then one node per task. What orders a lane is a control dependency, everything else a data dependency.
//
// Chakra counts whole microseconds and knows no distances between tasks; exact costs are in attributes of ours, and the graph itself
// in the metadata, so that foretrace reads back what it wrote.

#include <algorithm>
#include <array>
#include <bit>

#include "foretrace/analysis/baseline.hpp"
#include "hardware/collective.hpp"
#include "report/exporter.hpp"
#include "work/op_view.hpp"

namespace foretrace::report {
namespace {

enum NodeType : std::uint8_t { kMetadata = 1, kCompute = 4, kCollective = 7 };

/// A message of protobuf, field by field.
class Message {
 public:
  Message& number(std::uint32_t field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Message& text(std::uint32_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    out_ += value;
    return *this;
  }
  /// Repeated numbers, packed as proto3 does.
  Message& numbers(std::uint32_t field, const std::vector<std::uint64_t>& values) {
    if (values.empty()) return *this;
    Message packed;
    for (const std::uint64_t v : values) packed.varint(v);
    return text(field, packed.out_);
  }
  [[nodiscard]] const std::string& bytes() const { return out_; }
  /// Behind its length, as messages follow each other in a file.
  void append_to(std::string& file) const {
    Message length;
    length.varint(out_.size());
    file += length.out_ + out_;
  }

 private:
  void varint(std::uint64_t value) {
    for (; value > 0x7F; value >>= 7) out_ += static_cast<char>((value & 0x7F) | 0x80);
    out_ += static_cast<char>(value);
  }
  std::string out_;
};

// AttributeProto: name = 1, and one of these values.
constexpr std::uint32_t kInt64 = 9, kUint64 = 13, kBool = 27, kString = 29;

std::string number_attribute(std::string_view name, std::uint32_t type, std::uint64_t value) {
  return Message().text(1, name).number(type, value).bytes();
}
std::string text_attribute(std::string_view name, std::string_view value) {
  return Message().text(1, name).text(kString, value).bytes();
}

/// CollectiveCommType, by what names of collectives and of their kernels hold; ALL_REDUCE where nothing is known.
std::uint64_t collective_type(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_' && c != '-') plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  constexpr std::uint64_t kBarrier = 9;
  constexpr std::array<std::uint64_t, hardware::kCollectives> kTypes = {0, 2, 7, 5, 1, 6, 0, 3, 4};
  if (plain.find("barrier") != std::string::npos) return kBarrier;
  const std::optional<hardware::Collective> kind = hardware::collective_in(plain);
  return kind ? kTypes[static_cast<std::size_t>(*kind)] : 0;
}

/// Four where the type is unknown.
std::int64_t bytes_of(std::string_view type) {
  const std::int64_t bytes = work::recorded_bytes(type);
  return bytes > 0 ? bytes : 4;
}

constexpr Ns kNsPerMicro = 1000;
std::uint64_t micros(Ns ns) { return static_cast<std::uint64_t>(std::max<Ns>(0, ns + kNsPerMicro / 2) / kNsPerMicro); }

class Writer {
 public:
  explicit Writer(const ExportInput& input) : in_(input), g_(input.step.graph), before_(predecessors(g_)) {}

  std::string run() {
    std::string file;
    Message metadata;
    metadata.text(1, "0.0.4");
    metadata.text(2, text_attribute("schema", "foretrace"));
    metadata.text(2, text_attribute("step", g_.step_name));
    metadata.text(2, text_attribute(analysis::kGraphKey, graph::dump(g_)));
    metadata.append_to(file);
    for (std::uint32_t t = 0; t < g_.size(); ++t) node(t).append_to(file);
    return file;
  }

 private:
  [[nodiscard]] Message node(std::uint32_t t) const {
    const bool gpu = graph::is_gpu(g_.kind[t]);
    const graph::GraphLane& lane = g_.lanes[g_.lane[t]];
    Message out;
    out.number(1, t + 1);  // 0 would not be written: proto3 leaves it out
    out.text(2, g_.task_name(t).empty() ? to_string(g_.kind[t]) : g_.task_name(t));
    const bool collective = g_.kind[t] == graph::TaskKind::kCollective;
    const bool nothing = g_.kind[t] == graph::TaskKind::kBegin || g_.kind[t] == graph::TaskKind::kWait;
    out.number(3, collective ? kCollective : nothing ? kMetadata : kCompute);
    std::vector<std::uint64_t> order, data;
    for (const Predecessor& p : before_[t]) {
      (p.kind == graph::DependencyKind::kLane ? order : data).push_back(p.task + 1);
    }
    std::sort(data.begin(), data.end());
    data.erase(std::unique(data.begin(), data.end()), data.end());
    out.numbers(4, order).numbers(5, data);
    out.number(6, micros(in_.step.start(t))).number(7, micros(g_.cost[t]));
    if (const std::string shapes = inputs(t); !shapes.empty()) out.text(8, shapes);
    out.text(10, number_attribute("is_cpu_op", kBool, gpu ? 0 : 1));
    out.text(10, number_attribute("foretrace.cost_ns", kInt64, static_cast<std::uint64_t>(g_.cost[t])));
    out.text(10, text_attribute("foretrace.kind", to_string(g_.kind[t])));
    if (gpu && lane.stream >= 0)
      out.text(10, number_attribute("stream", kInt64, static_cast<std::uint64_t>(lane.stream)));
    if (!gpu) out.text(10, number_attribute("tid", kUint64, g_.lane[t]));
    if (collective) add_collective(out, t);
    return out;
  }

  void add_collective(Message& out, std::uint32_t t) const {
    const trace::CollectiveInfo* info = nullptr;
    if (in_.events != nullptr && g_.event[t].valid()) {
      info = in_.events->args.collective(in_.events->events.args[g_.event[t].index()]);
    }
    std::string_view name = g_.task_name(t);
    std::uint64_t bytes = 0;
    if (info != nullptr) {
      const StringTable& strings = in_.events->strings;
      if (info->name.valid()) name = strings[info->name];
      const std::int64_t elements = std::max(info->in_elements, info->out_elements);
      const std::string_view type = info->dtype.valid() ? strings[info->dtype] : std::string_view{};
      if (elements > 0) bytes = static_cast<std::uint64_t>(elements * bytes_of(type));
      if (info->group.valid()) out.text(10, text_attribute("pg_name", strings[info->group]));
    }
    out.text(10, number_attribute("comm_type", kInt64, collective_type(name)));
    out.text(10, number_attribute("comm_size", kInt64, bytes));
  }

  /// IOInfo of what the operation behind a task takes: values = 1, shapes = 2, types = 3.
  [[nodiscard]] std::string inputs(std::uint32_t t) const {
    if (in_.events == nullptr || !g_.op[t].valid()) return {};
    const trace::OpInputs* found = in_.events->args.inputs(in_.events->events.args[g_.op[t].index()]);
    if (found == nullptr) return {};
    const StringTable& strings = in_.events->strings;
    Message out;
    if (found->dims.valid()) out.text(2, strings[found->dims]);
    if (found->types.valid()) out.text(3, strings[found->types]);
    return out.bytes();
  }

  const ExportInput& in_;
  const graph::Graph& g_;
  std::vector<std::vector<Predecessor>> before_;
};

std::string write_chakra(const ExportInput& input) { return Writer(input).run(); }

}  // namespace

Exporter chakra_exporter() {
  return {"chakra", "a Chakra execution trace: one node per task, with its dependencies", ".et .et.gz",
          "simulators that take Chakra traces read it (one file per rank: NAME.0.et)", write_chakra};
}

}  // namespace foretrace::report
