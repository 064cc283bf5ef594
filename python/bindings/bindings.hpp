#pragma once
// The compiled half of the Python module, foretrace._core: thin, untyped, private. Everything people see (classes,
// docstrings, types) is Python code in python/foretrace; here are only the columns as NumPy views, the tables as plain
// Python values, and the calls into the library.

#include <nanobind/nanobind.h>

#include <memory>

#include "foretrace/base/result.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::python {

/// A trace and what is computed from it once.
struct LoadedTrace {
  trace::Trace trace;
  trace::Steps steps;
};

/// A Python object that may be let go of by any thread, and after the interpreter's end.
std::shared_ptr<nanobind::object> shared(nanobind::object object);

/// Raises the foretrace.Error of its code with the fields of `error`.
[[noreturn]] void raise(const Error& error);

template <class T>
T value_or_raise(Result<T>&& result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

/// None where an integer argument was absent.
inline nanobind::object optional_int(std::int64_t value) {
  return value == trace::kAbsent ? nanobind::none() : nanobind::object(nanobind::int_(value));
}

/// Text as a Python str; bytes that are not UTF-8 become U+FFFD.
nanobind::str to_str(std::string_view text);

/// What the module adds to the library: plugins, Ray, Parquet. Set once by the Python side, under the interpreter's lock.
cli::Extensions& extensions();
/// A reader of Parquet through pyarrow.
trace::ParquetReader parquet_reader();

void bind_trace(nanobind::module_& m);
void bind_graph(nanobind::module_& m);
void bind_timeline(nanobind::module_& m);
void bind_whatif(nanobind::module_& m);
void bind_draft(nanobind::module_& m);
void bind_reports(nanobind::module_& m);
void bind_hardware(nanobind::module_& m);
void bind_ranks(nanobind::module_& m);
void bind_search(nanobind::module_& m);

}  // namespace foretrace::python
