#include "foretrace/analysis/ranks.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings.hpp"
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
      .def(
          "timeline",
          [](const LoadedJob& j, std::optional<std::int64_t> step, bool gzip) {
            if (j.pipeline) {
              raise(Error{
                  ErrorCode::kDeclined, "an operation trace has no timeline of kernels", {}, Error::kNoOffset, {}});
            }
            const auto chosen = value_or_raise(analysis::open_ranks_step(j.job, {.step = step}));
            const report::Exported e = value_or_raise(report::export_ranks(j.job, *chosen, {.gzip = gzip}));
            return nb::bytes(e.bytes.data(), e.bytes.size());
          },
          nb::arg("step").none(), nb::arg("gzip"));
  m.def("load_ranks", load, nb::arg("files"), nb::arg("threads"), nb::arg("partial"), nb::arg("steps_by") = "");
}

}  // namespace foretrace::python
