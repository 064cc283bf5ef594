#include "trace/cuda_recording.hpp"

#include <simdjson.h>

namespace foretrace::trace {

void note_dropped_records(Trace& trace) {
  const std::string_view raw = trace.metadata_value(kCudaRecordingKey);
  if (raw.empty()) return;
  simdjson::dom::parser parser;
  simdjson::dom::element recording;
  if (parser.parse(raw.data(), raw.size()).get(recording) != simdjson::SUCCESS) return;
  struct Reason {
    const char* key;
    std::string_view name, meaning;
  };
  constexpr Reason kReasons[] = {
      {"dropped_full", "dropped_full", "records behind the most the recording had room for: its end is missing"},
      {"dropped_cupti", "dropped_cupti", "records CUPTI had no buffer for: work is missing in between"},
      {"untimed", "untimed", "records whose time CUPTI could not tell: work is missing in between"}};
  for (const Reason& reason : kReasons) {
    std::uint64_t count = 0;
    if (recording[reason.key].get(count) != simdjson::SUCCESS || count == 0) continue;
    trace.diagnostics.add(reason.name, Severity::kInfo, reason.meaning, {}, -1, count);
  }
}

}  // namespace foretrace::trace
