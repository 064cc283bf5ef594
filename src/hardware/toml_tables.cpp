#include "hardware/toml_tables.hpp"

#include <fmt/format.h>

#include <set>

#include "base/decimal.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace foretrace::hardware {

namespace {

bool bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/// Reads line by line. Each function takes what it reads off the front of the line; the first error stays.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool run(TomlTable& root) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    if (!is_utf8(rest_)) return wrong("the text is not UTF-8");
    TomlTable* table = &root;
    while (next_line()) {
      const bool good = line_.front() == '[' ? header(root, table) : assignment(*table);
      if (!good || !end_of_line()) return false;
    }
    return error_.empty();
  }

  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] std::size_t line() const { return std::max<std::size_t>(number_, 1); }

 private:
  bool wrong(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }
  /// The next line with something on it but a comment; false at the end, or where a line is no text.
  bool next_line() {
    while (!rest_.empty()) {
      const std::size_t end = rest_.find('\n');
      line_ = trimmed(rest_.substr(0, end));
      rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
      ++number_;
      for (const char c : line_) {
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F) return wrong("a control character");
      }
      if (!line_.empty() && line_.front() != '#') return true;
    }
    return false;
  }
  bool take(std::string_view text) {
    line_ = trimmed(line_);
    if (!line_.starts_with(text)) return false;
    line_ = trimmed(line_.substr(text.size()));
    return true;
  }
  [[nodiscard]] bool at_end() const { return line_.empty() || line_.front() == '#'; }
  [[nodiscard]] bool at_quote() const { return line_.starts_with('"') || line_.starts_with('\''); }
  bool end_of_line() { return at_end() || wrong("something follows the value on its line"); }

  bool name(std::string& out) {
    if (at_quote()) return text(out);
    std::size_t n = 0;
    while (n < line_.size() && bare(line_[n])) ++n;
    out = line_.substr(0, n);
    line_ = trimmed(line_.substr(n));
    return n > 0 || wrong("a name is expected");
  }

  // [name] or [[name]]
  bool header(TomlTable& root, TomlTable*& table) {
    const bool several = take("[[");
    if (!several) take("[");
    std::string key;
    if (!name(key)) return false;
    if (!take(several ? "]]" : "]")) return wrong("a table's name is not closed by ]");
    if (root.values.contains(key) || root.lists.contains(key)) return wrong(fmt::format("'{}' is there twice", key));
    if (root.tables.contains(key) && several != several_.contains(key)) {
      return wrong(fmt::format("'{}' is one table and several", key));
    }
    if (root.tables.contains(key) && !several) return wrong(fmt::format("the table '{}' is there twice", key));
    if (several) several_.insert(key);
    table = &root.tables[key].emplace_back();
    return true;
  }

  // key = value
  bool assignment(TomlTable& table) {
    std::string key;
    if (!name(key)) return false;
    if (!take("=")) return wrong("a = is expected behind a name");
    if (table.values.contains(key) || table.lists.contains(key) || table.tables.contains(key)) {
      return wrong(fmt::format("'{}' is there twice", key));
    }
    if (at_end()) return wrong(fmt::format("'{}' has no value", key));
    if (take("[")) return list(table.lists[key]);
    if (at_quote()) return text(table.values[key].emplace<std::string>());
    std::size_t n = 0;
    while (n < line_.size() && (bare(line_[n]) || line_[n] == '.' || line_[n] == '+' || line_[n] == ':')) ++n;
    const std::string_view word = line_.substr(0, n);
    line_ = trimmed(line_.substr(n));
    if (word == "true" || word == "false") {
      table.values[key] = word == "true";
    } else if (const auto number = parse_double(word)) {
      table.values[key] = *number;
    } else {
      return wrong(fmt::format("the value of '{}' is no number, text in quotes, true, false or list", key));
    }
    return true;
  }

  // Texts, perhaps over several lines.
  bool list(std::vector<std::string>& out) {
    for (bool more = true;;) {
      if (take("]")) return true;
      if (at_end()) {
        if (!next_line()) return wrong("a list is not closed by ]");
        continue;
      }
      if (!more) return wrong("a list is not closed by ]");
      if (!at_quote()) return wrong("a list holds texts in quotes");
      if (!text(out.emplace_back())) return false;
      more = take(",");
    }
  }

  // "basic" or 'literal', on one line.
  bool text(std::string& out) {
    const char quote = line_.front();
    if (line_.starts_with(std::string(3, quote))) return wrong("texts over several lines are not read here");
    std::size_t i = 1;
    for (; i < line_.size() && line_[i] != quote; ++i) {
      if (line_[i] == '\\' && quote == '"') {
        ++i;
        if (i == line_.size() || (line_[i] != '"' && line_[i] != '\\')) {
          return wrong("a backslash that means nothing in a text");
        }
      }
      out += line_[i];
    }
    if (i == line_.size()) return wrong("a text is not closed on its line");
    line_ = trimmed(line_.substr(i + 1));
    return true;
  }

  std::string_view rest_, line_;
  std::size_t number_ = 0;
  std::string error_;
  std::set<std::string, std::less<>> several_;  // names with [[name]]
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
