#pragma once
// The hot loop of the importer: walks simdjson's structural index over a piece, record by record, and hands each to the
// sink. Private to chrome_parser.cpp; apart from it only to keep both readable.

#include <cstdint>
#include <string_view>

#include "trace/importers/chrome_parser.hpp"
#include "trace/importers/chrome_record.hpp"

namespace foretrace::trace {

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
    return end - begin >= 2 ? std::string_view(begin + 1, static_cast<std::size_t>(end - begin - 2))
                            : std::string_view();
  }
  /// Notes whether the grammar broke at the end of the text; always false, for `return at_end(it)`.
  bool at_end(const std::uint32_t* it) {
    hit_end_ = it >= end_;
    return false;
  }

  /// One record; `alone`: nothing may follow it. A row is written only when the record is complete.
  bool record(bool alone);
  bool arguments(Record& record, const std::uint32_t*& cursor);
  bool take_id(Record& record, IdArg id, const std::uint32_t* it);
  bool run_as_guessed(const std::uint32_t*& it);
  bool skip(const std::uint32_t*& it);

  const char* text_;
  const std::uint32_t* next_;
  const std::uint32_t* end_;
  std::uint64_t offset_;
  RecordSink& sink_;
  const std::uint32_t* run_to_ = nullptr;  // behind the last token of the current run
  bool hit_end_ = false;
};

}  // namespace foretrace::trace
