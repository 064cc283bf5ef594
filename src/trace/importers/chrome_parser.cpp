#include "trace/importers/chrome_parser.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/decimal.hpp"
#include "trace/event_columns.hpp"
#include "trace/importers/chrome_walker.hpp"
#include "trace/importers/json_text.hpp"

namespace foretrace::trace {

// The index of structural characters, as simdjson's own front ends use it.
struct ChromeParser::Structurals {
  std::unique_ptr<simdjson::internal::dom_parser_implementation> stage;
  std::size_t capacity = 0;
};

void Batch::clear() {
  each_column(events, [](auto& column) { column.clear(); });
  op_ids.clear();
  python_ids.clear();
  memory_ids.clear();
  sync_ids.clear();
  copy_ids.clear();
  std::memset(incident_counts, 0, sizeof(incident_counts));
  incidents.clear();
  array_ended = truncated = miscut = false;
  tail_at = truncated_at = 0;
}

void Batch::report(Incident::What what, std::uint64_t offset, std::string_view example) {
  if (incident_counts[static_cast<std::size_t>(what)]++ == 0) {
    incidents.push_back({what, offset, std::string(example.substr(0, 160))});
  }
}

ChromeParser::ChromeParser()
    : structurals_(std::make_unique<Structurals>()), predictor_(std::make_unique<TuplePredictor>()) {}
ChromeParser::~ChromeParser() = default;

bool ChromeParser::index(const char* text, std::size_t length) {
  Structurals& s = *structurals_;
  if (length == 0) return false;
  if (length > s.capacity) {
    s.stage.reset();
    if (simdjson::get_active_implementation()->create_dom_parser_implementation(length, 1, s.stage) !=
        simdjson::SUCCESS) {
      s.capacity = 0;
      return false;
    }
    s.capacity = length;
  }
  if (s.stage->stage1(reinterpret_cast<const std::uint8_t*>(text), length, simdjson::stage1_mode::regular) !=
      simdjson::SUCCESS) {
    return false;
  }
  // Two sentinels behind the index, which simdjson leaves room for, so that the walker may look ahead unchecked.
  const std::uint32_t count = s.stage->n_structural_indexes;
  s.stage->structural_indexes[count] = s.stage->structural_indexes[count + 1] = static_cast<std::uint32_t>(length);
  return true;
}

void ChromeParser::parse(const Piece& piece, Batch& batch) {
  batch.clear();
  if (!index(piece.buffer.data(), piece.length)) {
    // Only white space is lexically "empty" to simdjson; anything else needs a closer look.
    if (skip_space(piece.text(), 0) < piece.length) parse_damaged(piece, batch);
    return;
  }
  RecordSink sink{tables, batch, tuple_, *predictor_, lane_, last_lane_, category_cache_, category_texts_};
  Walker walker(piece.buffer.data(), structurals_->stage->structural_indexes.get(),
                structurals_->stage->n_structural_indexes, piece.offset, sink);
  if (!walker.run()) {
    // A record breaks the grammar: start over, record by record. What the walker had written so far is dropped.
    parse_damaged(piece, batch);
    batch.miscut = walker.hit_end() && !piece.last;
  }
}

bool ChromeParser::parse_alone(std::string_view record, std::uint64_t offset, Batch& batch) {
  Piece alone;
  alone.buffer.resize(record.size() + simdjson::SIMDJSON_PADDING, ' ');
  std::memcpy(alone.buffer.data(), record.data(), record.size());
  if (!index(alone.buffer.data(), record.size())) return false;
  RecordSink sink{tables, batch, tuple_, *predictor_, lane_, last_lane_, category_cache_, category_texts_};
  Walker walker(alone.buffer.data(), structurals_->stage->structural_indexes.get(),
                structurals_->stage->n_structural_indexes, offset, sink);
  return walker.one_record();
}

namespace {

// Whether what follows position `at` is the next key of an object: "key" and a colon.
bool key_follows(std::string_view text, std::size_t at) {
  at = skip_space(text, at);
  if (at >= text.size() || text[at] != '"') return false;
  const std::size_t close = text.find('"', at + 1);
  if (close == std::string_view::npos) return false;
  const std::size_t colon = skip_space(text, close + 1);
  return colon < text.size() && text[colon] == ':';
}

// Quotes inside strings that an old writer forgot to escape: a quote closes a string only when what follows it can follow
// such a string. Keys end before a colon, values before a closing bracket or a comma and the next key, elements of a list
// before a comma and another element.
class QuoteRepair {
 public:
  explicit QuoteRepair(std::string_view record) : text_(record) {}

  std::string run() {
    out_.reserve(text_.size() + 16);
    for (at_ = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      out_ += c;
      if (c == '"') {
        string();
      } else if (c == '{' || c == '[') {
        open_.push_back(c);
        key_ = c == '{';
      } else if (c == '}' || c == ']') {
        if (!open_.empty()) open_.pop_back();
        key_ = false;
      } else if (c == ',') {
        key_ = !open_.empty() && open_.back() == '{';
      }
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool closes(std::size_t quote) const {
    // Of an event's own fields only the name is free text; elsewhere an odd quote is damage, not a missing escape.
    if (open_.size() <= 1 && (key_ || last_key_ != "name")) return true;
    const std::size_t next = skip_space(text_, quote + 1);
    const char c = next < text_.size() ? text_[next] : '}';
    if (key_) return c == ':';
    if (!open_.empty() && open_.back() == '[') {
      if (c == ']') return true;
      const std::size_t element = skip_space(text_, next + 1);
      constexpr std::string_view kBegins = "\"[{-0123456789tfn";
      return c == ',' && element < text_.size() && kBegins.find(text_[element]) != std::string_view::npos;
    }
    return c == '}' || (c == ',' && key_follows(text_, next + 1));
  }

  // Behind an opening quote: up to the one that closes, escaping those that do not.
  void string() {
    const std::size_t begin = at_ + 1;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) {
        out_ += c;
        out_ += text_[++at_];
      } else if (c == '"') {
        const bool close = closes(at_);
        if (!close) out_ += '\\';
        out_ += c;
        if (close) break;
      } else {
        out_ += c;
      }
    }
    if (key_) last_key_ = text_.substr(begin, std::min(at_, text_.size()) - begin);
    key_ = false;
  }

  std::string_view text_;
  std::string_view last_key_;
  std::string out_;
  std::size_t at_ = 0;
  std::vector<char> open_;
  bool key_ = false;  // the next string of an object is a key
};

std::string escape_control_characters(std::string_view record) {
  std::string out;
  out.reserve(record.size() + 16);
  for (const char c : record) {
    if (static_cast<unsigned char>(c) < 0x20 && !is_json_space(c)) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += code;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += ' ';  // between tokens or inside a string: a blank serves both
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void ChromeParser::parse_damaged(const Piece& piece, Batch& batch) {
  batch.clear();
  const std::string_view text = piece.text();
  std::size_t at = 0;
  while (true) {
    at = skip_space(text, at);
    if (at < text.size() && text[at] == ',') {
      ++at;
      continue;
    }
    if (at >= text.size()) return;
    if (text[at] == ']') {
      batch.array_ended = true;
      batch.tail_at = at + 1;
      return;
    }
    // A record reaches to the next boundary. Nested records look like boundaries too, so a part that does not parse
    // is tried again together with what follows it.
    std::size_t end = at;
    bool done = false;
    for (int joined = 0; joined < 8 && !done; ++joined) {
      const std::size_t brace = first_boundary(text, end);
      const bool final_record = brace == std::string_view::npos;
      end = final_record ? text.size() : brace + 1;
      std::string_view record = text.substr(at, end - at);
      if (final_record) {
        // The last one may be followed by the end of the array.
        const std::size_t value_end = skip_value(text, at);
        if (value_end != kIncomplete) record = text.substr(at, value_end - at);
      }
      const std::uint64_t offset = piece.offset + at;
      done = parse_alone(record, offset, batch);
      if (!done) {
        std::size_t replaced = 0;
        std::string clean = make_valid_utf8(record, &replaced);
        if (replaced > 0 && parse_alone(clean, offset, batch)) {
          batch.report(Incident::What::kInvalidUtf8, offset, clean);
          done = true;
        }
        if (!done && parse_alone(escape_control_characters(clean), offset, batch)) {
          batch.report(Incident::What::kControlCharacter, offset, clean);
          done = true;
        }
        if (!done) {
          if (parse_alone(QuoteRepair(escape_control_characters(clean)).run(), offset, batch)) {
            batch.report(Incident::What::kRepairedQuotes, offset, clean);
            done = true;
          }
        }
      }
      if (done) end = at + record.size();
      if (final_record) break;
    }
    if (!done) {
      // A record whose brackets close is whole, however wrong; the last one of the input may also be cut off.
      const std::size_t brace = first_boundary(text, at);
      const std::size_t whole = brace == std::string_view::npos ? skip_value(text, at) : kIncomplete;
      if (piece.last && brace == std::string_view::npos && whole == kIncomplete) {
        batch.truncated = true;
        batch.truncated_at = at;
        return;
      }
      batch.report(Incident::What::kMalformed, piece.offset + at, text.substr(at, 160));
      end = brace != std::string_view::npos ? brace + 1 : whole != kIncomplete ? whole : text.size();
      end = std::max(end, at + 1);  // a stray bracket is no value: step over it
    }
    at = end;
  }
}

}  // namespace foretrace::trace
