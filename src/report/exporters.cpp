// The list of exporters. A new one adds its declaration and its line here.

#include <algorithm>

#include "report/exporter.hpp"

namespace foretrace::report {

Exporter chakra_exporter();
Exporter csv_exporter();
Exporter parquet_exporter();
Exporter perfetto_exporter();

const std::vector<Exporter>& exporters() {
  static const std::vector<Exporter> kAll = {
      chakra_exporter(),
      csv_exporter(),
      parquet_exporter(),
      perfetto_exporter(),
  };
  return kAll;
}

const Exporter* find_exporter(std::string_view name) {
  const std::vector<Exporter>& all = exporters();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Exporter& e) { return e.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace foretrace::report
