#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

/// (why it was declined or "", step in ns, peak in bytes, samples)
using Outcome = std::tuple<std::string, std::int64_t, std::optional<std::int64_t>, double, std::optional<std::int64_t>>;

/// One step of one trace, ready to predict strategies of it: what a worker of a cluster holds.
class StrategyStep {
 public:
  StrategyStep(const std::string& path, std::optional<std::int64_t> step, std::optional<double> measured_ms) {
    nb::gil_scoped_release unlocked;
    Result<trace::Trace> trace = trace::load(path, {.parquet = extensions().parquet});
    if (!trace) {
      nb::gil_scoped_acquire locked;
      raise(trace.error());
    }
    trace_ = std::make_unique<trace::Trace>(std::move(*trace));
    Result<analysis::Baseline> base = analysis::make_baseline(*trace_, step, measured_ms);
    if (!base) {
      nb::gil_scoped_acquire locked;
      raise(base.error());
    }
    base_ = std::make_unique<analysis::Baseline>(std::move(*base));
  }

  std::vector<Outcome> evaluate(const std::vector<std::string>& texts, unsigned threads) const {
    std::vector<search::Strategy> strategies;
    for (const std::string& text : texts) {
      strategies.push_back(value_or_raise(search::parse_strategy(text, "strategy")));
    }
    nb::gil_scoped_release unlocked;
    std::vector<Outcome> out;
    for (const search::Evaluation& e : search::evaluate_all(*base_, strategies, threads)) {
      out.emplace_back(e.declined, e.step, e.peak_bytes, e.samples, e.reserved_bytes);
    }
    return out;
  }

 private:
  std::unique_ptr<trace::Trace> trace_;
  std::unique_ptr<analysis::Baseline> base_;
};

/// A Python function (trace, step, measured_ms) -> function (list of strategies as JSON) -> list of outcomes.
void set_evaluator(nb::object make) {
  extensions().make_evaluate = {};
  if (make.is_none()) return;
  const std::shared_ptr<nb::object> held = shared(std::move(make));
  extensions().make_evaluate = [held](const std::string& trace, std::optional<std::int64_t> step,
                                      std::optional<double> measured_ms) -> search::Evaluate {
    nb::gil_scoped_acquire locked;
    const std::shared_ptr<nb::object> evaluate = shared((*held)(trace, step, measured_ms));
    return [evaluate](const std::vector<search::Strategy>& strategies) {
      nb::gil_scoped_acquire also;
      std::vector<std::string> texts;
      for (const search::Strategy& s : strategies) texts.push_back(report::strategy_json(s));
      const auto outcomes = nb::cast<std::vector<Outcome>>((*evaluate)(texts));
      std::vector<search::Evaluation> out;
      for (const auto& [declined, ns, peak, samples, reserved] : outcomes) {
        out.push_back({declined, ns, peak, samples, reserved});
      }
      if (out.size() != strategies.size()) throw nb::value_error("one outcome for each strategy is needed");
      return out;
    };
  };
}

/// An error as a tuple: (code, message, file, offset, hint).
using ErrorFields = std::tuple<int, std::string, std::string, std::int64_t, std::string>;

/// Reads a file on behalf of another process: (packed trace, None) or (b"", the error).
nb::tuple read_packed(const std::string& path, bool strict, bool partial, unsigned threads) {
  std::string bytes;
  std::optional<Error> error;
  {
    nb::gil_scoped_release unlocked;
    const Result<trace::Trace> trace = trace::load(
        path,
        {.threads = threads, .strict = strict, .partial = partial, .progress = {}, .parquet = extensions().parquet});
    if (trace) {
      bytes = trace::pack(*trace);
    } else {
      error = trace.error();
    }
  }
  if (!error) return nb::make_tuple(nb::bytes(bytes.data(), bytes.size()), nb::none());
  const ErrorFields fields{static_cast<int>(error->code), error->message, error->file, error->offset, error->hint};
  return nb::make_tuple(nb::bytes("", 0), nb::cast(fields));
}

Result<trace::Trace> unpacked(nb::handle answer, const std::string& file) {
  const nb::handle error = answer[1];
  if (!error.is_none()) {
    const auto [code, message, named, offset, hint] = nb::cast<ErrorFields>(error);
    return tl::unexpected<Error>(
        Error{static_cast<ErrorCode>(code), message, named.empty() ? named : file, offset, hint});
  }
  const nb::bytes bytes = nb::cast<nb::bytes>(answer[0]);
  Result<trace::Trace> trace = trace::unpack({bytes.c_str(), bytes.size()});
  if (trace) trace->path = file;  // a worker on another machine read a copy
  return trace;
}

/// A Python function (files, strict, partial) -> list of what read_packed gives.
void set_reader(nb::object read) {
  extensions().read_all = {};
  if (read.is_none()) return;
  const std::shared_ptr<nb::object> held = shared(std::move(read));
  extensions().read_all = [held](const std::vector<std::string>& files, const trace::LoadOptions& options) {
    nb::gil_scoped_acquire locked;
    const nb::list answers = nb::cast<nb::list>((*held)(files, options.strict, options.partial));
    if (answers.size() != files.size()) throw nb::value_error("one answer for each file is needed");
    std::vector<Result<trace::Trace>> out;
    for (std::size_t i = 0; i < files.size(); ++i) {
      Result<trace::Trace> one = unpacked(answers[i], files[i]);
      if (one) {
        if (const Status marked = trace::mark_steps_by(*one, options.steps_by); !marked)
          one = tl::unexpected(marked.error());
      }
      out.push_back(std::move(one));
    }
    return out;
  };
}

/// A Python function (list of commands, each a list of words) -> list of their answers as JSON.
void set_answerer(nb::object answer) {
  extensions().answer_all = {};
  if (answer.is_none()) return;
  const std::shared_ptr<nb::object> held = shared(std::move(answer));
  extensions().answer_all = [held](const std::vector<std::vector<std::string>>& commands) {
    nb::gil_scoped_acquire locked;
    return nb::cast<std::vector<std::string>>((*held)(commands));
  };
}

}  // namespace

void bind_search(nb::module_& m) {
  nb::class_<StrategyStep>(m, "StrategyStep")
      .def(nb::init<const std::string&, std::optional<std::int64_t>, std::optional<double>>(), nb::arg("path"),
           nb::arg("step") = nb::none(), nb::arg("measured_ms") = nb::none())
      .def("evaluate", &StrategyStep::evaluate, nb::arg("strategies"), nb::arg("threads") = 1);
  m.def("set_evaluator", &set_evaluator, nb::arg("make").none());
  m.def("read_packed", &read_packed, nb::arg("path"), nb::arg("strict") = false, nb::arg("partial") = false,
        nb::arg("threads") = 1);
  m.def("set_answerer", &set_answerer, nb::arg("answer").none());
  m.def("set_reader", &set_reader, nb::arg("read").none());
}

}  // namespace foretrace::python
