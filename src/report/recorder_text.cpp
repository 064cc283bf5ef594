#include "report/recorder_text.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <map>
#include <optional>

#include "base/readable.hpp"

namespace foretrace::report {
namespace {

class Fields {
 public:
  explicit Fields(const std::vector<std::pair<std::string, std::string>>& fields) {
    simdjson::dom::parser parser;
    for (const auto& [name, json] : fields) {
      simdjson::dom::element value;
      if (parser.parse(json).get(value) != simdjson::SUCCESS) continue;
      if (double number = 0; value.get(number) == simdjson::SUCCESS) numbers_.emplace(name, number);
      if (std::string_view text; value.get(text) == simdjson::SUCCESS && !text.empty()) texts_.emplace(name, text);
      if (simdjson::dom::array list; value.get(list) == simdjson::SUCCESS) {
        std::string words;
        for (const simdjson::dom::element one : list) {
          if (std::string_view word; one.get(word) == simdjson::SUCCESS)
            words += (words.empty() ? "" : ", ") + std::string(word);
        }
        if (!words.empty()) texts_.emplace(name, std::move(words));
      }
    }
  }

  [[nodiscard]] std::optional<double> number(const char* name) const {
    const auto at = numbers_.find(name);
    return at == numbers_.end() ? std::nullopt : std::optional(at->second);
  }
  /// "PyTorch 2.11.0"; empty where it is not known.
  [[nodiscard]] std::string text(const char* label, const char* name) const {
    const auto at = texts_.find(name);
    return at == texts_.end() ? std::string() : label + at->second;
  }

 private:
  std::map<std::string, double, std::less<>> numbers_;
  std::map<std::string, std::string, std::less<>> texts_;
};

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string out;
  for (const std::string& part : parts) {
    if (!part.empty()) out += (out.empty() ? "" : between) + part;
  }
  return out;
}

std::string ms(double time) { return fmt::format("{:.{}f}", time, time < 1 ? 3 : 2); }

std::string memory(double bytes) { return format_memory(static_cast<std::uint64_t>(std::max(0.0, bytes))); }

std::string steps_of(double count) { return plural(static_cast<std::uint64_t>(std::max(0.0, count)), "step"); }

std::string measured(const Fields& f) {
  const std::optional<double> step = f.number("measured_ms"), low = f.number("measured_p10_ms"),
                              high = f.number("measured_p90_ms");
  if (!step) return {};
  const std::string range = low && high ? fmt::format("{} to {} ms", ms(*low), ms(*high)) : "";
  const std::string count = f.number("measured_steps") ? steps_of(*f.number("measured_steps")) : "";
  const std::string details = joined({count, range}, ", ");
  return fmt::format("{} ms a step without the profiler{}", ms(*step), details.empty() ? "" : " (" + details + ")");
}

std::string traced(const Fields& f) {
  const std::optional<double> steps = f.number("traced_steps"), warm = f.number("warmup_steps");
  if (!steps) return {};
  return steps_of(*steps) + " traced" + (warm ? fmt::format(" after {} to warm up", steps_of(*warm)) : "");
}

std::string peak(const Fields& f) {
  const std::optional<double> bytes = f.number("peak_bytes"), reserved = f.number("peak_reserved_bytes");
  if (!bytes) return {};
  return fmt::format("peak {}", memory(*bytes)) + (reserved ? fmt::format(", {} reserved", memory(*reserved)) : "");
}

std::string host(const Fields& f) {
  const std::optional<double> all = f.number("host_cpu_count"), usable = f.number("host_cpus_usable");
  const std::string cpus = all ? fmt::format("{:.0f}{} CPUs", usable.value_or(*all),
                                             usable && *usable < *all ? fmt::format(" of {:.0f}", *all) : "")
                               : "";
  return joined({f.text("", "host_cpu"), cpus}, ", ");
}

}  // namespace

std::string recorder_text(const std::vector<std::pair<std::string, std::string>>& fields) {
  const Fields f(fields);
  const std::string software = joined(
      {f.text("PyTorch ", "torch"), f.text("JAX ", "jax"), f.text("CUDA ", "cuda"), f.text("Python ", "python")}, ", ");
  return joined({measured(f), traced(f), peak(f), software, host(f), f.text("missing: ", "missing")}, "; ");
}

}  // namespace foretrace::report
