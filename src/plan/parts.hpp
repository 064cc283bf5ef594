#pragma once
// The parts of a step that a pipeline is composed of: what precedes the repeated blocks (the embedding), one block, what follows
// them (norm, head, loss), and the update.
//
//   FORETRACE_TRY(const Parts parts, parts_of({changed, deeper}, {traced, traced_deeper}));      // of a step with changes in it
//   parts.block.forward;      // GPU time of one block's forward pass, with its exposed collectives
//
// A block is what the what-if `layers` adds for one more, in time, in parameters and in memory; the other parts share what is left.
// GPU times are those of a simulation in which the CPU takes no time, CPU times of one in which the GPU takes none: a stage is
// as fast as the slower of the two.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/model.hpp"
#include "plan/utilisation.hpp"

namespace foretrace::plan {

struct Part {
  Ns forward = 0, backward = 0;
  Ns weight = 0;  ///< of backward: products that make gradients of weights
  Ns once = 0;    ///< of forward: copies of parameters in another type, which a second micro-batch finds made
  Ns forward_cpu = 0, backward_cpu = 0, weight_cpu = 0, once_cpu = 0;
  Ns exposed = 0;         ///< of both passes: collectives while no kernel runs
  double flops = 0;       ///< of both passes
  double parameters = 0;  ///< elements
  double tensors = 0;     ///< of parameters
  double largest = 0;     ///< elements of the largest of them
  double activation = 0;  ///< bytes kept from forward to backward, of one micro-batch
  double copies = 0;      ///< bytes of parameters in another type, kept as long
  /// Most bytes beyond activations and gradients: of the last part when all activations are there, of a block when those of the last part
  /// are gone, of the first part at the end of the step. Less than none where some are gone by then.
  double transient = 0;
  double scratch = 0;  ///< of a block: the same where gradients are made elsewhere
};

struct Parts {
  Part first, block, last;
  int blocks = 0;
  FlopsByType flops_by_type{};  ///< of all products
  Ns update = 0, update_cpu = 0;
  double boundary = 0;                          ///< bytes a block hands to the next
  double output = 0;                            ///< bytes of what the model gives: of the last part's largest product
  double tied = 0;                              ///< elements of the head's weight where the embedding's is the same
  double gradient_bytes = 4;                    ///< of an element
  bool memory = false;                          ///< whether the bytes are known
  double parameter_bytes = 0, state_bytes = 0;  ///< of all parameters
  double old_gradients = 0;  ///< share of them that the step before leaves until the forward pass ends
  double old_transient = 0;  ///< of the last part while they are there
  double other_bytes = 0;    ///< there all the time, and no parameter or state of one

  /// Of a model with so many blocks.
  [[nodiscard]] double flops(int so_many) const { return first.flops + last.flops + so_many * block.flops; }
};

/// Where `share` of the blocks are those of one step and the others those of another: a block as their average.
Parts mixed(const Parts& some, const Parts& others, double share);

/// A step and the same with one block more.
struct Depths {
  const whatif::Model& model;
  const whatif::Model& deeper;
};

/// What repeats in a step: blocks of a list of modules ("model.layers"; empty where the trace names no layers), and how many.
struct RepeatedBlock {
  std::string list;
  int blocks = 0;
};
/// Declined where nothing repeats.
Result<RepeatedBlock> repeated_block(const whatif::Model& model);

/// Declined where passes of the blocks do not follow each other, or the step trains nothing. `traced`: before any change; the same where
/// there is none.
Result<Parts> parts_of(const Depths& changed, const Depths& traced);

}  // namespace foretrace::plan
