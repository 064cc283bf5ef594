#pragma once
// replay: how well the steps of a trace are met when they are simulated unchanged, as text and JSON.

#include <string>

#include "foretrace/analysis/replay.hpp"
#include "foretrace/report/text_style.hpp"

namespace foretrace::report {

class JsonWriter;

std::string to_text(const analysis::TraceReplay& replay, const TextStyle& style = {});
/// An object that starts with "schema": 1.
std::string to_json(const analysis::TraceReplay& replay);
/// The members of that object, without its braces.
void write_members(JsonWriter& json, const analysis::TraceReplay& replay);
void write_json(JsonWriter& json, const analysis::TraceReplay& replay);

}  // namespace foretrace::report
