#include "cli/errors.hpp"

#include "base/readable.hpp"

namespace foretrace::cli {
namespace {

std::string_view code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kUnreadable:
      return "unreadable";
    case ErrorCode::kDeclined:
      return "declined";
    case ErrorCode::kOutput:
      return "output";
    default:
      return "internal";
  }
}

void text_or_null(report::JsonWriter& json, std::string_view key, const std::string& text) {
  json.key(key);
  text.empty() ? json.null() : json.value(text);
}

}  // namespace

int exit_code(const Error& error) {
  switch (error.code) {
    case ErrorCode::kUsage:
      return kWrongUsage;
    case ErrorCode::kUnreadable:
      return kUnreadableInput;
    case ErrorCode::kDeclined:
      return kDeclined;
    case ErrorCode::kOutput:
      return kCannotWrite;
    default:
      return kBug;
  }
}

std::string error_text(const Error& error) {
  Error shown = error;
  for (std::string* text : {&shown.message, &shown.file, &shown.hint}) *text = printable(*text);
  return shown.to_string();
}

void write_error(report::JsonWriter& json, const Error& error) {
  json.begin_object().member("schema", 1).key("error").begin_object();
  json.member("code", code_name(error.code)).member("message", error.message);
  text_or_null(json, "file", error.file);
  json.key("offset");
  error.offset == Error::kNoOffset ? json.null() : json.value(error.offset);
  text_or_null(json, "hint", error.hint);
  json.end_object().end_object();
}

}  // namespace foretrace::cli
