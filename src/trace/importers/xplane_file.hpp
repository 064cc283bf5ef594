#pragma once
// XLA's xplane files as messages: planes of lines of events, and the names they refer to. Field numbers are those of
// tsl/profiler/protobuf/xplane.proto. What rows they become is xplane.cpp's.
//
// Metadata follows the lines that refer to it, so a plane is read twice.

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
  kMinor,
  kCount
};
/// One stat of an event or a plane: a number, or a text (its own or one the plane keeps).
struct XStatValue {
  XStat what = XStat::kNone;
  std::int64_t number = 0;
  std::string_view text;
  StringId kept;  ///< where the text is one of the plane's
};

/// The stats of one event or plane, by what they mean; the last of a kind counts.
class XStats {
 public:
  void clear() { seen_ = 0; }
  void put(const XStatValue& stat) {
    values_[static_cast<std::size_t>(stat.what)] = stat;
    seen_ |= bit(stat.what);
  }
  [[nodiscard]] bool has(XStat what) const { return (seen_ & bit(what)) != 0; }
  [[nodiscard]] std::int64_t number(XStat what, std::int64_t otherwise) const {
    return has(what) ? at(what).number : otherwise;
  }
  [[nodiscard]] const XStatValue& at(XStat what) const { return values_[static_cast<std::size_t>(what)]; }

 private:
  static std::uint64_t bit(XStat what) { return std::uint64_t{1} << static_cast<unsigned>(what); }
  std::array<XStatValue, static_cast<std::size_t>(XStat::kCount)> values_;
  std::uint64_t seen_ = 0;
};

/// Ids of a plane's metadata: counted up from 1, so that a place in a list finds them, and few are far beyond.
template <class T>
class MetadataIds {
 public:
  T& operator[](std::uint64_t id) {
    if (id >= kDenseIds) return sparse_[id];
    if (id >= dense_.size())
      dense_.resize(static_cast<std::size_t>(std::max<std::uint64_t>(id + 1, 2 * dense_.size())));
    return dense_[static_cast<std::size_t>(id)];
  }
  /// The value of this id; a default T where there is none.
  [[nodiscard]] T find(std::uint64_t id) const {
    if (id < dense_.size()) return dense_[static_cast<std::size_t>(id)];
    const auto it = id < kDenseIds ? sparse_.end() : sparse_.find(id);
    return it == sparse_.end() ? T{} : it->second;
  }

 private:
  static constexpr std::uint64_t kDenseIds = 1 << 18;
  std::vector<T> dense_;
  std::unordered_map<std::uint64_t, T> sparse_;
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
    MetadataIds<StringId> events, texts;
    MetadataIds<XStat> stats;
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

  /// The id of a stat's text; not valid where it has no such stat.
  StringId text_of(const XStats& stats, XStat what) { return stats.has(what) ? text_of(stats.at(what)) : StringId{}; }

  // XEvent: metadata_id = 1, offset_ps = 2, duration_ps = 3, stats = 4.
  struct Event {
    Ns start = 0, duration = 0;
    StringId name;
    XStats stats;  ///< their texts live as long as the event's bytes
  };
  bool read_event(std::string_view bytes, const Names& names, const Line& line, Event& out) {
    out.stats.clear();
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
      if (read_stat(w.bytes, names, stat)) out.stats.put(stat);
    }
    constexpr std::int64_t kLatestTime = std::int64_t{1} << 61;
    if (w.bad() || offset < -kLatestTime || offset > kLatestTime || length < 0 || length > kLatestTime ||
        line.start < -kLatestTime || line.start > kLatestTime) {
      ++bad_events;
      return false;
    }
    out.name = names.events.find(name);
    if (!out.name.valid()) out.name = t_.strings.intern(fmt::format("(event {})", name));
    out.start = line.start + offset / kPsPerNs;
    out.duration = (offset + length) / kPsPerNs - offset / kPsPerNs;
    return true;
  }

  /// The lines of a plane, with the place of their messages.
  template <class OnLine>
  void each_line(const XPlane& plane, OnLine on_line) {
    ProtoCursor c(file, plane.begin, plane.end);
    while (c.next()) {
      if (c.field == 3 && c.packed) on_line(read_line(c.begin, c.end), c.begin, c.end);
    }
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

  /// Those of the plane itself, texts as ids: its bytes do not stay.
  XStats plane_stats(const XPlane& plane, const Names& names) {
    XStats out;
    ProtoCursor c(file, plane.begin, plane.end);
    while (c.next()) {
      XStatValue stat;
      if (c.field != 6 || !c.packed || !read_stat(c.bytes(), names, stat)) continue;
      if (!stat.text.empty()) stat.kept = text_of(stat);
      stat.text = {};
      out.put(stat);
    }
    return out;
  }

 private:
  Trace& t_;
  const LoadOptions& options_;
  std::string valid_;
  std::uint64_t events_ = 0;
  bool cut_ = false, damaged_ = false;
};

}  // namespace foretrace::trace
