#pragma once
// What a strategy puts into a training script, taken apart by place. A change is one piece (code_pieces.cpp): it writes its
// lines into the places they belong to. The order of the places, and so of all changes, is strategy_code.cpp's alone.

#include <string>
#include <string_view>
#include <vector>

#include "foretrace/search/optimize.hpp"
#include "foretrace/search/strategy.hpp"

namespace foretrace::report {

/// Lines of Python by where they stand; indented as their place wants it, each with what it gains as a comment.
struct ScriptPlaces {
  std::vector<std::string> flags;    ///< prepare(): switches of PyTorch
  std::vector<std::string> model;    ///< prepare(): layout and modules, before anything wraps them
  std::vector<std::string> regions;  ///< prepare(): compiled modules, each by itself
  std::vector<std::string> wrap;     ///< distribute(): what divides the work among workers
  std::vector<std::string> whole;  ///< prepare(): the model compiled with its wrapper, which cuts the graph at buckets
  std::vector<std::string> optimizer;  ///< make_optimizer(): changes of `options`
  std::string make_optimizer = "cls(parameters, **options)";
  std::string inputs = "inputs";      ///< arranged(): the inputs as the model wants them
  std::vector<std::string> contexts;  ///< around forward: "with …:", one each
  std::vector<std::string> step;      ///< comments of the step
  std::string loader;                 ///< arguments of a DataLoader
  int passes = 1;                     ///< over parts of the batch
  bool scaler = false;                ///< fp16: gradients are scaled
  bool captured = false;              ///< the step is a CUDA graph
  bool planned = false;               ///< buckets of a plan are waited for before the update
  std::vector<std::string> layers;    ///< modules the plan names
};

/// One part of the strategy, as pieces see it.
struct PieceUse {
  whatif::Use use;
  std::string gain;                            ///< "  # gains +1.20 ms"; empty where nobody knows
  const search::Communication* communication;  ///< of the strategy; null: one GPU
};

/// Writes a part into its places; false where it has no piece and is left to people.
bool write_piece(const PieceUse& part, ScriptPlaces& places);
/// Writes what divides the work among workers; false where the scheme has no code.
bool write_communication(const search::Communication& c, const std::string& gain, ScriptPlaces& places);

/// "…" with everything escaped that could end the literal: names come from a trace.
std::string python_literal(std::string_view text);

}  // namespace foretrace::report
