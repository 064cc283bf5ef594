#pragma once
// A streaming JSON writer: appends to one string, puts the commas, escapes the texts. Always produces valid JSON: bytes
// that are not UTF-8 become U+FFFD, numbers that are not finite become null. Numbers keep all their digits (shortest
// form that reads back to the same double). Outer levels are spread over lines and inner ones are not, so that a table
// prints one row a line:
//
//   std::string out;
//   JsonWriter json(out);
//   json.begin_object().member("schema", 1).key("steps").begin_array();
//   json.begin_object().member("step", "ProfilerStep#4").member("traced_ms", 80.562332).end_object();
//   json.end_array().end_object();
//
//   {
//     "schema": 1,
//     "steps": [
//       {"step": "ProfilerStep#4", "traced_ms": 80.562332}
//     ]
//   }

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/types.hpp"

namespace foretrace::report {

class JsonWriter {
 public:
  /// Objects and arrays nested deeper than `open_levels` are written on one line.
  explicit JsonWriter(std::string& out, int open_levels = 2) : out_(out), open_levels_(open_levels) {}

  JsonWriter& begin_object() { return begin('{', true); }
  JsonWriter& end_object() { return end('}'); }
  JsonWriter& begin_array() { return begin('[', false); }
  JsonWriter& end_array() { return end(']'); }
  /// The name of the next value; only inside an object.
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return literal(truth ? "true" : "false"); }
  JsonWriter& value(double number);
  JsonWriter& value(std::signed_integral auto number) { return integer(number); }
  JsonWriter& value(std::unsigned_integral auto number) { return natural(number); }
  JsonWriter& null() { return literal("null"); }
  /// A value that is valid JSON already.
  JsonWriter& raw(std::string_view json) { return literal(json); }
  template <class T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }

  template <class T>
  JsonWriter& value(const std::vector<T>& list) {
    begin_array();
    for (const T& one : list) value(one);
    return end_array();
  }

  template <class T>
  JsonWriter& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  /// A text, null when it is empty.
  JsonWriter& member_or_null(std::string_view name, std::string_view text) {
    key(name);
    return text.empty() ? null() : value(text);
  }
  /// An array of objects; `write` writes the members of each.
  template <class Rows, class Write>
  JsonWriter& objects(std::string_view name, const Rows& rows, const Write& write) {
    key(name).begin_array();
    for (const auto& row : rows) {
      begin_object();
      write(row);
      end_object();
    }
    return end_array();
  }
  /// A time in milliseconds, null where it is not known.
  JsonWriter& member_ms(std::string_view name, std::optional<Ns> time) {
    return key(name).value(time ? std::optional(to_ms(*time)) : std::nullopt);
  }

 private:
  struct Level {
    bool object;
    bool spread;  // one entry a line
    bool empty = true;
  };
  JsonWriter& begin(char bracket, bool object);
  JsonWriter& end(char bracket);
  JsonWriter& literal(std::string_view text);
  JsonWriter& integer(std::int64_t number);
  JsonWriter& natural(std::uint64_t number);
  void before_value();
  void separate(Level& level);
  void new_line(std::size_t depth);

  std::string& out_;
  int open_levels_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

/// Appends `text` as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

/// What `write` writes, as the text a command prints.
template <class Write>
std::string json_text(const Write& write) {
  std::string out;
  JsonWriter json(out);
  write(json);
  return out + "\n";
}

}  // namespace foretrace::report
