#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "answers.hpp"
#include "bindings.hpp"
#include "compare_options.hpp"
#include "foretrace/analysis/doctor.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "text_style.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

nb::tuple export_step(const LoadedTrace& t, std::optional<std::int64_t> step, const std::string& format, bool gzip,
                      const std::vector<std::string>& whatifs) {
  auto exported = [&]() -> Result<report::Exported> {
    nb::gil_scoped_release unlocked;
    FORETRACE_TRY(const overview::ExportableStep chosen, overview::exportable_step(t.trace, t.steps, step, whatifs));
    return report::export_step(t.trace, chosen, {format, gzip, extensions().pack_table});
  }();
  return exported_tuple(value_or_raise(std::move(exported)));
}

nb::tuple replay(const LoadedTrace& t, std::optional<std::int64_t> step, std::optional<double> measured_ms,
                 std::size_t width) {
  auto replayed = [&] {
    nb::gil_scoped_release unlocked;
    return analysis::replay(t.trace, t.steps, {step, measured_ms, {}});
  }();
  const analysis::TraceReplay r = value_or_raise(std::move(replayed));
  return nb::make_tuple(to_str(report::to_text(r, text_style(width))), to_str(report::to_json(r)));
}

std::vector<const trace::Trace*> traces_of(const std::vector<const LoadedTrace*>& side) {
  std::vector<const trace::Trace*> out;
  for (const LoadedTrace* one : side) out.push_back(&one->trace);
  return out;
}

nb::tuple compare_sides(const std::vector<const LoadedTrace*>& before, const std::vector<const LoadedTrace*>& after,
                        std::optional<std::int64_t> step, std::optional<double> before_ms,
                        std::optional<double> after_ms, std::optional<double> gate,
                        const std::vector<std::string>& whatifs, std::size_t width) {
  const compare::Options options = compare_options(step, before_ms, after_ms, gate, whatifs);
  auto compared = [&] {
    nb::gil_scoped_release unlocked;
    return compare::compare(traces_of(before), traces_of(after), options);
  }();
  const compare::Comparison c = value_or_raise(std::move(compared));
  return nb::make_tuple(to_str(report::to_text(c, text_style(width))), to_str(report::to_json(c)),
                        to_str(report::to_markdown(c)));
}

nb::tuple page(const LoadedTrace& t, std::optional<std::int64_t> step, std::optional<double> measured_ms,
               const std::vector<std::string>& whatifs, const std::string& command) {
  auto made = [&]() -> Result<report::Page> {
    nb::gil_scoped_release unlocked;
    FORETRACE_TRY(const overview::Overview all, overview::make_overview(t.trace, {step, measured_ms, whatifs}));
    return report::make_page(all, {.command = command});
  }();
  const report::Page p = value_or_raise(std::move(made));
  return nb::make_tuple(nb::bytes(p.html.data(), p.html.size()), to_str(p.answer));
}

}  // namespace

nb::tuple exported_tuple(const report::Exported& e) {
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

void bind_reports(nb::module_& m) {
  // Each gives the report twice, as text and as JSON; Python keeps both in one object.
  m.def(
      "doctor",
      [](const LoadedTrace& t, std::size_t width) {
        const analysis::DoctorReport r = analysis::examine(t.trace, t.steps);
        return nb::make_tuple(to_str(report::to_text(r, text_style(width))), to_str(report::to_json(r)));
      },
      nb::arg("trace"), nb::arg("width"));
  m.def(
      "summary",
      [](const LoadedTrace& t, std::optional<std::int64_t> step, std::optional<double> samples, std::size_t width,
         std::size_t top) {
        const analysis::SummaryReport r = value_or_raise(analysis::summarise(t.trace, t.steps, {step, samples}));
        return nb::make_tuple(to_str(report::to_text(r, text_style(width, top))), to_str(report::to_json(r)));
      },
      nb::arg("trace"), nb::arg("step").none(), nb::arg("samples").none(), nb::arg("width"), nb::arg("top"));
  m.def("replay", replay, nb::arg("trace"), nb::arg("step").none(), nb::arg("measured_ms").none(), nb::arg("width"));
  m.def("export_step", export_step, nb::arg("trace"), nb::arg("step").none(), nb::arg("format"), nb::arg("gzip"),
        nb::arg("whatifs"));
  m.def("compare", compare_sides, nb::arg("before"), nb::arg("after"), nb::arg("step").none(),
        nb::arg("before_ms").none(), nb::arg("after_ms").none(), nb::arg("gate").none(), nb::arg("whatifs"),
        nb::arg("width"));
  m.def("page", page, nb::arg("trace"), nb::arg("step").none(), nb::arg("measured_ms").none(), nb::arg("whatifs"),
        nb::arg("command"));
}

}  // namespace foretrace::python
