#pragma once
// What to switch on: every change of the catalogue that is worth trying, alone and together, within the GPU's memory.
//
//   Advised a = advise(base, {});
//   a.alone.front().prediction.whatif;      // "amp:dtype=bf16", the change that gains most
//   a.together->prediction.speedup;         // of the best combination found
//
// Changes are combined by the search of optimize.hpp, on one GPU: the same candidates and moves, the same predictions, the
// same account of what each part contributes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/base/progress.hpp"
#include "foretrace/search/candidates.hpp"
#include "foretrace/search/optimize.hpp"

namespace foretrace::search {

struct AdviseOptions {
  /// Bytes the allocator may reserve; else the device's memory less what the driver keeps.
  std::optional<std::int64_t> memory_limit = {};
  double least_gain = 0.01;  ///< a change joins a combination when it gains at least this part
  unsigned threads = 0;      ///< 0: as many as the machine has; the answer is the same
  Progress progress = {};
};

/// One change, or several in the order they are applied, and what they give.
struct Advice {
  std::vector<whatif::Use> uses;
  whatif::Prediction prediction;
  double gain = 1;                                ///< samples per second, as a multiple of now
  bool fits = true;                               ///< what is reserved for it, within the limit
  whatif::Effort effort = whatif::Effort::kLine;  ///< of the change that takes most
  std::vector<std::string> code;  ///< of each use, how it is switched on; empty where nobody knows a line
  [[nodiscard]] bool declined() const { return !prediction.declined.empty(); }
};

struct Advised {
  std::vector<Advice> alone;           ///< by gain; what was declined last
  std::optional<Advice> together;      ///< best combination at the same batch; none when nothing pays
  std::vector<OptimizedPart> parts;    ///< what each change of `together` contributes beside the others
  std::optional<Advice> larger_batch;  ///< best with a larger batch, where that pays more
  std::optional<std::int64_t> memory_limit;
  std::size_t tried = 0;    ///< predictions made
  std::string code_is_for;  ///< "PyTorch", "JAX"
};

Advised advise(const analysis::Baseline& base, const AdviseOptions& options);

}  // namespace foretrace::search
