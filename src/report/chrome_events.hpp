#pragma once
// Events of Chrome's trace format, as ui.perfetto.dev reads them: what both exporters of timelines write, one event a
// line. Names and labels are passed as JSON texts, with their quotes (append_json_string).

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "foretrace/base/types.hpp"
#include "foretrace/graph/graph.hpp"

namespace foretrace::report {

/// The category a profiler gives such a task; "wait" for what it does not record.
std::string_view profiler_category(graph::TaskKind kind);

/// `text` as a JSON string, with its quotes.
std::string json_string(std::string_view text);

/// Microseconds with all digits: 1234567 -> "1234.567".
std::string exact_us(Ns ns);

class ChromeEvents {
 public:
  /// Appends to `out`, which holds the opening bracket of the list already.
  explicit ChromeEvents(std::string& out) : out_(out) {}

  /// The moment that is 0 in the file.
  Ns origin = 0;

  void name_process(std::uint32_t pid, std::string_view name, std::size_t order);
  void name_track(std::uint32_t pid, std::uint32_t tid, std::string_view name, std::size_t order);
  /// Leaves the arguments open: put() them, then "}}".
  void begin_slice(std::string_view category, std::string_view name, std::uint32_t pid, std::uint32_t tid, Ns start,
                   Ns duration);

  struct Place {
    std::uint32_t pid = 0, tid = 0;
    Ns at = 0;
  };
  void arrow(std::string_view category, std::string_view label, const Place& from, const Place& to);

  template <class... Args>
  void put(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
  }

 private:
  void next();
  void metadata(std::string_view what, std::uint32_t pid, std::uint32_t tid, std::string_view key,
                std::string_view value);
  void arrow_end(std::string_view phase, std::string_view category, std::string_view label, const Place& place);

  std::string& out_;
  std::uint64_t arrows_ = 0;
  bool first_ = true;
};

}  // namespace foretrace::report
