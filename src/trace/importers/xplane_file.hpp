#pragma once
// XLA's xplane files as messages: planes of lines of events, and the names they refer to. Field numbers are those of
// tsl/profiler/protobuf/xplane.proto. What rows they become is xplane.cpp's.
//
// Metadata stands behind the lines that refer to it, so that a plane is gone over twice.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/importers/importer.hpp"
#include "trace/importers/proto_wire.hpp"

namespace foretrace::trace {

struct XPlane {
  std::uint64_t begin = 0, end = 0;
  std::string name;
  bool has_lines = false;
};

// Stats that mean something here; all others are left alone.
enum class XStat : std::uint8_t {
  kNone,
  kCorrelation,
  kContext,
  kGraph,
  kNode,
  kKernelDetails,
  kCopyDetails,
  kFillDetails,
  kHloOp,
  kHloModule,
  kProgram,
  kStep,
  kDevice,
  kAddress,
  kAllocation,
  kAllocated,
  kReserved,
  kHloProto,
  kStart,
  kVendor,
  kGpuName,
  kSms,
  kMemory,
  kMajor,
  kMinor
};
/// One stat of an event or a plane: a number, or a text (its own or one the plane keeps).
struct XStatValue {
  XStat what = XStat::kNone;
  std::int64_t number = 0;
  std::string_view text;
  StringId kept;  ///< where the text is one of the plane's
};

class XplaneFile {
 public:
  XplaneFile(SeekableSource& source, Trace& trace, const LoadOptions& options)
      : file(source), t_(trace), options_(options) {}

  ProtoFile file;
  std::vector<XPlane> planes;
  std::uint64_t bad_events = 0;

  /// The planes of the file. An error where it is cut off or damaged, unless that is allowed.
  Status find_planes();
  /// Those of GPUs with rows, by number.
  [[nodiscard]] std::vector<std::size_t> gpus() const;

  // What the events of a plane refer to.
  struct Names {
    std::unordered_map<std::uint64_t, StringId> events, texts;
    std::unordered_map<std::uint64_t, XStat> stats;
  };

  Names read_names(const XPlane& plane);
  struct Line {
    std::int64_t id = 0;
    std::string name;
    Ns start = 0;
  };
  Line read_line(std::uint64_t begin, std::uint64_t end);
  static bool read_stat(std::string_view bytes, const Names& names, XStatValue& out);
  StringId text_of(const XStatValue& stat) {
    return stat.kept.valid() ? stat.kept : t_.strings.intern(valid(stat.text));
  }
  /// The text where it is UTF-8, else a copy made so, good until the next call.
  std::string_view valid(std::string_view text);

  // XEvent: metadata_id = 1, offset_ps = 2, duration_ps = 3, stats = 4.
  struct Event {
    Ns start = 0, duration = 0;
    StringId name;
  };
  template <class OnStat>
  bool read_event(std::string_view bytes, const Names& names, const Line& line, Event& out, OnStat on_stat) {
    constexpr std::int64_t kPsPerNs = 1000;
    std::int64_t offset = 0;
    std::int64_t length = 0;
    std::uint64_t name = 0;
    ProtoWire w(bytes);
    while (w.next()) {
      if (w.field == 1) name = w.number;
      if (w.field == 2) offset = w.integer();
      if (w.field == 3) length = w.integer();
      if (w.field != 4) continue;
      XStatValue stat;
      if (read_stat(w.bytes, names, stat)) on_stat(stat);
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 61;
    if (w.bad() || offset < -kMost || offset > kMost || length < 0 || length > kMost || line.start < -kMost ||
        line.start > kMost) {
      ++bad_events;
      return false;
    }
    const auto it = names.events.find(name);
    out.name = it == names.events.end() ? t_.strings.intern(fmt::format("(event {})", name)) : it->second;
    out.start = line.start + offset / kPsPerNs;
    out.duration = (offset + length) / kPsPerNs - offset / kPsPerNs;
    return true;
  }

  template <class OnEvent>
  void each_event(std::uint64_t begin, std::uint64_t end, OnEvent on_event) {
    ProtoCursor c(file, begin, end);
    while (c.next()) {
      if (c.field != 4 || !c.packed || c.cut()) continue;
      if (++events_ % 65536 == 0 && options_.progress) {
        options_.progress("reading " + t_.path, c.end, file.size(), kBytes);
      }
      on_event(c.bytes());
    }
  }

  template <class OnStat>
  void each_plane_stat(const XPlane& plane, const Names& names, OnStat on_stat) {
    ProtoCursor c(file, plane.begin, plane.end);
    while (c.next()) {
      XStatValue stat;
      if (c.field == 6 && c.packed && read_stat(c.bytes(), names, stat)) on_stat(stat);
    }
  }

 private:
  Trace& t_;
  const LoadOptions& options_;
  std::string valid_;
  std::uint64_t events_ = 0;
  bool cut_ = false, damaged_ = false;
};

}  // namespace foretrace::trace
