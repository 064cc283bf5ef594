#include <simdjson.h>

#include "analysis/doctor/checks.hpp"
#include "foretrace/host/measured_step.hpp"

namespace foretrace::analysis {
namespace {

// docs/reference/recording.md says what each is.
constexpr std::string_view kFields[] = {"version",
                                        "measured_ms",
                                        "measured_p10_ms",
                                        "measured_p90_ms",
                                        "measured_by",
                                        "measured_steps",
                                        "step_ms",
                                        "host_step_ms",
                                        "period_ms",
                                        "asynchronous",
                                        "cpu_ms_per_step",
                                        "thread_cpu_ms_per_step",
                                        "phase_ms",
                                        "phase_behind_ms",
                                        "traced_phase_ms",
                                        "probe",
                                        "cores_shared",
                                        "peak_bytes",
                                        "peak_reserved_bytes",
                                        "warmup_steps",
                                        "traced_steps",
                                        "traced_host_ms",
                                        "layer_ranges",
                                        "torch",
                                        "cuda",
                                        "python",
                                        "device",
                                        "host_cpu",
                                        "host_cpu_count",
                                        "host_cpus_usable",
                                        "intra_op_threads",
                                        "rank",
                                        "world_size",
                                        "missing"};

}  // namespace

std::vector<std::pair<std::string, std::string>> recorder_fields(const trace::Trace& trace) {
  std::vector<std::pair<std::string, std::string>> out;
  const std::string figures = host::recorder_json(trace);
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (figures.empty() || parser.parse(figures).get(object) != simdjson::SUCCESS) return out;
  for (const std::string_view field : kFields) {
    simdjson::dom::element value;
    if (object[field].get(value) != simdjson::SUCCESS) continue;
    out.emplace_back(field, simdjson::to_string(value));
  }
  return out;
}

}  // namespace foretrace::analysis
