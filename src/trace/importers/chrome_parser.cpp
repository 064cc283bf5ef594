#include "trace/importers/chrome_parser.hpp"

#include <simdjson.h>

#include <charconv>
#include <cstring>

#include "base/decimal.hpp"
#include "trace/importers/chrome_walker.hpp"
#include "trace/importers/json_text.hpp"

namespace foretrace::trace {

// The index of structural characters, as simdjson's own front ends use it.
struct ChromeParser::Structurals {
  std::unique_ptr<simdjson::internal::dom_parser_implementation> stage;
  std::size_t capacity = 0;
};

void Batch::clear() {
  events.start.clear();
  events.duration.clear();
  events.name.clear();
  events.lane.clear();
  events.args.clear();
  events.correlation.clear();
  events.external_id.clear();
  events.side.clear();
  events.category.clear();
  events.ph.clear();
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

// Quotes inside strings that an old writer forgot to escape: a quote closes a string only when what follows it can
// follow a string in JSON.
std::string escape_inner_quotes(std::string_view record) {
  std::string out;
  out.reserve(record.size() + 16);
  bool inside = false;
  for (std::size_t i = 0; i < record.size(); ++i) {
    const char c = record[i];
    if (c == '\\' && inside && i + 1 < record.size()) {
      out += c;
      out += record[++i];
      continue;
    }
    if (c == '"') {
      if (!inside) {
        inside = true;
      } else {
        const std::size_t next = skip_space(record, i + 1);
        const char follows = next < record.size() ? record[next] : '}';
        if (follows == ',' || follows == ':' || follows == '}' || follows == ']') {
          inside = false;
        } else {
          out += '\\';
        }
      }
    }
    out += c;
  }
  return out;
}

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
          if (parse_alone(escape_inner_quotes(escape_control_characters(clean)), offset, batch)) {
            batch.report(Incident::What::kRepairedQuotes, offset, clean);
            done = true;
          }
        }
      }
      if (done) end = at + record.size();
      if (final_record) break;
    }
    if (!done) {
      const std::size_t brace = first_boundary(text, at);
      const bool cut = piece.last && brace == std::string_view::npos;
      if (cut) {
        batch.truncated = true;
        batch.truncated_at = at;
        return;
      }
      batch.report(Incident::What::kMalformed, piece.offset + at, text.substr(at, 160));
      end = brace == std::string_view::npos ? text.size() : brace + 1;
    }
    at = end;
  }
}

}  // namespace foretrace::trace
