#pragma once
// Column<T>: an append-only array of plain values that grows with realloc. For large blocks glibc moves pages instead
// of bytes, so growing a 10 GB column neither copies it nor needs room for two of it, and capacity that was never
// written is never resident. That is what keeps an import at columns + a constant (std::vector peaks at twice that).

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

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

}  // namespace foretrace
