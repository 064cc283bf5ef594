// Chakra execution traces (MLCommons, et_def.proto): protobuf messages, each preceded by its length as a varint. First the metadata of
// the file (version = 1, attr = 2; attr = 1 before there was a version), then nodes: id = 1, name = 2, type = 3, ctrl_deps = 4, data_deps = 5, start_time_micros = 6,
// duration_micros = 7, inputs = 8, attr = 10.
//
// A node is an operation of a thread or work of a GPU (attribute is_cpu_op; without it, everything is the GPU's, as in traces made by
// generators). Work belongs to the operation it depends on. Attributes of the metadata become the trace's, by their names: a file that
// foretrace wrote holds its graph there.
//
// The reference converter writes neither a version nor when a node starts; an operation that launches work is cut into parts, "(0)",
// "(1)" after its name, and GPU work names its stream as `tid`. chakra_schedule.hpp sets the starts.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "trace/importers/chakra_schedule.hpp"
#include "trace/importers/event_rows.hpp"
#include "trace/importers/importer.hpp"
#include "trace/importers/json_text.hpp"
#include "trace/importers/proto_wire.hpp"
#include "trace/importers/stream_records.hpp"

namespace foretrace::trace {
namespace {

/// Takes a number from the front; false when there is none.
bool varint(std::string_view& from, std::uint64_t& value) {
  const char* at = from.data();
  if (!read_varint(at, from.data() + from.size(), value)) return false;
  from.remove_prefix(static_cast<std::size_t>(at - from.data()));
  return true;
}

/// An AttributeProto: name = 1, and a value of whatever type.
struct Attribute {
  std::string_view name, text;
  std::int64_t number = 0;
  bool is_text = false;
};

Attribute attribute(std::string_view message) {
  Attribute out;
  for (ProtoWire f(message); f.next();) {
    if (f.field == 1 && f.packed) {
      out.name = f.bytes;
    } else if (f.field == 29 && f.packed) {
      out.text = f.bytes;
      out.is_text = true;
    } else if (!f.packed && f.field == 3) {
      const double value = f.real();
      out.number = value > -9e18 && value < 9e18 ? static_cast<std::int64_t>(value) : 0;
    } else if (!f.packed && (f.field == 15 || f.field == 17)) {  // sint: the sign is the last bit
      out.number = static_cast<std::int64_t>(f.number >> 1) ^ -static_cast<std::int64_t>(f.number & 1);
    } else if (!f.packed && f.field > 2) {
      out.number = f.integer();
    }
  }
  return out;
}

enum NodeType : std::uint8_t { kMetadataNode = 1, kLoad = 2, kStore = 3, kSend = 5, kReceive = 6, kCollectiveNode = 7 };
constexpr std::array<std::string_view, 10> kCollectives = {"allreduce",      "reduce",    "allgather", "gather",
                                                           "scatter",        "broadcast", "alltoall",  "reduce_scatter",
                                                           "reduce_scatter", "barrier"};

struct Node {
  std::uint64_t id = 0, type = 0, start_us = 0, duration_us = 0;
  std::string_view name, shapes, types, kind, group;
  std::vector<std::int64_t> calls, data_needs;  // ctrl_deps, data_deps
  bool on_cpu = false;
  std::int64_t stream = kAbsent, thread = kAbsent, peer = kAbsent, sequence = kAbsent, cost_ns = kAbsent,
               comm_type = kAbsent, comm_size = kAbsent;
};

bool read_node(std::string_view message, Node& node) {
  ProtoWire f(message);
  while (f.next()) {
    if (f.field == 1) node.id = f.number;
    if (f.field == 2) node.name = f.bytes;
    if (f.field == 3) node.type = f.number;
    if (f.field == 4) f.append_to(node.calls);
    if (f.field == 5) f.append_to(node.data_needs);
    if (f.field == 6) node.start_us = f.number;
    if (f.field == 7) node.duration_us = f.number;
    for (ProtoWire inputs(f.bytes); f.field == 8 && inputs.next();) {
      if (inputs.field == 2) node.shapes = inputs.bytes;
      if (inputs.field == 3) node.types = inputs.bytes;
    }
    if (f.field != 10) continue;
    const Attribute a = attribute(f.bytes);
    if (a.name == "is_cpu_op") node.on_cpu = a.number != 0;
    if (a.name == "stream") node.stream = a.number;
    if (a.name == "tid") node.thread = a.number;
    if (a.name == "comm_type") node.comm_type = a.number;
    if (a.name == "comm_size") node.comm_size = a.number;
    if (a.name == "comm_src" || a.name == "comm_dst") node.peer = a.number;
    if (a.name == "seq_id") node.sequence = a.number;
    if (a.name == "pg_name") node.group = a.text;
    if (a.name == "foretrace.cost_ns") node.cost_ns = a.number;
    if (a.name == "foretrace.kind") node.kind = a.text;
  }
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 52;  // microseconds: more does not fit into ns
  constexpr auto kLongestNs = static_cast<std::int64_t>(kLongest) * 1000;
  return !f.bad() && node.start_us < kLongest && node.duration_us < kLongest && node.cost_ns < kLongestNs;
}

EventKind kind_of(const Node& node) {
  if (node.type == kMetadataNode) return EventKind::kOther;
  if (node.on_cpu) return node.kind == "call" ? EventKind::kRuntime : EventKind::kOp;
  if (node.name.starts_with("Memcpy") || node.kind == "memcpy" || node.type == kLoad || node.type == kStore) {
    return EventKind::kMemcpy;
  }
  return node.name.starts_with("Memset") || node.kind == "memset" ? EventKind::kMemset : EventKind::kKernel;
}

// "aten::mm" of "aten::mm(1)": the parts of an operation bear its name.
std::string_view operation_name(std::string_view name) {
  if (!name.ends_with(')')) return name;
  const std::size_t open = name.rfind('(');
  const std::string_view number = name.substr(std::min(open, name.size() - 2) + 1);
  const bool part = open != std::string_view::npos && number.size() > 1 &&
                    number.find_first_not_of("0123456789") == number.size() - 1;
  return part ? name.substr(0, open) : name;
}

// Lists of sizes and of types as Python prints them: quotes of one stroke, "Tensor(float)" for "float".
std::string as_json(std::string_view list) {
  std::string out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list.substr(i).starts_with("Tensor(")) {
      i += std::string_view("Tensor(").size() - 1;
    } else if (list[i] != ')') {
      out += list[i] == '\'' ? '"' : list[i];
    }
  }
  return out;
}

// What the collective is called in PyTorch's traces; empty for what is none.
std::string_view collective_name(const Node& node) {
  if (node.type == kSend) return "send";
  if (node.type == kReceive) return "recv";
  if (node.type != kCollectiveNode || node.comm_type < 0) return {};
  const auto type = static_cast<std::size_t>(node.comm_type);
  return type < kCollectives.size() ? kCollectives[type] : std::string_view{};
}

bool is_version(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9' && text.find('.') != std::string_view::npos &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

class Reader {
 public:
  explicit Reader(Trace& trace) : trace_(trace), rows_(trace) {}

  void metadata(std::string_view message) {
    ProtoWire f(message);
    while (f.next()) {
      if (!f.packed || f.field > 2) continue;
      const bool version = f.field == 1 && is_version(f.bytes);
      if (version) add_metadata("chakra_version", f.bytes);
      const Attribute a = version ? Attribute{} : attribute(f.bytes);
      if (a.is_text && !a.name.empty()) add_metadata(std::string(a.name), a.text);
    }
  }

  void node(std::string_view message, std::uint64_t offset) {
    Node node;
    if (!read_node(message, node)) {
      trace_.diagnostics.add("bad_node", Severity::kDataLoss, "nodes that cannot be read", {},
                             static_cast<std::int64_t>(offset));
      return;
    }
    const EventKind kind = kind_of(node);
    const auto id = static_cast<std::int64_t>(node.id);
    place_.try_emplace(id, static_cast<std::uint32_t>(trace_.size()));
    has_starts_ |= node.start_us > 0;
    EventRow row;
    row.start = static_cast<Ns>(node.start_us) * kNsPerUs;
    row.duration = node.cost_ns >= 0 ? node.cost_ns : static_cast<Ns>(node.duration_us) * kNsPerUs;
    row.name = trace_.strings.intern(make_valid_utf8(kind == EventKind::kOp ? operation_name(node.name) : node.name));
    row.lane = lane(node, kind);
    row.args = trace_.args.intern(make_valid_utf8(arguments(node, kind)));
    row.category = rows_.category(to_string(kind), kind);
    if (kind == EventKind::kOp) {
      row.external_id = id;
      row.side = EventRows::side(trace_.op_ids, OpIds{kAbsent, node.sequence < 0 ? kAbsent : node.sequence, kAbsent});
    }
    scheduled_.push_back({row.lane.value, row.duration, std::move(node.data_needs)});
    needs_.emplace_back();
    if (is_gpu_work(kind)) {
      // The operation that launched it is the first one it takes data from, else the one that called it.
      needs_.back() = scheduled_.back().data_deps;
      needs_.back().insert(needs_.back().end(), node.calls.begin(), node.calls.end());
    }
    rows_.add(row);
  }

  /// What is known once all nodes are: whose work it is, and when it ran.
  void link() {
    const bool set = !has_starts_ && trace_.size() > 0;
    if (set) set_starts();
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> launched;  // by operation
    std::vector<std::uint32_t> launching;  // those operations, in the order of the file
    for (std::uint32_t row = 0; row < needs_.size(); ++row) {
      const std::uint32_t by = operation_among(needs_[row]);
      if (by == kNone) continue;
      trace_.events.external_id[row] = trace_.events.external_id[by];
      auto& works = launched[by];
      if (works.empty()) launching.push_back(by);
      works.push_back(row);
    }
    for (std::size_t i = 0; set && i < launching.size(); ++i) add_launches(launching[i], launched[launching[i]]);
  }

 private:
  static constexpr Ns kNsPerUs = 1000;  // units
  static constexpr std::int64_t kProcess = 1, kStream = 7, kNetworkStream = 20;

  void add_metadata(const std::string& key, std::string_view text) {
    trace_.metadata.emplace_back(make_valid_utf8(key), quoted_json(text));
  }

  [[nodiscard]] std::uint32_t operation_among(const std::vector<std::int64_t>& ids) const {
    for (const std::int64_t id : ids) {
      const auto it = place_.find(id);
      if (it != place_.end() && trace_.kind(it->second) == EventKind::kOp) return it->second;
    }
    return kNone;
  }

  void set_starts() {
    const std::size_t cyclic = schedule(scheduled_, place_);
    for (std::size_t row = 0; row < scheduled_.size(); ++row) trace_.events.start[row] = scheduled_[row].start;
    trace_.diagnostics.add("starts_from_dependencies", Severity::kInfo,
                           "the file does not say when its nodes start: each starts when what it depends on has ended");
    if (cyclic > 0) {
      trace_.diagnostics.add("cyclic_dependencies", Severity::kDataLoss, "nodes whose dependencies form a cycle",
                             fmt::format("{} nodes", cyclic), 0);
    }
  }

  // The operation calls the GPU in its last microsecond, the unit of the file. The call is no node, and so no event of the file.
  void add_launches(std::uint32_t by, const std::vector<std::uint32_t>& works) {
    const Ns end = trace_.end(by);
    const Ns each = std::min(kNsPerUs, trace_.events.duration[by] / static_cast<Ns>(works.size() + 1));
    for (std::size_t i = 0; i < works.size(); ++i) {
      EventRow row;
      row.start = end - each * static_cast<Ns>(works.size() - i);
      row.duration = each;
      row.name = trace_.strings.intern("(launch)");
      row.lane = trace_.events.lane[by];
      row.category = rows_.category("launch", EventKind::kRuntime);
      row.correlation = trace_.events.correlation[works[i]] = ++launches_;
      row.external_id = trace_.events.external_id[by];
      rows_.add(row);
    }
  }

  static std::string arguments(const Node& node, EventKind kind) {
    std::string out = "{";
    const auto add = [&](std::string_view key, std::string_view json) {
      out += fmt::format("{}\"{}\": {}", out.size() > 1 ? ", " : "", key, json);
    };
    if (kind == EventKind::kOp && node.shapes.starts_with('[')) {
      add("Input Dims", as_json(node.shapes));
      if (node.types.starts_with('[')) add("Input type", as_json(node.types));
    }
    if (const std::string_view name = collective_name(node); !name.empty()) {
      add("Collective name", fmt::format("\"{}\"", name));
      if (node.comm_size >= 0) {  // Chakra counts bytes
        add("In msg nelems", fmt::format("{}", node.comm_size));
        add("Out msg nelems", fmt::format("{}", node.comm_size));
        add("dtype", "\"Byte\"");
      }
      if (!node.group.empty()) add("Process Group Name", quoted_json(node.group));
      if (node.peer >= 0) add(node.type == kSend ? "Dst Rank" : "Src Rank", fmt::format("{}", node.peer));
    }
    return out + "}";
  }

  LaneId lane(const Node& node, EventKind kind) {
    const bool gpu = is_gpu_work(kind);
    const bool network = node.type >= kSend && node.type <= kCollectiveNode;
    const std::int64_t number = !gpu                     ? std::max<std::int64_t>(0, node.thread)
                                : node.stream != kAbsent ? node.stream
                                : node.thread != kAbsent ? node.thread
                                : network                ? kNetworkStream
                                                         : kStream;
    return gpu ? rows_.lane(LaneKind::kGpuStream, 0, number) : rows_.lane(LaneKind::kCpuThread, kProcess, number);
  }

  Trace& trace_;
  EventRows rows_;
  std::unordered_map<std::int64_t, std::uint32_t> place_;  // by id
  std::vector<ScheduledNode> scheduled_;
  std::vector<std::vector<std::int64_t>> needs_;  // of GPU work
  bool has_starts_ = false;
  std::int64_t launches_ = 0;
};

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f; });
}

/// Whether an AttributeProto begins here: a name, and a value of one of its types.
bool begins_attribute(std::string_view text) {
  std::uint64_t size = 0;
  if (text.empty() || text[0] != 0x0A) return false;
  text.remove_prefix(1);
  constexpr std::size_t kLongestName = 256;
  if (!varint(text, size) || size > kLongestName || size >= text.size()) return false;
  if (!is_word(text.substr(0, static_cast<std::size_t>(size)))) return false;
  text.remove_prefix(static_cast<std::size_t>(size));
  std::uint64_t tag = 0;
  constexpr std::uint64_t kFirstValue = 2, kLastValue = 32;  // doc_string may come first
  return varint(text, tag) && tag >> 3 >= kFirstValue && tag >> 3 <= kLastValue;
}

/// Whether a Node begins here: its id, which is left out where it is 0, and its name.
bool begins_node(std::string_view text) {
  std::uint64_t number = 0;
  if (!text.empty() && text[0] == 0x08) {
    text.remove_prefix(1);
    if (!varint(text, number)) return false;
  }
  if (text.empty() || text[0] != 0x12) return false;
  text.remove_prefix(1);
  return varint(text, number) && number > 0 &&
         is_word(text.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(number, text.size()))));
}

/// The metadata begins with a version ("0.0.4", "1.1.1-chakra.0.0.4") or an attribute, or is empty and a node follows.
int sniff(std::string_view head) {
  constexpr int kSure = 90, kLikely = 30;
  std::uint64_t length = 0, size = 0;
  if (!varint(head, length)) return 0;
  if (length == 0) return varint(head, size) && size > 2 && begins_node(head) ? kLikely : 0;
  const bool first_field = !head.empty() && (head[0] == 0x0A || head[0] == 0x12);
  if (!first_field || length < 3) return 0;
  const bool may_be_version = head[0] == 0x0A;
  head.remove_prefix(1);
  if (!varint(head, size) || size + 2 > length) return 0;
  if (begins_attribute(head)) return kSure;
  constexpr std::size_t kLongestVersion = 64;
  if (!may_be_version || size > kLongestVersion || size > head.size()) return 0;
  return is_version(head.substr(0, static_cast<std::size_t>(size))) ? kSure : 0;
}

Result<Trace> read(ByteSource& source, const std::string& path, const LoadOptions& options) {
  Trace trace;
  trace.path = path;
  trace.format = "chakra";
  Reader reader(trace);
  std::size_t messages = 0;
  const auto take = [&](std::string_view text, std::uint64_t at, bool) -> Result<std::size_t> {
    std::string_view rest = text;
    for (std::uint64_t length = 0; !rest.empty();) {
      std::string_view message = rest;
      if (!varint(message, length) || length > message.size()) break;  // more must be read
      const std::uint64_t offset = at + static_cast<std::uint64_t>(rest.data() - text.data());
      rest = message.substr(static_cast<std::size_t>(length));
      message = message.substr(0, static_cast<std::size_t>(length));
      messages++ == 0 ? reader.metadata(message) : reader.node(message, offset);
    }
    return text.size() - rest.size();
  };
  FORETRACE_TRY(const StreamRest left, read_records(source, trace, options, take));
  if (left.bytes > 0) {
    if (!options.partial) {
      return tl::unexpected(Error{ErrorCode::kUnreadable, "the file ends in the middle of a node", path,
                                  static_cast<std::int64_t>(left.at), "--partial reads what comes before"});
    }
    trace.partial = true;
  }
  reader.link();
  const std::size_t bad = trace.args.decode(trace.strings);
  if (bad > 0) {
    trace.diagnostics.add("bad_shapes", Severity::kDataLoss, "lists of sizes that cannot be read", {}, 0);
  }
  return trace;
}

}  // namespace

Importer chakra_importer() { return {"chakra", "Chakra execution traces, one rank each", ".et .et.gz", sniff, read}; }

}  // namespace foretrace::trace
