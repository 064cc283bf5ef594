#pragma once
// Dense, strongly typed ids. An id is an index into one table; the tag keeps a LaneId from being used as a StringId.
//
//   using LaneId = Id<struct LaneTag>;
//   LaneId lane{3u};  lanes[lane.index()];  if (!lane.valid()) return 0;

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace foretrace {

/// "There is none", in every table of indices: no table has a row of this number.
inline constexpr std::uint32_t kNone = 0xFFFF'FFFFu;

template <class Tag>
struct Id {
  std::uint32_t value = kNone;

  constexpr Id() = default;
  constexpr explicit Id(std::uint32_t v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::uint32_t>(v)) {}
  [[nodiscard]] constexpr std::size_t index() const { return value; }
  [[nodiscard]] constexpr bool valid() const { return value != kNone; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using StringId = Id<struct StringTag>;  // StringTable
using EventId = Id<struct EventTag>;    // a row of trace::Events
using LaneId = Id<struct LaneTag>;      // trace::Lane
using ArgsId = Id<struct ArgsTag>;      // a distinct argument tuple, trace::ArgsTable
using TaskId = Id<struct TaskTag>;      // graph::Graph

}  // namespace foretrace

template <class Tag>
struct std::hash<foretrace::Id<Tag>> {
  std::size_t operator()(foretrace::Id<Tag> id) const noexcept { return id.value; }
};
