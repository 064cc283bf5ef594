#pragma once
// Where a step gets its batches: in its main thread, or from worker processes it may wait for.

#include <cstddef>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// One batch that the main thread takes from its loader.
struct LoadedBatch {
  Ns begin = 0, end = 0;    ///< of the range, in the step's time as traced
  bool in_workers = false;  ///< other processes make it
  Selection tasks;          ///< CPU work of the main thread for it
  Ns time = 0;              ///< of these, in the draft
};
std::vector<LoadedBatch> loaded_batches(const Model& model, const Draft& draft);

/// How many worker processes load data, as far as the trace shows them; 0 where it does not.
std::size_t recorded_workers(const trace::Trace& trace);

/// Loading of a batch x times as large: what one batch takes in this trace grows with its samples, in the main thread and in workers. Returns
/// how many tasks changed.
std::size_t scale_loading(Model& model, Draft& draft, double x);

}  // namespace foretrace::whatif
