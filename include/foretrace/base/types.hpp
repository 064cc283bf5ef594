#pragma once
// Column<T>: an append-only array of plain values that grows with realloc. For large blocks glibc moves pages instead
// of bytes, so growing a 10 GB column neither copies it nor needs room for two of it, and capacity that was never
// written is never resident. That is what keeps an import at columns + a constant (std::vector peaks at twice that).

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace foretrace {

// Time in foretrace is a count of nanoseconds in a signed 64-bit integer: exact, cheap to compare, and wide enough for
// absolute epoch times (1.8e18 of 9.2e18). No time ever passes through floating point on its way into a column; only
// reports divide by 1e6 to print milliseconds.

using Ns = std::int64_t;

inline constexpr Ns kNsPerUs = 1'000;
inline constexpr Ns kNsPerMs = 1'000'000;
inline constexpr Ns kNsPerSecond = 1'000'000'000;

/// Milliseconds for people and JSON.
constexpr double to_ms(Ns ns) { return static_cast<double>(ns) / 1e6; }
/// Microseconds for people and JSON.
constexpr double to_us(Ns ns) { return static_cast<double>(ns) / 1e3; }

/// Where a cost comes from, from best known to least.
enum class Origin : std::uint8_t {
  kMeasured,  ///< as the trace shows it
  kScaled,    ///< a measured cost times a factor
  kModelled,  ///< from measured tables or fitted rates
  kAnalytic,  ///< from a formula alone
};
constexpr std::string_view to_string(Origin origin) {
  constexpr std::string_view kNames[] = {"measured", "scaled", "modelled", "analytic"};
  return kNames[static_cast<std::size_t>(origin)];
}

// Dense, strongly typed ids. An id is an index into one table; the tag keeps a LaneId from being used as a StringId.
//
//   using LaneId = Id<struct LaneTag>;
//   LaneId lane{3u};  lanes[lane.index()];  if (!lane.valid()) return 0;

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

namespace foretrace {

template <class T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;

  Column() = default;
  explicit Column(std::size_t n, T value = T{}) { resize(n, value); }
  Column(const Column& other) { append(other.data_, other.size_); }
  Column(Column&& other) noexcept { swap(other); }
  Column& operator=(Column other) noexcept {
    swap(other);
    return *this;
  }
  ~Column() { std::free(data_); }

  void swap(Column& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] T* data() { return data_; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& back() const { return data_[size_ - 1]; }
  T& back() { return data_[size_ - 1]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  // NOLINTNEXTLINE(google-explicit-constructor): a column is a span of its values
  operator std::span<const T>() const { return {data_, size_}; }
  [[nodiscard]] std::span<const T> span() const { return {data_, size_}; }

  void push_back(T value) {
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = value;
  }
  void append(const T* values, std::size_t n) {
    if (n == 0) return;
    if (size_ + n > capacity_) grow(size_ + n);
    std::memcpy(static_cast<void*>(data_ + size_), values, n * sizeof(T));
    size_ += n;
  }
  /// Room for n more values, to be filled through the returned pointer.
  T* extend(std::size_t n) {
    if (size_ + n > capacity_) grow(size_ + n);
    T* at = data_ + size_;
    size_ += n;
    return at;
  }
  void resize(std::size_t n, T value = T{}) {
    if (n > capacity_) grow(n);
    for (std::size_t i = size_; i < n; ++i) data_[i] = value;
    size_ = n;
  }
  void reserve(std::size_t n) {
    if (n > capacity_) reallocate(n);
  }
  void clear() { size_ = 0; }
  void shrink_to_fit() {
    if (size_ > 0 && size_ < capacity_) reallocate(size_);
  }
  [[nodiscard]] std::size_t bytes() const { return size_ * sizeof(T); }

 private:
  void grow(std::size_t needed) {
    std::size_t next = capacity_ < 64 ? 64 : capacity_ + capacity_ / 2;
    reallocate(next < needed ? needed : next);
  }
  void reallocate(std::size_t capacity) {
    void* p = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
    if (p == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(p);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// Interned strings: each distinct text is stored once and named by a dense id in order of first insertion. Ids are
// therefore a function of the input alone as long as insertion follows the order of the file.

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
