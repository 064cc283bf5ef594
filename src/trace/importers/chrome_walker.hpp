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
  bool has_name = false;
  bool has_dur = false;
  bool any_field = false;
  std::uint32_t ids_present = 0;  // bit per IdArg
  std::int64_t ids[static_cast<std::size_t>(IdArg::kCount)];
  std::string_view id_text[static_cast<std::size_t>(IdArg::kCount)];
  double bandwidth = 0;
  bool args_not_object = false;

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
  std::string& lane;
  Column<std::int32_t>& category_cache;
  StringTable& category_texts;

  void finish(Record& record, std::uint64_t offset, std::string_view raw);

 private:
  std::uint16_t category_of(const Record& record, EventKind& kind);
  std::uint32_t side_row(Record& record, EventKind kind);
};

class ChromeParser::Walker {
 public:
  Walker(const char* text, std::size_t length, const std::uint32_t* index, std::uint32_t count, std::uint64_t offset,
         RecordSink& sink)
      : text_(text), length_(length), index_(index), count_(count), offset_(offset), sink_(sink) {}

  /// All records of the piece. False when one breaks the grammar.
  bool run();
  /// The text ended inside the record that broke it.
  [[nodiscard]] bool hit_end() const { return hit_end_; }
  /// Exactly one record and nothing behind it.
  bool one_record();

 private:
  [[nodiscard]] char at(std::uint32_t i) const { return i < count_ ? text_[index_[i]] : '\0'; }
  /// Text of the scalar or string token i; strings come without quotes. Token i must not be a bracket.
  [[nodiscard]] std::string_view token(std::uint32_t i) const {
    const char* begin = text_ + index_[i];
    const char* end = text_ + (i + 1 < count_ ? index_[i + 1] : length_);
    while (end > begin && is_blank(end[-1])) --end;
    if (*begin == '"') return end - begin >= 2 ? std::string_view(begin + 1, end - begin - 2) : std::string_view();
    return {begin, static_cast<std::size_t>(end - begin)};
  }
  static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

  /// One record; `alone`: nothing may follow it. A row is written only when the record is complete.
  bool record(bool alone);
  bool arguments(Record& record);
  /// Moves next_ behind the value at next_; false when it is not a value.
  bool skip();

  const char* text_;
  std::size_t length_;
  const std::uint32_t* index_;
  std::uint32_t count_;
  std::uint64_t offset_;
  RecordSink& sink_;
  std::uint32_t next_ = 0;
  bool hit_end_ = false;
};

}  // namespace foretrace::trace
