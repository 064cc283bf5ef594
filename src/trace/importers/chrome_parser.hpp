#pragma once
// Parses a piece of Chrome-style JSON events into a Batch. One parser per thread, reused for all its pieces.
//
// simdjson's first stage finds all structural characters and validates UTF-8 at several GB/s; this parser then walks that
// index itself instead of going through the on-demand front end, because it wants raw spans (argument tuples are interned
// as text), the exact place where the array ends, and to continue after a bad record.

#include <memory>
#include <string>

#include "trace/importers/chrome_batch.hpp"

namespace foretrace::trace {

class TuplePredictor;

class ChromeParser {
 public:
  ChromeParser();
  ~ChromeParser();
  ChromeParser(const ChromeParser&) = delete;
  ChromeParser& operator=(const ChromeParser&) = delete;

  /// Parses piece into batch (cleared first). Never fails: what cannot be read is reported in the batch.
  void parse(const Piece& piece, Batch& batch);

  LocalTables tables;

 private:
  class Walker;
  /// Runs simdjson's first stage over text (followed by padding); false when the text is not lexically JSON.
  bool index(const char* text, std::size_t length);
  /// Record by record, with what is wrong in each repaired where it can be.
  void parse_damaged(const Piece& piece, Batch& batch);
  bool parse_alone(std::string_view record, std::uint64_t offset, Batch& batch);

  struct Structurals;
  std::unique_ptr<Structurals> structurals_;
  std::unique_ptr<TuplePredictor> predictor_;
  std::string tuple_;  // scratch
  std::string lane_;   // key of the last event's lane
  LaneId last_lane_;
  Column<std::int32_t> category_cache_;  // [local cat text × phase class] -> local category, -1 unknown
  StringTable category_texts_;
};

}  // namespace foretrace::trace
