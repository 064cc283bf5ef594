#include "cli/errors.hpp"

#include <algorithm>

#include "base/readable.hpp"
#include "base/text.hpp"

namespace foretrace::cli {
namespace {

struct Code {
  ErrorCode code;
  std::string_view name;  // in JSON
  int exit_code;
};
constexpr Code kCodes[] = {{ErrorCode::kUsage, "usage", kWrongUsage},
                           {ErrorCode::kUnreadable, "unreadable", kUnreadableInput},
                           {ErrorCode::kDeclined, "declined", kDeclined},
                           {ErrorCode::kOutput, "output", kCannotWrite}};

Code code_of(const Error& error) {
  for (const Code& known : kCodes) {
    if (known.code == error.code) return known;
  }
  return {ErrorCode::kInternal, "internal", kBug};
}

void text_or_null(report::JsonWriter& json, std::string_view key, const std::string& text) {
  json.key(key);
  text.empty() ? json.null() : json.value(text);
}

}  // namespace

int exit_code(const Error& error) { return code_of(error).exit_code; }

std::string error_text(const Error& error) {
  Error shown = error;
  for (std::string* text : {&shown.message, &shown.file, &shown.hint}) *text = printable(*text);
  return shown.to_string();
}

std::string message_text(const std::string& text, const Terminal& terminal) {
  if (!terminal.err_is_terminal) return text;
  std::string out;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    out += (out.empty() ? "" : "\n") + std::string(indent, ' ') + wrap(line, terminal.width, indent + 2, indent);
  }
  return out;
}

void write_error(report::JsonWriter& json, const Error& error) {
  json.begin_object().member("schema", 1).key("error").begin_object();
  json.member("code", code_of(error).name).member("message", error.message);
  text_or_null(json, "file", error.file);
  json.key("offset");
  error.offset == Error::kNoOffset ? json.null() : json.value(error.offset);
  text_or_null(json, "hint", error.hint);
  json.end_object().end_object();
}

}  // namespace foretrace::cli
