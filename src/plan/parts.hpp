#pragma once
// The parts of a step that a pipeline is put together from: what is in front of the repeated blocks (the embedding), one block,
// what is behind them (norm, head, loss), and the update.
//
//   FORETRACE_TRY(const Parts parts, parts_of(changed, traced));      // of a step with changes in it
//   parts.block.forward;      // GPU time of one block's forward pass, with the collectives nothing hides
//
// GPU times are those of a simulation in which the CPU takes no time, CPU times of one in which the GPU takes none: a stage is
// as fast as the slower of the two.

#include <array>
#include <cstdint>
#include <optional>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/model.hpp"

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
  double transient = 0;   ///< most bytes of anything else while it runs
};

struct Parts {
  Part first, block, last;
  int blocks = 0;
  Ns update = 0, update_cpu = 0;
  double boundary = 0;                          ///< bytes a block hands to the next
  double output = 0;                            ///< bytes of what the model gives: of the last part's largest product
  double gradient_bytes = 4;                    ///< of an element
  bool memory = false;                          ///< whether the bytes are known
  double parameter_bytes = 0, state_bytes = 0;  ///< of all parameters
  double other_bytes = 0;                       ///< there all the time, and no parameter or state of one
};

/// Declined where no block repeats, or the step trains nothing.
/// `base`: the step before any change; the same model where there is none.
Result<Parts> parts_of(const whatif::Model& model, const whatif::Model& base);

}  // namespace foretrace::plan
