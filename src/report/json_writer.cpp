#include "report/json_writer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/readable.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::report {

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x80) {
      const CodePoint point = decode_utf8(text, at);
      if (point.valid) {
        out.append(text, at, point.length);
      } else {
        out += kReplacementCharacter;
      }
      at += point.length;
      continue;
    }
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (c < 0x20 || c == 0x7F) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
        } else {
          out += static_cast<char>(c);
        }
    }
    ++at;
  }
  out += '"';
}

void JsonWriter::new_line(std::size_t depth) {
  out_ += '\n';
  out_.append(2 * depth, ' ');
}

void JsonWriter::separate(Level& level) {
  if (!level.empty) out_ += ',';
  if (level.spread) {
    new_line(levels_.size());
  } else if (!level.empty) {
    out_ += ' ';
  }
  level.empty = false;
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
  } else if (!levels_.empty()) {
    FORETRACE_CHECK(!levels_.back().object);
    separate(levels_.back());
  }
}

JsonWriter& JsonWriter::key(std::string_view name) {
  FORETRACE_CHECK(!levels_.empty() && levels_.back().object && !after_key_);
  separate(levels_.back());
  append_json_string(out_, name);
  out_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::begin(char bracket, bool object) {
  before_value();
  out_ += bracket;
  levels_.push_back({object, static_cast<int>(levels_.size()) < open_levels_});
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  FORETRACE_CHECK(!levels_.empty() && levels_.back().object == (bracket == '}') && !after_key_);
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.spread && !level.empty) new_line(levels_.size());
  out_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::literal(std::string_view text) {
  before_value();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_json_string(out_, text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  before_value();
  fmt::format_to(std::back_inserter(out_), "{}", number);
  return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t number) {
  before_value();
  fmt::format_to(std::back_inserter(out_), "{}", number);
  return *this;
}

JsonWriter& JsonWriter::natural(std::uint64_t number) {
  before_value();
  fmt::format_to(std::back_inserter(out_), "{}", number);
  return *this;
}

}  // namespace foretrace::report
