#pragma once
// Interned strings: each distinct text is stored once and named by a dense id in order of first insertion. Ids are
// therefore a function of the input alone as long as insertion follows the order of the file.

#include <cstdint>
#include <string_view>
#include <vector>

#include "foretrace/base/column.hpp"
#include "foretrace/base/ids.hpp"

namespace foretrace {

class StringTable {
 public:
  /// The id of `text`, inserting it when new. Id 0 is always the empty string.
  StringTable();
  StringId intern(std::string_view text) { return intern(text, hash(text)); }
  StringId intern(std::string_view text, std::uint64_t hash);
  /// The id of `text` if present, an invalid id otherwise.
  [[nodiscard]] StringId find(std::string_view text) const;
  [[nodiscard]] std::string_view operator[](StringId id) const {
    const Entry& e = entries_[id.index()];
    return {arena_.data() + e.offset, e.length};
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t bytes() const {
    return arena_.bytes() + entries_.bytes() + slots_.size() * sizeof(std::uint64_t);
  }
  static std::uint64_t hash(std::string_view text);

 private:
  struct Entry {
    std::uint64_t offset;
    std::uint32_t length;
    std::uint32_t hash_low;
  };
  void rehash(std::size_t slot_count);

  Column<char> arena_;
  Column<Entry> entries_;
  std::vector<std::uint64_t> slots_;  // high 32 bits: part of the hash; low 32 bits: id + 1, 0 when free
};

}  // namespace foretrace
