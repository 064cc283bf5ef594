#include "foretrace/base/types.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <functional>

namespace foretrace {

namespace {
constexpr std::size_t kInitialSlots = 1024;
constexpr std::uint64_t kIdMask = 0xFFFF'FFFFull;
}  // namespace

StringTable::StringTable() : slots_(kInitialSlots, 0) { intern(""); }

std::uint64_t StringTable::hash(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

namespace {

// A part of one of the table's own texts may be interned too; that moves when the arena grows.
void append(Column<char>& arena, std::string_view text) {
  if (text.empty()) return;
  const char* const before = arena.data();
  const bool own =
      before != nullptr && !std::less<>{}(text.data(), before) && std::less<>{}(text.data(), before + arena.size());
  const std::size_t offset = own ? static_cast<std::size_t>(text.data() - before) : 0;
  char* const at = arena.extend(text.size());
  std::memcpy(at, own ? arena.data() + offset : text.data(), text.size());
}

}  // namespace

StringId StringTable::intern(std::string_view text, std::uint64_t hash) {
  const std::uint64_t mask = slots_.size() - 1;
  const std::uint64_t tag = hash & ~kIdMask;
  for (std::uint64_t at = hash & mask;; at = (at + 1) & mask) {
    const std::uint64_t slot = slots_[at];
    if (slot == 0) {
      const auto id = static_cast<std::uint32_t>(entries_.size());
      slots_[at] = tag | (id + 1);
      entries_.push_back({arena_.size(), static_cast<std::uint32_t>(text.size()), static_cast<std::uint32_t>(hash)});
      append(arena_, text);
      if (entries_.size() * 4 > slots_.size() * 3) rehash(slots_.size() * 2);
      return StringId{id};
    }
    if ((slot & ~kIdMask) == tag) {
      const auto id = static_cast<std::uint32_t>((slot & kIdMask) - 1);
      const Entry& e = entries_[id];
      if (e.length == text.size() &&
          (text.empty() || std::memcmp(arena_.data() + e.offset, text.data(), text.size()) == 0)) {
        return StringId{id};
      }
    }
  }
}

StringId StringTable::find(std::string_view text) const {
  const std::uint64_t h = hash(text);
  const std::uint64_t mask = slots_.size() - 1;
  for (std::uint64_t at = h & mask; slots_[at] != 0; at = (at + 1) & mask) {
    if ((slots_[at] & ~kIdMask) != (h & ~kIdMask)) continue;
    const StringId id{static_cast<std::uint32_t>((slots_[at] & kIdMask) - 1)};
    if ((*this)[id] == text) return id;
  }
  return StringId{};
}

void StringTable::rehash(std::size_t slot_count) {
  std::vector<std::uint64_t> old(slot_count, 0);
  old.swap(slots_);
  const std::uint64_t mask = slot_count - 1;
  for (const std::uint64_t slot : old) {
    if (slot == 0) continue;
    // The slot keeps the high half of the hash; the entry keeps the low half, which picks the place.
    std::uint64_t at = entries_[(slot & kIdMask) - 1].hash_low & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace foretrace
