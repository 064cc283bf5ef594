// The list of formats. A new one adds its declaration and its line here.

#include "trace/importers/importer.hpp"

namespace foretrace::trace {

Importer chakra_importer();
Importer kineto_importer();
Importer operations_csv_importer();

const std::vector<Importer>& importers() {
  static const std::vector<Importer> all = {
      chakra_importer(),
      kineto_importer(),
      operations_csv_importer(),
  };
  return all;
}

}  // namespace foretrace::trace
