#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "bindings.hpp"
#include "foretrace/report/doctor.hpp"
#include "foretrace/report/summary.hpp"

namespace nb = nanobind;

namespace foretrace::python {

void bind_reports(nb::module_& m) {
  // Each gives the report twice, as text and as JSON; Python keeps both in one object.
  m.def(
      "doctor",
      [](const LoadedTrace& t, std::size_t width) {
        const report::DoctorReport r = report::examine(t.trace, t.steps);
        return nb::make_tuple(to_str(report::to_text(r, {.width = width})), to_str(report::to_json(r)));
      },
      nb::arg("trace"), nb::arg("width"));
  m.def(
      "summary",
      [](const LoadedTrace& t, std::optional<std::int64_t> step, std::optional<double> samples, std::size_t width,
         std::size_t top) {
        const report::SummaryReport r = value_or_raise(report::summarise(t.trace, t.steps, {step, samples}));
        return nb::make_tuple(to_str(report::to_text(r, {.width = width, .top = top})), to_str(report::to_json(r)));
      },
      nb::arg("trace"), nb::arg("step").none(), nb::arg("samples").none(), nb::arg("width"), nb::arg("top"));
}

}  // namespace foretrace::python
