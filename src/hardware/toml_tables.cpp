#include "hardware/toml_tables.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <set>

#include "base/decimal.hpp"
#include "base/utf8.hpp"

namespace foretrace::hardware {

namespace {

constexpr int kDeepest = 16;  // lists in lists, tables in tables

bool bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/// One pass over the text. Every function stands in front of what it reads and leaves the place behind it; the first error
/// stays, and everything returns when there is one.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool run(TomlTable& root) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    if (!is_utf8(text_)) return wrong("the text is not UTF-8");
    TomlTable* table = &root;
    std::string path;
    while (good()) {
      skip_blanks();
      if (at_end()) return true;
      if (peek() == '[') {
        table = header(root, path);
      } else if (peek() != '\n' && peek() != '#') {
        assignment(*table, path, 0);
      }
      if (good()) end_of_line();
    }
    return false;
  }

  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] std::size_t line() const {
    std::size_t n = 1;
    for (std::size_t i = 0; i < at_ && i < text_.size(); ++i) n += text_[i] == '\n' ? 1u : 0u;
    return n;
  }

 private:
  bool wrong(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }
  [[nodiscard]] bool good() const { return error_.empty(); }
  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  /// '\n' for a line's end in either form; 0 at the end of the text.
  [[nodiscard]] char peek() const {
    if (at_end()) return 0;
    return text_[at_] == '\r' && text_.substr(at_ + 1, 1) == "\n" ? '\n' : text_[at_];
  }
  bool take(char c) {
    if (at_end() || peek() != c) return false;
    at_ += text_[at_] == '\r' ? 2u : 1u;
    return true;
  }
  void skip_blanks() {
    while (!at_end() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  void skip_comment() {
    if (!take('#')) return;
    while (!at_end() && peek() != '\n') {
      if (control(text_[at_])) {
        wrong("a control character in a comment");
        return;
      }
      ++at_;
    }
  }
  static bool control(char c) {
    const auto u = static_cast<unsigned char>(c);
    return (u < 0x20 && c != '\t') || u == 0x7F;
  }
  void end_of_line() {
    skip_blanks();
    skip_comment();
    if (good() && !at_end() && !take('\n')) wrong("something follows the value on its line");
  }
  /// Inside a list, values may be spread over lines.
  void skip_lines() {
    while (good()) {
      skip_blanks();
      if (!at_end() && peek() == '#') {
        skip_comment();
      } else if (!take('\n')) {
        return;
      }
    }
  }

  // a.'b c'."d"
  std::vector<std::string> key() {
    std::vector<std::string> parts;
    do {
      skip_blanks();
      std::string part;
      if (!at_end() && (peek() == '"' || peek() == '\'')) {
        part = quoted();
      } else {
        while (!at_end() && bare(text_[at_])) part += text_[at_++];
        if (part.empty()) wrong("a name is expected");
      }
      parts.push_back(std::move(part));
      skip_blanks();
    } while (good() && parts.size() <= kDeepest && take('.'));
    if (parts.size() > kDeepest) wrong("tables in tables, too deep");
    return parts;
  }

  // Places are named by the way to them, with the number of a list's item: no text can stand for two places.
  static std::string below(const std::string& path, const std::string& name) {
    return fmt::format("{}{}:{}/", path, name.size(), name);
  }
  /// The table `name` of a table, which becomes one when there is none; the last of several.
  TomlTable* inner(TomlTable& table, const std::string& name, std::string& path) {
    path = below(path, name);
    if (values_.contains(path)) {
      wrong(fmt::format("'{}' is a value and no table", name));
      return nullptr;
    }
    std::vector<TomlTable>& all = table.tables[name];
    if (all.empty()) all.emplace_back();
    if (lists_.contains(path)) path = fmt::format("{}{}/", path, all.size());
    return &all.back();
  }

  // [name] or [[name]]
  TomlTable* header(TomlTable& root, std::string& path) {
    take('[');
    const bool one_of_many = take('[');
    const std::vector<std::string> parts = key();
    if (good() && (!take(']') || (one_of_many && !take(']')))) wrong("a table's name is not closed by ]");
    TomlTable* table = &root;
    path.clear();
    for (std::size_t i = 0; good() && i + 1 < parts.size(); ++i) table = inner(*table, parts[i], path);
    if (!good()) return nullptr;
    const std::string whole = below(path, parts.back());
    if (values_.contains(whole)) {
      wrong(fmt::format("'{}' is there twice", parts.back()));
    } else if (one_of_many) {
      if (table->tables.contains(parts.back()) && !lists_.contains(whole)) {
        wrong(fmt::format("'{}' is one table and several", parts.back()));
        return nullptr;
      }
      lists_.insert(whole);
      table->tables[parts.back()].emplace_back();
      return inner(*table, parts.back(), path);
    } else if (lists_.contains(whole) || !headers_.insert(whole).second) {
      wrong(fmt::format("the table '{}' is there twice", parts.back()));
    }
    return good() ? inner(*table, parts.back(), path) : nullptr;
  }

  // key = value
  void assignment(TomlTable& table, const std::string& path, int depth) {
    const std::vector<std::string> parts = key();
    if (good() && !take('=')) wrong("a = is expected behind a name");
    TomlTable* inside = &table;
    std::string place = path;
    for (std::size_t i = 0; good() && i + 1 < parts.size(); ++i) inside = inner(*inside, parts[i], place);
    if (!good()) return;
    const std::string whole = below(place, parts.back());
    if (inside->tables.contains(parts.back()) || !values_.insert(whole).second) {
      wrong(fmt::format("'{}' is there twice", parts.back()));
      return;
    }
    skip_blanks();
    value(*inside, parts.back(), whole, depth);
  }

  void value(TomlTable& table, const std::string& name, const std::string& path, int depth) {
    if (depth >= kDeepest) {
      wrong("lists in lists, too deep");
    } else if (at_end() || peek() == '\n') {
      wrong(fmt::format("'{}' has no value", name));
    } else if (peek() == '"' || peek() == '\'') {
      table.values[name] = quoted();
    } else if (peek() == '{') {
      inline_table(table.tables[name].emplace_back(), path, depth);
    } else if (peek() == '[') {
      list(table, name, path, depth);
    } else {
      scalar(table, name);
    }
  }

  void inline_table(TomlTable& table, const std::string& path, int depth) {
    take('{');
    const std::string inside = fmt::format("{}{}/", path, items_++);
    skip_blanks();
    if (take('}')) return;
    do {
      skip_blanks();
      assignment(table, inside, depth + 1);
      skip_blanks();
    } while (good() && take(','));
    if (good() && !take('}')) wrong("a table in braces is not closed by }");
  }

  // Texts and tables of it are kept; nothing here has lists of numbers.
  void list(TomlTable& table, const std::string& name, const std::string& path, int depth) {
    take('[');
    while (good()) {
      skip_lines();
      if (take(']') || !good()) return;
      TomlTable item;
      value(item, name, path, depth + 1);
      if (const auto text = item.text(name)) table.lists[name].push_back(*text);
      if (const auto found = item.tables.find(name); found != item.tables.end()) {
        for (TomlTable& one : found->second) table.tables[name].push_back(std::move(one));
      }
      if (const auto found = item.lists.find(name); found != item.lists.end()) {
        for (std::string& one : found->second) table.lists[name].push_back(std::move(one));
      }
      skip_lines();
      if (good() && !take(',') && (at_end() || peek() != ']')) wrong("a list is not closed by ]");
    }
  }

  // "basic" or 'literal', on one line.
  std::string quoted() {
    const char quote = text_[at_];
    if (text_.substr(at_, 3) == std::string(3, quote)) {
      wrong("texts over several lines are not read here");
      return {};
    }
    ++at_;
    std::string out;
    while (!at_end() && text_[at_] != quote && good()) {
      if (control(text_[at_])) {
        wrong(peek() == '\n' ? "a text is not closed on its line" : "a control character in a text");
      } else if (text_[at_] == '\\' && quote == '"') {
        escape(out);
      } else {
        out += text_[at_++];
      }
    }
    if (good() && !take(quote)) wrong("a text is not closed");
    return out;
  }

  void escape(std::string& out) {
    constexpr std::string_view kLetters = "btnfr\"\\";
    constexpr std::string_view kMeaning = "\b\t\n\f\r\"\\";
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    at_ += 2;
    if (const std::size_t i = c == '\0' ? std::string_view::npos : kLetters.find(c); i != std::string_view::npos) {
      out += kMeaning[i];
      return;
    }
    const std::size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
    std::uint32_t code = 0;
    const std::string_view hex = text_.substr(std::min(at_, text_.size()), digits);
    const auto [end, failed] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    const bool read = failed == std::errc() && end == hex.data() + hex.size();
    if (digits == 0 || hex.size() < digits || !read || !append_utf8(out, code)) {
      wrong("a backslash that means nothing in a text");
      return;
    }
    at_ += digits;
  }

  void scalar(TomlTable& table, const std::string& name) {
    std::string word;
    while (!at_end() && (bare(text_[at_]) || text_[at_] == '.' || text_[at_] == '+' || text_[at_] == ':')) {
      word += text_[at_++];
    }
    if (word == "true" || word == "false") {
      table.values[name] = word == "true";
    } else if (const auto number = number_of(word)) {
      table.values[name] = *number;
    } else {
      wrong(fmt::format("the value of '{}' is no number, text in quotes, true, false or list", name));
    }
  }

  /// 12, -0.5, 1e-3, 1_000, 0xFF, 0o17, 0b11; all finite.
  static std::optional<double> number_of(std::string_view word) {
    const bool negative = word.starts_with('-');
    const bool sign = negative || word.starts_with('+');
    if (sign) word.remove_prefix(1);
    std::string digits;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (word[i] != '_') {
        digits += word[i];
      } else if (i == 0 || i + 1 == word.size() || !bare(word[i - 1]) || word[i - 1] == '_' || !bare(word[i + 1])) {
        return std::nullopt;
      }
    }
    const int base = digits.starts_with("0x") ? 16 : digits.starts_with("0o") ? 8 : digits.starts_with("0b") ? 2 : 10;
    if (base != 10) {
      std::uint64_t whole = 0;
      const char* end = digits.data() + digits.size();
      const auto [read, failed] = std::from_chars(digits.data() + 2, end, whole, base);
      // Only decimal numbers have a sign.
      if (failed != std::errc() || read != end || digits.size() == 2 || sign) return std::nullopt;
      return static_cast<double>(whole);
    }
    // As TOML has it: a digit in front of and behind the point, no zero in front of others.
    const std::size_t point = digits.find('.');
    const auto digit = [&](std::size_t i) { return i < digits.size() && digits[i] >= '0' && digits[i] <= '9'; };
    if (!digit(0) || (digits[0] == '0' && digit(1))) return std::nullopt;
    if (point != std::string::npos && (!digit(point - 1) || !digit(point + 1))) return std::nullopt;
    const std::optional<double> value = parse_double(digits);
    return value && negative ? -*value : value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
  std::set<std::string, std::less<>> values_;   // places with a value
  std::set<std::string, std::less<>> headers_;  // with [name]
  std::set<std::string, std::less<>> lists_;    // with [[name]]
  std::size_t items_ = 0;                       // tables in braces so far: each is a place of its own
};

}  // namespace

std::optional<double> TomlTable::number(std::string_view key) const {
  const auto at = values.find(key);
  if (at == values.end() || !std::holds_alternative<double>(at->second)) return std::nullopt;
  return std::get<double>(at->second);
}

std::optional<std::string> TomlTable::text(std::string_view key) const {
  const auto at = values.find(key);
  if (at == values.end() || !std::holds_alternative<std::string>(at->second)) return std::nullopt;
  return std::get<std::string>(at->second);
}

bool TomlTable::flag(std::string_view key) const {
  const auto at = values.find(key);
  return at != values.end() && std::holds_alternative<bool>(at->second) && std::get<bool>(at->second);
}

const TomlTable& TomlTable::table(std::string_view name) const {
  static const TomlTable kNone;
  const auto at = tables.find(name);
  return at == tables.end() ? kNone : at->second.front();
}

Result<TomlTable> parse_toml(std::string_view text, const std::string& origin, const std::string& hint) {
  TomlTable out;
  Reader reader(text);
  if (reader.run(out)) return out;
  return tl::unexpected<Error>(Error{ErrorCode::kUnreadable, fmt::format("line {}: {}", reader.line(), reader.error()),
                                     origin, Error::kNoOffset, hint});
}

}  // namespace foretrace::hardware
