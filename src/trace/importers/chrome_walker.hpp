#pragma once
// The hot loop of the importer: walks simdjson's structural index over a piece and turns records into rows of a Batch.
// Private to chrome_parser.cpp; apart from it only to keep both readable.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "trace/importers/chrome_batch.hpp"
#include "trace/importers/chrome_parser.hpp"

namespace foretrace::trace {

/// Integer arguments that differ on every event and therefore live in columns, not in tuples.
enum class IdArg : std::uint8_t {
  kCorrelation,
  kExternalId,
  kEventIndex,
  kSequenceNumber,
  kRecordFunctionId,
  kPythonId,
  kPythonParentId,
  kAddress,
  kBytes,
  kTotalAllocated,
  kTotalReserved,
  kCopyBytes,
  kBandwidth,
  kEventId,
  kRecordCorrelation,
  kCount,
  kNone = 255,
};

/// The fields of one record while it is read.
struct Record {
  std::string_view name, category, pid, tid, ts, dur, id;
  char ph = 0;
  bool has_dur = false;
  bool any_field = false;
  std::uint32_t ids_present = 0;  // bit per IdArg
  double bandwidth = 0;
  bool args_not_object = false;
  // Deliberately not initialised, a record is set up for every event: valid where ids_present says so.
  struct Span {
    const char* begin;
    std::size_t length;
  };
  std::int64_t ids[static_cast<std::size_t>(IdArg::kCount)];
  Span id_text[static_cast<std::size_t>(IdArg::kCount)];  // "key": value, as written

  [[nodiscard]] bool has(IdArg a) const { return (ids_present >> static_cast<unsigned>(a) & 1u) != 0; }
  std::int64_t take(IdArg a) {
    if (!has(a)) return kAbsent;
    ids_present &= ~(1u << static_cast<unsigned>(a));
    return ids[static_cast<std::size_t>(a)];
  }
};

/// Writes finished records into the batch.
struct RecordSink {
  LocalTables& tables;
  Batch& batch;
  std::string& tuple;  ///< "{" + the spans of arguments that stay in the tuple, without the closing brace
  std::string& lane;   ///< key of the last event's lane
  LaneId& last_lane;
  Column<std::int32_t>& category_cache;
  StringTable& category_texts;
  StringId last_category{0u};

  void finish(Record& record, std::uint64_t offset, std::string_view raw);

 private:
  std::uint16_t category_of(const Record& record, EventKind& kind);
  LaneId lane_of(const Record& record, char side);
  std::uint32_t side_row(Record& record, EventKind kind);
};

class ChromeParser::Walker {
 public:
  /// `index` holds the positions of `count` structural characters, and two more entries that point behind the text, at
  /// padding: looking one or two tokens ahead needs no bounds check.
  Walker(const char* text, const std::uint32_t* index, std::uint32_t count, std::uint64_t offset, RecordSink& sink)
      : text_(text), next_(index), end_(index + count), offset_(offset), sink_(sink) {}

  /// All records of the piece. False when one breaks the grammar.
  bool run();
  /// Exactly one record and nothing behind it.
  bool one_record();
  /// The text ended inside the record that broke it.
  [[nodiscard]] bool hit_end() const { return hit_end_; }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  /// The end of the text in front of token `it`, blanks left out.
  [[nodiscard]] const char* behind(const std::uint32_t* it) const {
    const char* end = text_ + *it;
    while (is_blank(end[-1])) --end;
    return end;
  }
  /// Text of the scalar or string token `it`; strings come without quotes. Not for brackets.
  [[nodiscard]] std::string_view token(const std::uint32_t* it) const {
    const char* const begin = text_ + *it;
    const char* const end = behind(it + 1);
    if (*begin != '"') return {begin, static_cast<std::size_t>(end - begin)};
    return end - begin >= 2 ? std::string_view(begin + 1, static_cast<std::size_t>(end - begin - 2)) : std::string_view();
  }
  /// Notes whether the grammar broke at the end of the text; always false, for `return at_end(it)`.
  bool at_end(const std::uint32_t* it) {
    hit_end_ = it >= end_;
    return false;
  }

  /// One record; `alone`: nothing may follow it. A row is written only when the record is complete.
  bool record(bool alone);
  bool arguments(Record& record, const std::uint32_t*& cursor);
  bool skip(const std::uint32_t*& it);

  const char* text_;
  const std::uint32_t* next_;
  const std::uint32_t* end_;
  std::uint64_t offset_;
  RecordSink& sink_;
  bool hit_end_ = false;
};

}  // namespace foretrace::trace
