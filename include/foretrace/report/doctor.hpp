#pragma once
// What a trace holds and lacks, as text and JSON.

#include <string>

#include "foretrace/analysis/doctor.hpp"
#include "foretrace/report/text_style.hpp"

namespace foretrace::report {

class JsonWriter;

std::string to_text(const analysis::DoctorReport& report, const TextStyle& style = {});
/// An object that starts with "schema": 1.
std::string to_json(const analysis::DoctorReport& report);
void write_json(JsonWriter& json, const analysis::DoctorReport& report);
void write_json(JsonWriter& json, const analysis::TraceSet& set);

}  // namespace foretrace::report
