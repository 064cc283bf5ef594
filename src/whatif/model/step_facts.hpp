#pragma once
// What a step already has, as its trace shows it: what-ifs check it before they propose the same again. Each sign of a technique
// is tested only here, so that advice, predictions and reports agree.
//
//   if (step_facts(model)->fused_update) …       // the update runs as one kernel per group of tensors

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

struct StepFacts {
  bool compiled = false;             ///< kernels or regions of torch.compile
  bool graphs = false;               ///< some GPU work starts from CUDA graphs
  bool graphed = false;              ///< … and hardly a kernel has a launch of its own, the batch's copies aside
  bool half_products = false;        ///< matrix products or convolutions in fp16 or bf16
  bool tf32_products = false;        ///< matrix products on tensor cores in TF32
  bool tf32_convolutions = false;    ///< the same of what cuDNN does: a switch of its own in PyTorch
  bool channels_last = false;        ///< all convolutions in NHWC
  bool fused_attention = false;      ///< one kernel for scores, softmax and their product with the values
  bool foreach_update = false;       ///< the optimizer works on lists of tensors, one arithmetic step at a time
  bool fused_update = false;         ///< … and all of its arithmetic in one pass
  bool recomputes = false;           ///< operations of the forward pass run again in the backward pass
  std::set<std::string> recomputed;  ///< their layers, where ranges name them
  std::size_t passes = 1;            ///< forward and backward passes of the same kind between two updates
  bool offloads = false;             ///< copies activations to the host and back
  std::size_t workers = 1;           ///< that exchange gradients
  bool sharded = false;              ///< they divide parameters or gradients among them
  bool half_gradients = false;       ///< gradients travel in half precision
  std::size_t reductions = 0;        ///< all-reduces behind the forward pass: one per bucket
};

class OpChains;
/// The GPU tasks of a backward pass that run the forward pass again (activation checkpointing); empty where so little runs again
/// that no layer does.
std::vector<std::uint32_t> recomputed_tasks(const trace::Trace& trace, const graph::Graph& graph,
                                            const OpChains& chains);

/// Of the model's graph, found out once for all models that have it.
std::shared_ptr<const StepFacts> step_facts(const Model& model);
/// Whether a layer of this module is among the recomputed ones.
bool recomputes(const StepFacts& has, std::string_view module);
/// For WhatIf::already: this sentence where the step has this.
std::function<std::string(const Model&, const Parameters&)> if_step_has(bool StepFacts::* fact, std::string sentence);

}  // namespace foretrace::whatif
