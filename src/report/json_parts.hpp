#pragma once
// Reports written into a larger JSON document: a list of traces, where some may have failed, and the page.

#include "foretrace/analysis/doctor.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/analysis/summary.hpp"

namespace foretrace::report {

class JsonWriter;

void write_json(JsonWriter& json, const analysis::DoctorReport& report);
void write_json(JsonWriter& json, const analysis::TraceSet& set);
void write_json(JsonWriter& json, const analysis::SummaryReport& report);
void write_json(JsonWriter& json, const analysis::TraceReplay& replay);
/// The members of that object, without its braces.
void write_members(JsonWriter& json, const analysis::TraceReplay& replay);

}  // namespace foretrace::report
