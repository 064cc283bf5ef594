// The first example of docs/internals/adding-a-format.md; tests/scripts/format_examples_test.py holds the two together.
// myprof: traces of MyProf. "#myprof", then a line for each kernel: NAME STREAM START DURATION, times in microseconds.

#include "base/decimal.hpp"
#include "base/text.hpp"
#include "trace/importers/event_rows.hpp"
#include "trace/importers/importer.hpp"
#include "trace/importers/stream_records.hpp"

namespace foretrace::trace {
namespace {

// How sure we are, from the first 64 KiB of the uncompressed input; the highest wins. Return 100 only for what no other
// program writes, and 0 for everything that merely could be ours.
int sniff(std::string_view head) { return head.starts_with("#myprof\n") ? 100 : 0; }

Result<Trace> read(ByteSource& source, const std::string& path, const LoadOptions& options) {
  Trace trace;
  trace.path = path;
  trace.format = "myprof";
  EventRows rows(trace);  // keeps the columns at the same length, reuses lanes
  const std::uint16_t kernel = rows.category("kernel", EventKind::kKernel);
  const auto line = [&](std::string_view text, std::uint64_t offset) {
    std::vector<std::string_view> words = split(text, ' ');
    const bool whole = words.size() == 4;
    words.resize(4);
    const std::int64_t stream = parse_int64(words[1]).value_or(-1);
    const Ns start = parse_us_as_ns(words[2]).value_or(-1);
    const Ns duration = parse_us_as_ns(words[3]).value_or(-1);
    if (!whole || stream < 0 || start < 0 || duration < 0) {
      trace.diagnostics.add("malformed_record", Severity::kDataLoss, "lines that are no kernels were left out", text,
                            static_cast<std::int64_t>(offset));
      return;
    }
    EventRow row;
    row.start = start;
    row.duration = duration;
    row.name = trace.strings.intern(words[0]);
    row.category = kernel;
    row.lane = rows.lane(LaneKind::kGpuStream, /*device*/ 0, stream);
    rows.add(row);
  };
  // The input comes in blocks; we take the lines that are whole and leave the rest for the next.
  const auto take = [&](std::string_view text, std::uint64_t at, bool ended) -> Result<std::size_t> {
    std::size_t begin = 0;
    for (std::size_t end = 0; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      if (end == std::string_view::npos && !ended) return begin;
      end = std::min(end, text.size());
      if (text[begin] != '#') line(text.substr(begin, end - begin), at + begin);
    }
    return std::min(begin, text.size());
  };
  FORETRACE_TRY_VOID(read_records(source, trace, options, take));
  trace.args.decode(trace.strings);  // once, at the end, also where no row has arguments
  return trace;
}

}  // namespace

Importer myprof_importer() {
  return {.name = "myprof", .about = "MyProf lines", .extensions = ".myprof", .sniff = sniff, .read = read};
}

}  // namespace foretrace::trace
