#include "report/doctor_recorder.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>

#include "foretrace/analysis/recorder.hpp"

namespace foretrace::report {
namespace {

// docs/recording.md says what each is.
constexpr std::array<std::string_view, 34> kFields{"version",
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
  const std::string figures = analysis::recorder_figures(trace);
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

std::string recorder_text(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string out;
  simdjson::dom::parser parser;
  for (const auto& [name, json] : fields) {
    simdjson::dom::element value;
    if (parser.parse(json).get(value) != simdjson::SUCCESS || value.is_null()) continue;
    std::string text = json;
    simdjson::dom::array list;
    if (std::string_view plain; value.get(plain) == simdjson::SUCCESS) {
      text = plain;
    } else if (value.get(list) == simdjson::SUCCESS) {
      double least = 0, most = 0;
      std::size_t numbers = 0;
      std::string words;
      for (const simdjson::dom::element one : list) {
        double number = 0;
        if (one.get(number) == simdjson::SUCCESS) {
          least = numbers == 0 ? number : std::min(least, number);
          most = numbers == 0 ? number : std::max(most, number);
          ++numbers;
        } else if (std::string_view word; one.get(word) == simdjson::SUCCESS) {
          words += fmt::format("{}{}", words.empty() ? "" : "; ", word);
        }
      }
      if (list.size() == 0) continue;
      text = numbers > 0 ? fmt::format("{} of {} to {}", numbers, least, most) : words;
    }
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, text);
  }
  return out;
}

}  // namespace foretrace::report
