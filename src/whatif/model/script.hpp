#pragma once
// The lines that a change adds to a training script, by place. Each what-if writes its lines into the places they belong to
// (WhatIf::write_code); report/ decides the order of the places and writes the script.

#include <string>
#include <string_view>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

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

/// One use, as its what-if sees it when it writes code.
struct ScriptPart {
  const Parameters& parameters;
  std::string gain;              ///< "  # gains +1.20 ms"; empty where nobody knows
  bool planned_buckets = false;  ///< gradients travel in buckets of a plan, not DistributedDataParallel's
};

/// "…" with everything escaped that could end the literal: names come from a trace.
std::string python_literal(std::string_view text);
/// "for module in modules_named(model, …names…): body", and the names remembered.
void each_named(const ScriptPart& part, const std::vector<std::string>& names, std::string_view body,
                std::vector<std::string>& lines, ScriptPlaces& to);
/// Whether a block runs right behind another, by their names: "layer1.2" after "layer1.1", "layer2.0" after "layer1.2".
bool follows(std::string_view block, std::string_view next);

}  // namespace foretrace::whatif
