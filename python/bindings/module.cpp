#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "bindings.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/version.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

// In the order of ErrorCode.
constexpr std::array kCodes = {"usage", "unreadable", "declined", "internal", "output"};

ErrorCode code_named(std::string_view name) {
  const auto at = std::find(kCodes.begin(), kCodes.end(), name);
  return at == kCodes.end() ? ErrorCode::kInternal : static_cast<ErrorCode>(at - kCodes.begin());
}

/// A Python function (path) -> None, or (code, message, file, hint) of what is wrong with the plugin.
void set_plugin_loader(nb::object load) {
  extensions().load_plugin = {};
  if (load.is_none()) return;
  extensions().load_plugin = [held = shared(std::move(load))](const std::string& path) -> Status {
    nb::gil_scoped_acquire locked;
    using Wrong = std::tuple<std::string, std::string, std::string, std::string>;
    const auto wrong = nb::cast<std::optional<Wrong>>((*held)(path));
    if (!wrong) return {};
    const auto& [code, message, file, hint] = *wrong;
    return tl::unexpected(Error{code_named(code), message, file, Error::kNoOffset, hint});
  };
}

/// A Python function (csv) -> bytes, or the text of what it lacks.
void set_table_packer(nb::object pack) {
  extensions().pack_table = {};
  if (pack.is_none()) return;
  extensions().pack_table = [held = shared(std::move(pack))](const std::string& csv) -> Result<std::string> {
    nb::gil_scoped_acquire locked;
    const nb::object packed = (*held)(nb::bytes(csv.data(), csv.size()));
    if (nb::isinstance<nb::bytes>(packed)) {
      const auto bytes = nb::cast<nb::bytes>(packed);
      return std::string(bytes.c_str(), bytes.size());
    }
    return fail(ErrorCode::kUsage, nb::cast<std::string>(packed), "--format csv needs nothing");
  };
}

}  // namespace

cli::Extensions& extensions() {
  static cli::Extensions offered{.parquet = parquet_reader()};
  return offered;
}

std::shared_ptr<nb::object> shared(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            if (Py_IsInitialized() == 0) return;
            nb::gil_scoped_acquire locked;
            delete held;
          }};
}

void raise(const Error& error) {
  const nb::object make = nb::module_::import_("foretrace._errors").attr("make");
  nb::object instance = make(to_str(error.to_string()), nb::arg("message") = to_str(error.message),
                             nb::arg("file") = error.file.empty() ? nb::none() : nb::object(to_str(error.file)),
                             nb::arg("offset") = error.offset < 0 ? nb::none() : nb::object(nb::int_(error.offset)),
                             nb::arg("hint") = error.hint.empty() ? nb::none() : nb::object(to_str(error.hint)),
                             nb::arg("code") = kCodes.at(static_cast<std::size_t>(error.code)));
  PyErr_SetObject(instance.type().ptr(), instance.ptr());
  throw nb::python_error();
}

nb::str to_str(std::string_view text) {
  PyObject* s = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (s == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(s);
}

}  // namespace foretrace::python

NB_MODULE(_core, m) {
  using namespace foretrace;
  m.attr("version") = FORETRACE_VERSION;
  m.def(
      "run",
      [](const std::vector<std::string>& args) {
        const int status = cli::run(args, cli::standard_terminal(), python::extensions());
        std::fflush(stdout);
        return status;
      },
      nb::arg("args"), nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "answer",
      [](const std::vector<std::string>& args, std::size_t width) {
        char* text = nullptr;
        std::size_t size = 0;
        std::FILE* out = open_memstream(&text, &size);
        cli::run(args, {.out = out, .err = out, .width = width}, python::extensions());
        std::fclose(out);
        std::string answer(text, size);
        std::free(text);
        return answer;
      },
      nb::arg("args"), nb::arg("width"), nb::call_guard<nb::gil_scoped_release>());
  m.def("set_plugin_loader", python::set_plugin_loader, nb::arg("load").none());
  m.def("set_table_packer", python::set_table_packer, nb::arg("pack").none());
  m.def("formats", [] {
    nb::list list;
    for (const trace::FormatInfo& f : trace::formats()) {
      list.append(nb::make_tuple(python::to_str(f.name), python::to_str(f.about), python::to_str(f.extensions)));
    }
    return list;
  });
  m.def(
      "find_trace_files",
      [](const std::vector<std::string>& paths) {
        return python::value_or_raise(trace::find_trace_files(paths, {.parquet = python::extensions().parquet}));
      },
      nb::arg("paths"));
  python::bind_trace(m);
  python::bind_graph(m);
  python::bind_timeline(m);
  python::bind_whatif(m);
  python::bind_search(m);
  python::bind_draft(m);
  python::bind_reports(m);
  python::bind_hardware(m);
  python::bind_ranks(m);
}
