#include "trace/importers/xplane_file.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "trace/importers/json_text.hpp"
#include "trace/importers/xla_names.hpp"

namespace foretrace::trace {

namespace {

XStat stat_of(std::string_view name) {
  static const std::unordered_map<std::string_view, XStat> kKnown = {
      {"correlation_id", XStat::kCorrelation},
      {"context_id", XStat::kContext},
      {"cuda_graph_id", XStat::kGraph},
      {"cuda_graph_node_id", XStat::kNode},
      {"kernel_details", XStat::kKernelDetails},
      {"memcpy_details", XStat::kCopyDetails},
      {"memset_details", XStat::kFillDetails},
      {"Memset_details", XStat::kFillDetails},
      {"hlo_op", XStat::kHloOp},
      {"hlo_module", XStat::kHloModule},
      {"program_id", XStat::kProgram},
      {"step_num", XStat::kStep},
      {"device_id", XStat::kDevice},
      {"addr", XStat::kAddress},
      {"allocation_bytes", XStat::kAllocation},
      {"bytes_allocated", XStat::kAllocated},
      {"bytes_reserved", XStat::kReserved},
      {"Hlo Proto", XStat::kHloProto},
      {"hlo_proto", XStat::kHloProto},
      {"profile_start_time", XStat::kStart},
      {"device_vendor", XStat::kVendor},
      {"gpu_device_name", XStat::kGpuName},
      {"core_count", XStat::kSms},
      {"memory_size", XStat::kMemory},
      {"compute_cap_major", XStat::kMajor},
      {"compute_cap_minor", XStat::kMinor},
  };
  const auto it = kKnown.find(name);
  return it == kKnown.end() ? XStat::kNone : it->second;
}

}  // namespace

// XSpace: planes = 1.
Status XplaneFile::find_planes() {
  ProtoCursor space(file, 0, file.size());
  while (space.next()) {
    if (space.field != 1 || !space.packed) continue;
    XPlane plane{space.begin, space.end, {}, false};
    ProtoCursor inside(file, plane.begin, plane.end);
    while (inside.next()) {
      if (inside.field == 2 && inside.packed && plane.name.empty()) plane.name = make_valid_utf8(inside.bytes());
      plane.has_lines = plane.has_lines || (inside.field == 3 && inside.packed);
    }
    damaged_ = damaged_ || inside.bad();
    cut_ = cut_ || inside.cut();
    planes.push_back(std::move(plane));
  }
  cut_ = cut_ || space.cut();
  damaged_ = damaged_ || space.bad();
  if (!cut_ && !damaged_) return {};
  const char* what = cut_ ? "the file is cut off: it ends inside a message"
                          : "the file is damaged: what should be a "
                            "message is none";
  if (!options_.partial) {
    return fail(ErrorCode::kUnreadable, what, "copy it again; --partial reads what can be read");
  }
  note_truncated(t_, what);
  return {};
}

std::vector<std::size_t> XplaneFile::gpus() const {
  std::vector<std::size_t> out;
  for (std::size_t p = 0; p < planes.size(); ++p) {
    if (planes[p].has_lines && xla_gpu(planes[p].name)) out.push_back(p);
  }
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return *xla_gpu(planes[a].name) < *xla_gpu(planes[b].name); });
  return out;
}

// event_metadata = 4 and stat_metadata = 5 are maps: key = 1, value = 2 {name = 2, stats = 5}.
XplaneFile::Names XplaneFile::read_names(const XPlane& plane) {
  Names names;
  ProtoCursor c(file, plane.begin, plane.end);
  while (c.next()) {
    if ((c.field != 4 && c.field != 5) || !c.packed) continue;
    std::uint64_t key = 0;
    std::string_view name;
    for (ProtoWire entry(c.bytes()); entry.next();) {
      if (entry.field == 1) key = entry.number;
      for (ProtoWire value(entry.bytes); entry.field == 2 && value.next();) {
        if (value.field == 2) name = value.bytes;
      }
    }
    const StringId id = t_.strings.intern(valid(name));
    if (c.field == 4) {
      names.events[key] = id;
    } else {
      names.texts[key] = id;
      if (const XStat stat = stat_of(name); stat != XStat::kNone) names.stats[key] = stat;
    }
  }
  return names;
}

std::string_view XplaneFile::valid(std::string_view text) {
  if (is_ascii(text)) return text;
  valid_ = make_valid_utf8(text);
  return valid_;
}

// XStat: metadata_id = 1, double = 2, uint64 = 3, int64 = 4, str = 5, bytes = 6, ref = 7.
bool XplaneFile::read_stat(std::string_view bytes, const Names& names, XStatValue& out) {
  out = {};
  for (ProtoWire w(bytes); w.next();) {
    if (w.field == 1) {
      out.what = names.stats.find(w.number);
      if (out.what == XStat::kNone) return false;
    } else if (w.field == 2) {
      const double real = w.real();
      constexpr double kInt64Limit = 9e18;  // larger values do not fit into 64 bits
      if (real > -kInt64Limit && real < kInt64Limit) out.number = static_cast<std::int64_t>(real);
    } else if (w.field == 3 || w.field == 4) {
      out.number = w.integer();
    } else if (w.field == 5 || w.field == 6) {
      out.text = w.bytes;
      out.number = xla_number(w.bytes);
    } else if (w.field == 7) {
      out.kept = names.texts.find(w.number);
    }
  }
  return out.what != XStat::kNone;
}

// XLine: id = 1, name = 2, timestamp_ns = 3, events = 4, display_id = 10, display_name = 11.
XplaneFile::Line XplaneFile::read_line(std::uint64_t begin, std::uint64_t end) {
  Line line;
  bool timed = false;
  ProtoCursor c(file, begin, end);
  while (c.next()) {
    // Writers put fields in the order of their numbers: behind all three come the events, which are gone over once more.
    if (c.field == 4 && timed && !line.name.empty() && line.id != 0) break;
    timed = timed || c.field == 3;
    if (c.field == 1) line.id = static_cast<std::int64_t>(c.number & 0xFFFF'FFFF);  // as the JSON has it
    if (c.field == 3) line.start = static_cast<Ns>(c.number);
    if (c.field == 2 && c.packed) line.name = valid(c.bytes());
  }
  return line;
}

}  // namespace foretrace::trace
