// The list of formats. A new one adds its declaration and its line here.

#include "trace/importers/importer.hpp"

namespace foretrace::trace {

Importer chakra_importer();
Importer kineto_importer();
Importer nsight_importer();
Importer operations_csv_importer();
Importer xla_json_importer();
Importer xplane_importer();

const std::vector<Importer>& importers() {
  static const std::vector<Importer> all = {
      chakra_importer(),         kineto_importer(),   nsight_importer(),
      operations_csv_importer(), xla_json_importer(), xplane_importer(),
  };
  return all;
}

const Importer* recognise_format(std::string_view head) {
  const Importer* best = nullptr;
  int best_score = 0;
  for (const Importer& importer : importers()) {
    const int score = importer.sniff(head);
    if (score > best_score) {
      best = &importer;
      best_score = score;
    }
  }
  return best;
}

}  // namespace foretrace::trace
