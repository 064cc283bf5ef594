#pragma once
// Columns of the library as NumPy arrays, without copying.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <type_traits>
#include <utility>

#include "foretrace/base/types.hpp"

namespace foretrace::python {

/// What a value of a column is in NumPy: ids and enumerations are the integers behind them.
template <class T>
struct Plain {
  using type = T;
};
template <class Tag>
struct Plain<Id<Tag>> {
  using type = std::uint32_t;
};
template <class T>
  requires std::is_enum_v<T>
struct Plain<T> {
  using type = std::underlying_type_t<T>;
};

/// A read-only NumPy array over memory of `owner`, which it keeps alive.
template <class T>
nanobind::object view(nanobind::handle owner, const T* data, std::size_t size) {
  using Value = typename Plain<T>::type;
  static_assert(sizeof(Value) == sizeof(T));
  static const Value kNone{};
  const Value* values = size == 0 ? &kNone : reinterpret_cast<const Value*>(data);
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, const Value, nanobind::ndim<1>>(values, {size}, owner));
}

/// A column that NumPy owns from now on.
template <class T>
nanobind::object give(Column<T>&& column) {
  auto* kept = new Column<T>(std::move(column));
  nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<Column<T>*>(p); });
  return view(owner, kept->data(), kept->size());
}

}  // namespace foretrace::python
