#pragma once
// The same notes in JSON.

#include "foretrace/report/report.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

void write_json(JsonWriter& json, const graph::Graph::Notes& notes);

}  // namespace foretrace::report
