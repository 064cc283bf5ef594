#pragma once
// The hot loop of the importer: walks simdjson's structural index over a piece and turns records into rows of a Batch.
// Private to chrome_parser.cpp; apart from it only to keep both readable.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

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
  StringId name_id;  // set as soon as the name is looked up
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

/// The runs of tuple text of one event, before they are joined: pieces of the original text between id arguments.
struct TupleRuns {
  static constexpr std::size_t kMost = 16;
  struct Run {
    const char* begin;
    std::uint32_t length;
    std::uint32_t structurals;  ///< structural characters inside
  };
  Run run[kMost];
  std::size_t count = 0;
};

/// Steps repeat, and with them the arguments of their events: what followed the same arguments under the same name last
/// time is most likely what follows now. A guess that holds (compared byte by byte) spares walking, joining and hashing.
struct TupleGuess {
  static constexpr std::size_t kMostRuns = 4;
  std::uint64_t key = 0;
  std::uint32_t tuple = 0;
  std::uint32_t runs = 0;
  struct {
    std::uint32_t offset, length, structurals;
  } run[kMostRuns];
  std::string text;  ///< of all runs
};

class TuplePredictor {
 public:
  TuplePredictor() : guesses_(kSlots) {}
  /// The guess for an event named `name`; nullptr when there is none. Remembers where to store what turns out.
  const TupleGuess* guess(StringId name) {
    key_ = (static_cast<std::uint64_t>(name.value) << 32 | previous_) + 1;
    slot_ = static_cast<std::size_t>((key_ * 0x9E3779B97F4A7C15ull) >> (64 - kBits));
    const TupleGuess& g = guesses_[slot_];
    return g.key == key_ ? &g : nullptr;
  }
  void learn(const TupleRuns& runs, std::uint32_t tuple);
  void follow(std::uint32_t tuple) { previous_ = tuple; }

 private:
  static constexpr unsigned kBits = 12;
  static constexpr std::size_t kSlots = 1u << kBits;
  std::vector<TupleGuess> guesses_;
  std::uint64_t key_ = 0;
  std::size_t slot_ = 0;
  std::uint32_t previous_ = 0;
};

/// Writes finished records into the batch.
struct RecordSink {
  LocalTables& tables;
  Batch& batch;
  std::string& tuple;  ///< "{" + arguments that stay in the tuple and are not in `runs`, without the closing brace
  TuplePredictor& predictor;
  std::string& lane;  ///< key of the last event's lane
  LaneId& last_lane;
  Column<std::int32_t>& category_cache;
  StringTable& category_texts;
  StringId last_category{0u};
  TupleRuns runs{};
  const TupleGuess* guessed = nullptr;  ///< the guess that held for all runs so far

  void finish(Record& record, std::uint64_t offset, std::string_view raw);

 private:
  std::uint16_t category_of(const Record& record, EventKind& kind);
  LaneId lane_of(const Record& record, char side);
  ArgsId tuple_of(const Record& record);
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
