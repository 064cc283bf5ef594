#include "base/figures.hpp"

#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace {

void read_figures(std::string_view csv, std::span<const std::pair<std::string_view, double*>> places) {
  std::size_t given = 0;
  for (const std::string_view line : split(csv, '\n')) {
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string_view> fields = csv_fields(line);
    for (const auto& [name, place] : places) {
      if (fields.size() < 2 || fields[0] != name) continue;
      *place = parse_double(fields[1]).value_or(0);
      given += *place > 0 ? 1U : 0U;
    }
  }
  FORETRACE_CHECK(given == places.size());
}

double measured_latency(std::string_view name) {
  double ns = 0;
  const std::pair<std::string_view, double*> place[] = {{name, &ns}};
  read_figures(data_files_in("graph/latencies").front().text, place);
  return ns;
}

}  // namespace foretrace
