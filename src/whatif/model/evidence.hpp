#pragma once
// How often each what-if of the catalogue has been compared with measured steps (validation/counts.csv, which
// tools/validation.py writes from the measurements themselves), and how far its predictions were off there
// (validation/errors.csv, which tools/track_record.py writes from the rows of docs/).

#include <optional>
#include <string_view>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Nothing for a name without measured rows.
Evidence evidence_of(std::string_view name);
/// Of several what-ifs used together: what the one with the fewest rows, and the one with the fewest models, has.
Evidence least_evidence(const std::vector<Use>& uses);

/// How far predictions of a what-if were off, alone or among others: absolute percent, nothing where no row can tell.
struct PastErrors {
  std::string_view whatif;
  int rows = 0;  ///< whose time can be judged
  std::optional<double> step_pct, worst_step_pct, gpu_pct, memory_pct;
  std::string_view worst_row;        ///< the measured step that was missed most: "h200-clean resnet50 amp"
  int unseen_rows = 0;               ///< of networks that nothing is fitted on
  std::optional<double> unseen_pct;  ///< mean error of their steps
  int networks = 0;                  ///< that connected the ranks of the rows; a step on one GPU has none
  int blind_rows = 0;  ///< predicted before anything was changed for them, by the program that had not met them
  std::optional<double> blind_pct;  ///< mean error of the steps then
};
/// Sorted by name.
const std::vector<PastErrors>& past_errors();
/// Of one what-if; null where no measured step has it.
const PastErrors* past_errors_of(std::string_view whatif);

}  // namespace foretrace::whatif
