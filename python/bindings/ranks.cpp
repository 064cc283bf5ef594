#include "foretrace/analysis/ranks.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "answers.hpp"
#include "bindings.hpp"
#include "compare_options.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/overview/overview.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "text_style.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

/// The traces of a job, or one operation trace of all its workers.
struct LoadedJob {
  ranks::Job job;
  std::optional<ranks::PipelineJob> pipeline;
};

Result<LoadedJob> read(const std::vector<std::string>& files, const trace::LoadOptions& options) {
  LoadedJob out;
  if (files.size() == 1) {
    FORETRACE_TRY(trace::Trace trace, trace::load(files[0], options));
    if (ranks::is_pipeline(trace)) {
      FORETRACE_TRY(out.pipeline, ranks::read_pipeline(trace));
      return out;
    }
    std::vector<trace::Trace> one;
    one.push_back(std::move(trace));
    FORETRACE_TRY(out.job, ranks::assemble(std::move(one)));
    return out;
  }
  FORETRACE_TRY(out.job, ranks::load_job(files, options));
  return out;
}

LoadedJob load(const std::vector<std::string>& files, unsigned threads, bool partial, const std::string& steps_by) {
  trace::LoadOptions options;
  options.threads = threads;
  options.partial = partial;
  options.steps_by = steps_by;
  options.parquet = extensions().parquet;
  std::optional<Result<LoadedJob>> job;
  {
    const nb::gil_scoped_release release;
    job = read(files, options);
  }
  return value_or_raise(std::move(*job));
}

nb::tuple report_of(const LoadedJob& j, std::optional<std::int64_t> step, bool align, std::size_t width) {
  if (j.pipeline) {
    ranks::PipelineAnswers a = value_or_raise(ranks::answer(*j.pipeline));
    for (std::size_t i = 0; step && i < a.steps.size(); ++i) {
      if (a.steps[i].number != *step) continue;
      a = ranks::of_step(a, i);
      step.reset();
    }
    if (step) {
      raise(Error{ErrorCode::kUsage, "the trace has no step " + std::to_string(*step), {}, Error::kNoOffset, {}});
    }
    return nb::make_tuple(to_str(report::to_text(*j.pipeline, a, text_style(width))),
                          to_str(report::to_json(*j.pipeline, a)));
  }
  analysis::RanksOptions options;
  options.step = step;
  options.align = align;
  const analysis::RanksReport r = value_or_raise(analysis::analyse_ranks(j.job, options));
  return nb::make_tuple(to_str(report::to_text(r, text_style(width))), to_str(report::to_json(r)));
}

Status has_kernels(const LoadedJob& j) {
  if (!j.pipeline) return {};
  return fail(ErrorCode::kDeclined,
              "an operation trace holds no kernels and no CPU work: nothing can be changed in it");
}

/// The step of all ranks without the profiler; of one trace alone, where no other was given.
Result<analysis::Baseline> baseline_of(const LoadedJob& j, std::optional<std::int64_t> step,
                                       std::optional<double> measured_ms, const std::vector<std::int64_t>& only) {
  FORETRACE_TRY_VOID(has_kernels(j));
  if (j.job.ranks.size() > 1) return analysis::make_baseline(j.job, step, measured_ms, only);
  return analysis::make_baseline(j.job.ranks.front().trace, step, measured_ms);
}

analysis::Baseline* model_of(const LoadedJob& j, std::optional<std::int64_t> step, std::optional<double> measured_ms,
                             const std::vector<std::int64_t>& only) {
  auto made = [&] {
    nb::gil_scoped_release unlocked;
    return baseline_of(j, step, measured_ms, only);
  }();
  return new analysis::Baseline(value_or_raise(std::move(made)));
}

Result<report::Exported> exported(const LoadedJob& j, std::optional<std::int64_t> step,
                                  const std::vector<std::string>& whatifs, const std::vector<std::int64_t>& only,
                                  const report::ExportOptions& options) {
  FORETRACE_TRY_VOID(has_kernels(j));
  if (!whatifs.empty()) {
    FORETRACE_TRY(const overview::ChangedJob changed, overview::changed_job(j.job, step, whatifs, only));
    return report::export_changed_job(changed, options);
  }
  FORETRACE_TRY(const auto chosen, analysis::open_ranks_step(j.job, {.step = step}));
  return report::export_ranks(j.job, *chosen, options);
}

nb::tuple export_job(const LoadedJob& j, std::optional<std::int64_t> step, const std::string& format, bool gzip,
                     const std::vector<std::string>& whatifs, const std::vector<std::int64_t>& only) {
  auto made = [&] {
    nb::gil_scoped_release unlocked;
    return exported(j, step, whatifs, only, {format, gzip, {}});
  }();
  return exported_tuple(value_or_raise(std::move(made)));
}

nb::tuple page_of(const LoadedJob& j, std::optional<std::int64_t> step, std::optional<double> measured_ms,
                  const std::vector<std::string>& whatifs, const std::string& command) {
  auto made = [&]() -> Result<report::Page> {
    nb::gil_scoped_release unlocked;
    FORETRACE_TRY_VOID(has_kernels(j));
    const overview::OverviewOptions options{
        .step = step, .measurements = measured_ms, .whatifs = whatifs, .job = &j.job};
    FORETRACE_TRY(const overview::Overview all, overview::make_overview(j.job.ranks.front().trace, options));
    return report::make_page(all, {.command = command});
  }();
  const report::Page p = value_or_raise(std::move(made));
  return nb::make_tuple(nb::bytes(p.html.data(), p.html.size()), to_str(p.answer));
}

nb::tuple compare_jobs(const LoadedJob& before, const LoadedJob& after, std::optional<std::int64_t> step,
                       std::optional<double> before_ms, std::optional<double> after_ms, std::optional<double> gate,
                       const std::vector<std::string>& whatifs, std::size_t width) {
  const compare::Options options = compare_options(step, before_ms, after_ms, gate, whatifs);
  auto compared = [&]() -> Result<compare::JobComparison> {
    nb::gil_scoped_release unlocked;
    for (const LoadedJob* side : {&before, &after}) {
      FORETRACE_TRY_VOID(has_kernels(*side));
    }
    return compare::compare_jobs(before.job, after.job, options);
  }();
  const compare::JobComparison c = value_or_raise(std::move(compared));
  return nb::make_tuple(to_str(report::to_text(c, text_style(width))), to_str(report::to_json(c)),
                        to_str(report::to_markdown(c)));
}

}  // namespace

void bind_ranks(nb::module_& m) {
  nb::class_<LoadedJob>(m, "Job")
      .def_prop_ro("ranks",
                   [](const LoadedJob& j) {
                     nb::list out;
                     for (const ranks::Rank& r : j.job.ranks) out.append(r.rank);
                     return out;
                   })
      .def_prop_ro("missing", [](const LoadedJob& j) { return j.job.missing; })
      .def_prop_ro("world_size", [](const LoadedJob& j) { return j.job.world_size; })
      .def_prop_ro("pipeline", [](const LoadedJob& j) { return j.pipeline.has_value(); })
      .def_prop_ro("notes",
                   [](const LoadedJob& j) {
                     nb::list out;
                     for (const std::string& n : j.pipeline ? j.pipeline->notes : j.job.notes) out.append(to_str(n));
                     return out;
                   })
      .def("report", report_of, nb::arg("step").none(), nb::arg("align"), nb::arg("width"))
      .def("model", model_of, nb::arg("step").none(), nb::arg("measured_ms").none(), nb::arg("only"),
           nb::keep_alive<0, 1>())
      .def("export", export_job, nb::arg("step").none(), nb::arg("format"), nb::arg("gzip"), nb::arg("whatifs"),
           nb::arg("only"))
      .def("page", page_of, nb::arg("step").none(), nb::arg("measured_ms").none(), nb::arg("whatifs"),
           nb::arg("command"));
  m.def("load_ranks", load, nb::arg("files"), nb::arg("threads"), nb::arg("partial"), nb::arg("steps_by") = "");
  m.def("compare_jobs", compare_jobs, nb::arg("before"), nb::arg("after"), nb::arg("step").none(),
        nb::arg("before_ms").none(), nb::arg("after_ms").none(), nb::arg("gate").none(), nb::arg("whatifs"),
        nb::arg("width"));
}

}  // namespace foretrace::python
