#pragma once
// What the text, the JSON and the markdown of a comparison share.

#include <string>
#include <utility>
#include <vector>

#include "foretrace/compare/compare.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

std::string signed_ms(Ns time);                     ///< "+1.204"
std::string percent_text(const compare::Row& row);  ///< "-3.1", "new", "gone"
std::string count_text(double count);               ///< "12"; of an average "12.5"
std::string p_text(double p);                       ///< "0.031", "<0.001"
double percent_error(Ns predicted, Ns measured);
std::string cause_words(const compare::Cause& cause);
std::string capital(std::string text);                       ///< with a capital first letter
std::string_view decided_words(compare::DecidedBy decided);  ///< "the traced steps decide, …"
std::string markdown_cell(const std::string& text);          ///< a name from a trace may hold anything
std::string_view outcome_sign(compare::Outcome outcome);     ///< for markdown
void write_change(JsonWriter& json, const compare::Change& change);
void write_cause(JsonWriter& json, const compare::Cause& cause);  ///< inside an object
void write_part(JsonWriter& json, const compare::Part& part);     ///< inside an object
std::string verdict_words(const compare::Verdict& verdict);

/// (title, rows) of each table, in the order they are shown.
inline std::vector<std::pair<std::string, const std::vector<compare::Row>*>> named_tables(const compare::Tables& t) {
  return {
      {"Phases, GPU ms", &t.phases}, {"Phases, CPU ms", &t.cpu_phases},     {"Families of kernels", &t.families},
      {"Layers, GPU ms", &t.layers}, {"Operations, GPU ms", &t.operations}, {"Operations, CPU ms", &t.cpu_operations},
      {"Kernels", &t.kernels}};
}

}  // namespace foretrace::report
