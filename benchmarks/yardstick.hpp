#pragma once
// The yardstick of reading speed: what simdjson needs to look at every key and every value of a trace and keep nothing.
//
// The body of traceEvents is cut into pieces of 256 KiB on record boundaries, each is copied as "[…]" into one reused
// padded buffer and walked with one reused on-demand parser: numbers become doubles, strings are unescaped, true,
// false and null are checked, keys are compared by nobody. This is the fastest complete pass over the file that the
// fastest JSON parser known to us makes; an importer that also builds columns is measured as a fraction of it.

#include <simdjson.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace foretrace::benchmarks {

struct Visited {
  std::uint64_t records = 0;
  std::uint64_t values = 0;
  std::uint64_t text_bytes = 0;  ///< of strings and keys, so that no compiler can skip them
  double sum = 0;                ///< of numbers
  std::string error;             ///< empty when every byte was visited
};

class Yardstick {
 public:
  static constexpr std::size_t kPieceBytes = 256 << 10;

  Visited visit(std::string_view text) {
    Visited v;
    const std::size_t key = text.find("\"traceEvents\"");
    const std::size_t open = key == std::string_view::npos ? key : text.find('[', key);
    if (open == std::string_view::npos) return failed("no traceEvents");
    std::size_t at = open + 1;
    while (true) {
      const bool last = text.size() - at <= kPieceBytes;
      const char next = last ? ']' : ',';
      std::size_t end = cut(text, last ? at : at + kPieceBytes, next);
      // a cut may fall into an argument's own list of objects: simdjson rejects that piece, the next cut is tried
      for (int tries = 0;; ++tries) {
        Visited piece;
        if (parse(text.substr(at, end - at), piece)) {
          v.records += piece.records;
          v.values += piece.values;
          v.text_bytes += piece.text_bytes;
          v.sum += piece.sum;
          break;
        }
        if (tries > 100 || end == std::string_view::npos)
          return failed("byte " + std::to_string(at) + ": simdjson rejects the piece");
        end = cut(text, end + 1, next);
      }
      if (last) return v;
      at = text.find('{', end + 1);
    }
  }

 private:
  static Visited failed(std::string why) {
    Visited v;
    v.error = std::move(why);
    return v;
  }

  /// End of a record at or after `from`: the place behind a '}' that is followed by `next`; a ',' also by a '{'.
  static std::size_t cut(std::string_view text, std::size_t from, char next) {
    for (std::size_t i = text.find('}', from); i != std::string_view::npos; i = text.find('}', i + 1)) {
      const std::size_t mark = text.find_first_not_of(" \t\r\n", i + 1);
      if (mark == std::string_view::npos || text[mark] != next) continue;
      if (next == ']') return i + 1;
      const std::size_t brace = text.find_first_not_of(" \t\r\n", mark + 1);
      if (brace != std::string_view::npos && text[brace] == '{') return i + 1;
    }
    return std::string_view::npos;
  }

  bool parse(std::string_view records, Visited& v) {
    const std::size_t size = records.size() + 2;
    if (buffer_.size() < size + simdjson::SIMDJSON_PADDING) buffer_.resize(2 * size + simdjson::SIMDJSON_PADDING);
    buffer_[0] = '[';
    std::memcpy(buffer_.data() + 1, records.data(), records.size());
    buffer_[size - 1] = ']';
    simdjson::ondemand::document document;
    if (parser_.iterate(buffer_.data(), size, buffer_.size()).get(document) != simdjson::SUCCESS) return false;
    simdjson::ondemand::array array;
    if (document.get_array().get(array) != simdjson::SUCCESS) return false;
    for (auto element : array) {
      simdjson::ondemand::value value;
      if (element.get(value) != simdjson::SUCCESS || !walk(value, v)) return false;
      ++v.records;
    }
    return true;
  }

  // NOLINTNEXTLINE(misc-no-recursion): the shape of JSON; simdjson bounds the depth
  static bool walk(simdjson::ondemand::value value, Visited& v) {
    using simdjson::SUCCESS;
    using Type = simdjson::ondemand::json_type;
    ++v.values;
    Type type{};
    if (value.type().get(type) != SUCCESS) return false;
    switch (type) {
      case Type::object: {
        simdjson::ondemand::object object;
        if (value.get_object().get(object) != SUCCESS) return false;
        for (auto item : object) {
          simdjson::ondemand::field field;
          if (std::move(item).get(field) != SUCCESS) return false;
          v.text_bytes += static_cast<std::uint64_t>(field.key().raw()[0]);
          if (!walk(field.value(), v)) return false;
        }
        return true;
      }
      case Type::array: {
        simdjson::ondemand::array array;
        if (value.get_array().get(array) != SUCCESS) return false;
        for (auto element : array) {
          simdjson::ondemand::value child;
          if (element.get(child) != SUCCESS || !walk(child, v)) return false;
        }
        return true;
      }
      case Type::number: {
        double number = 0;
        if (value.get_double().get(number) != SUCCESS) return false;
        v.sum += number;
        return true;
      }
      case Type::string: {
        std::string_view text;
        if (value.get_string().get(text) != SUCCESS) return false;
        v.text_bytes += text.size();
        return true;
      }
      case Type::boolean: {
        bool truth = false;
        if (value.get_bool().get(truth) != SUCCESS) return false;
        v.text_bytes += truth ? 1 : 0;
        return true;
      }
      case Type::null:
        return value.is_null();
    }
    return false;
  }

  simdjson::ondemand::parser parser_;
  std::string buffer_;
};

}  // namespace foretrace::benchmarks
