#pragma once
// One record between its text and its row: the fields found so far, the arguments that stay together as a tuple, and the
// sink that writes a finished record into the batch of its piece. Private to the walker.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/importers/chrome_batch.hpp"

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
  static constexpr std::size_t kMaxRuns = 16;
  struct Run {
    const char* begin;
    std::uint32_t length;
    std::uint32_t structurals;  ///< structural characters inside
  };
  Run run[kMaxRuns];
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

}  // namespace foretrace::trace
