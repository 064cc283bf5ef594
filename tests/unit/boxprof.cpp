// The second example of docs/internals/adding-a-format.md; tests/scripts/format_examples_test.py holds the two together.
// boxprof: traces of BoxProf. "BOXPROF1", the place of the names (8 bytes), then kernels of 24 bytes each (start, duration, name),
// then the names, each ending with a zero. Numbers are little-endian, times nanoseconds.

#include <array>
#include <cstring>

#include "trace/importers/event_rows.hpp"
#include "trace/importers/importer.hpp"

namespace foretrace::trace {
namespace {

int sniff(std::string_view head) { return head.starts_with("BOXPROF1") ? 100 : 0; }

Result<Trace> read_part(SeekableSource& source, const std::string& path, const LoadOptions& options, const Part&) {
  Trace trace;
  trace.path = path;
  trace.format = "boxprof";
  trace.input_bytes = source.size();

  std::uint64_t names_at = 0;
  FORETRACE_TRY(const std::size_t head, source.read_at(8, reinterpret_cast<char*>(&names_at), sizeof names_at));
  if (head < sizeof names_at || names_at < 16 || names_at > source.size()) {
    return tl::unexpected(Error{ErrorCode::kUnreadable, "the file is cut off before its names", path, 8,
                                "copy it again"});  // names file, place and what to do; nothing throws, nothing prints
  }
  // The names stand behind what uses them: any bytes can be asked for, in any order.
  std::string names(static_cast<std::size_t>(source.size() - names_at), '\0');
  FORETRACE_TRY(const std::size_t got, source.read_at(names_at, names.data(), names.size()));
  names.resize(got);

  EventRows rows(trace);
  EventRow row;
  row.category = rows.category("kernel", EventKind::kKernel);
  row.lane = rows.lane(LaneKind::kGpuStream, /*device*/ 0, /*stream*/ 7);
  row.args = trace.args.intern(R"({"device":0,"stream":7,"grid":[264,1,1],"block":[256,1,1]})");
  std::array<std::int64_t, 3> box{};
  for (std::uint64_t at = 16; at + sizeof box <= names_at; at += sizeof box) {
    FORETRACE_TRY(const std::size_t read, source.read_at(at, reinterpret_cast<char*>(box.data()), sizeof box));
    const bool known = box[2] >= 0 && static_cast<std::uint64_t>(box[2]) < names.size();
    if (read < sizeof box || box[1] < 0 || !known) {
      trace.diagnostics.add("malformed_record", Severity::kDataLoss, "boxes that are no kernels were left out", {},
                            static_cast<std::int64_t>(at));
      continue;
    }
    row.start = box[0];
    row.duration = box[1];
    row.name = trace.strings.intern(names.c_str() + box[2]);
    row.correlation = static_cast<std::int64_t>(at);  // ties it to its launch call, where there is one
    rows.add(row);
    if (trace.size() % 65536 == 0 && options.progress) options.progress("reading " + path, at, names_at, kBytes);
  }
  trace.args.decode(trace.strings);  // once, at the end: args.launch() and the like answer from here on
  return trace;
}

}  // namespace

Importer boxprof_importer() {
  return {.name = "boxprof", .about = "BoxProf boxes", .extensions = ".box", .sniff = sniff, .read_part = read_part};
}

}  // namespace foretrace::trace
