// Parquet for the library, read by foretrace/_parquet_tables.py where pyarrow is at hand. Nothing of it is imported before a
// folder of tables is met.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "foretrace/trace/load.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

using Tables = std::map<std::string, std::set<std::string>>;
template <class T>
using Array = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig>;

/// What the Python side says is wrong: (message, hint).
Error wrong(nb::handle answer, const std::string& folder) {
  const auto [message, hint] = nb::cast<std::pair<std::string, std::string>>(answer);
  return {ErrorCode::kUnreadable, message, folder, Error::kNoOffset, hint};
}

/// A batch is (rows, [(numbers, offsets, bytes, present), …]), each an array or None. The arrays live as long as the tuple.
trace::ColumnBatch batch_of(nb::handle from) {
  trace::ColumnBatch out;
  out.rows = nb::cast<std::size_t>(from[0]);
  for (const nb::handle column : from[1]) {
    trace::ColumnBatch::Column c;
    if (!column[0].is_none()) c.numbers = nb::cast<Array<std::int64_t>>(column[0]).data();
    if (!column[1].is_none()) c.offsets = nb::cast<Array<std::int64_t>>(column[1]).data();
    if (!column[2].is_none()) c.bytes = reinterpret_cast<const char*>(nb::cast<Array<std::uint8_t>>(column[2]).data());
    if (!column[3].is_none()) c.present = nb::cast<Array<std::uint8_t>>(column[3]).data();
    out.columns.push_back(c);
  }
  return out;
}

// Nothing that Python raises may cross the library.
template <class T, class F>
T caught(const std::string& folder, F read) {
  nb::gil_scoped_acquire locked;
  try {
    return read();
  } catch (const std::exception& error) {
    return tl::unexpected(Error{ErrorCode::kUnreadable, error.what(), folder, Error::kNoOffset, {}});
  }
}

nb::object reader() { return nb::module_::import_("foretrace._parquet_tables"); }

}  // namespace

trace::ParquetReader parquet_reader() {
  trace::ParquetReader out;
  out.tables = [](const std::string& folder) {
    return caught<Result<Tables>>(folder, [&]() -> Result<Tables> {
      const nb::object answer = reader().attr("tables")(folder);
      if (nb::isinstance<nb::tuple>(answer)) return tl::unexpected(wrong(answer, folder));
      return nb::cast<Tables>(answer);
    });
  };
  out.scan = [](const std::string& folder, const std::string& table, const std::vector<std::string>& columns,
                const std::function<void(const trace::ColumnBatch&)>& each) {
    return caught<Status>(folder, [&]() -> Status {
      for (const nb::handle batch : reader().attr("scan")(folder, table, columns)) {
        if (nb::isinstance<nb::tuple>(batch[1])) return tl::unexpected(wrong(batch[1], folder));
        each(batch_of(batch));
      }
      return {};
    });
  };
  return out;
}

}  // namespace foretrace::python
