#pragma once
// Errors on the command line: exit codes, and JSON of the same shape for every verb.

#include "foretrace/base/result.hpp"
#include "foretrace/cli/run.hpp"
#include "report/json_writer.hpp"

namespace foretrace::cli {

/// A message of one or more lines for the error stream; wrapped where that is a terminal.
std::string message_text(const std::string& text, const Terminal& terminal);

int exit_code(const Error& error);

/// As Error::to_string, with whatever the input put into it made safe to print.
std::string error_text(const Error& error);

/// {"schema": 1, "error": {"code": "unreadable", "message": …, "file": …|null, "offset": …|null, "hint": …|null}}
void write_error(report::JsonWriter& json, const Error& error);

}  // namespace foretrace::cli
