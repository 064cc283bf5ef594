#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings.hpp"
#include "foretrace/report/doctor.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/replay.hpp"
#include "foretrace/report/summary.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

nb::tuple export_step(const LoadedTrace& t, std::optional<std::int64_t> step, const std::string& format, bool gzip,
                      const std::vector<std::string>& whatifs) {
  auto exported = [&] {
    nb::gil_scoped_release unlocked;
    return report::export_step(t.trace, t.steps, {step, format, gzip, whatifs});
  }();
  const report::Exported e = value_or_raise(std::move(exported));
  nb::dict d;
  d["step"] = to_str(e.step);
  d["tasks"] = e.tasks;
  d["dependencies"] = e.dependencies;
  d["critical_tasks"] = e.critical_tasks;
  d["traced_ms"] = to_ms(e.traced);
  d["replayed_ms"] = to_ms(e.replayed);
  d["hint"] = to_str(e.hint);
  return nb::make_tuple(nb::bytes(e.bytes.data(), e.bytes.size()), d);
}

nb::tuple replay(const LoadedTrace& t, std::optional<std::int64_t> step, std::optional<double> measured_ms,
                 std::size_t width) {
  auto replayed = [&] {
    nb::gil_scoped_release unlocked;
    return analysis::replay(t.trace, t.steps, {step, measured_ms, {}});
  }();
  const analysis::TraceReplay r = value_or_raise(std::move(replayed));
  return nb::make_tuple(to_str(report::to_text(r, {.width = width})), to_str(report::to_json(r)));
}

}  // namespace

void bind_reports(nb::module_& m) {
  // Each gives the report twice, as text and as JSON; Python keeps both in one object.
  m.def(
      "doctor",
      [](const LoadedTrace& t, std::size_t width) {
        const analysis::DoctorReport r = analysis::examine(t.trace, t.steps);
        return nb::make_tuple(to_str(report::to_text(r, {.width = width})), to_str(report::to_json(r)));
      },
      nb::arg("trace"), nb::arg("width"));
  m.def(
      "summary",
      [](const LoadedTrace& t, std::optional<std::int64_t> step, std::optional<double> samples, std::size_t width,
         std::size_t top) {
        const analysis::SummaryReport r = value_or_raise(analysis::summarise(t.trace, t.steps, {step, samples}));
        return nb::make_tuple(to_str(report::to_text(r, {.width = width, .top = top})), to_str(report::to_json(r)));
      },
      nb::arg("trace"), nb::arg("step").none(), nb::arg("samples").none(), nb::arg("width"), nb::arg("top"));
  m.def("replay", replay, nb::arg("trace"), nb::arg("step").none(), nb::arg("measured_ms").none(), nb::arg("width"));
  m.def("export_step", export_step, nb::arg("trace"), nb::arg("step").none(), nb::arg("format"), nb::arg("gzip"),
        nb::arg("whatifs"));
}

}  // namespace foretrace::python
