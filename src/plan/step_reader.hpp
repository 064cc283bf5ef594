#pragma once
// Totals of a step: from its graph with only GPU time, or only CPU time, and from its memory curve.
//
//   FORETRACE_TRY(const Borders borders, borders_of(model.graph, blocks));
//   const Whole whole = StepReader(model, borders).read();      // whole.all.forward; whole.last.backward

#include <utility>
#include <vector>

#include "plan/parts.hpp"
#include "whatif/dataflow/blocks.hpp"

namespace foretrace::plan {

/// Where the parts begin on the main stream, as ids of GPU tasks: ascending.
struct Borders {
  std::uint32_t begin = kNone, first_block = kNone, behind_blocks = kNone, backward = kNone, last_block_back = kNone,
                first_block_back = kNone, update = kNone, end = kNone;
  [[nodiscard]] bool ascending() const {
    return begin <= first_block && first_block < behind_blocks && behind_blocks <= backward &&
           backward <= last_block_back && last_block_back <= first_block_back && first_block_back < update &&
           update < end;
  }
};
/// Declined where they do not follow each other. Trained blocks, in the order of the forward pass.
Result<Borders> borders_of(const graph::Graph& graph, const std::vector<whatif::BlockOfLayers>& blocks);

/// What a step does in all, and how much of that comes before its blocks and behind them.
struct Whole {
  Part all, last;
  Ns first_forward = 0, first_forward_cpu = 0;
  Ns update = 0, update_cpu = 0;
};

class StepReader {
 public:
  StepReader(const whatif::Model& m, const Borders& b)
      : m_(m), g_(m.graph), b_(b), gpu_(without(false)), cpu_(without(true)) {}

  Whole read();
  /// Elements of the largest weight behind the blocks: the head's.
  [[nodiscard]] double head() const { return head_; }
  /// Bytes of what the last products behind the blocks give, and of what one block gives to the next.
  [[nodiscard]] double output() const { return output_; }
  /// Of all products; known after `read`.
  [[nodiscard]] const FlopsByType& flops_by_type() const { return flops_by_type_; }
  [[nodiscard]] double boundary(const whatif::BlockOfLayers& block) const;
  /// Peak bytes on top of those the step begins with, and how many of them are gradients: of the previous step and of this one.
  struct Level {
    double bytes = 0, before = 0, own = 0;
  };
  /// After the blocks' forward pass with the gradients of the previous step and without them, in the blocks' backward pass with gradients
  /// and without, and after it.
  struct Levels {
    Level early, behind, back, without_gradients, end;
  };
  [[nodiscard]] Levels levels() const;

 private:
  struct Times {
    std::vector<Ns> start, end;  ///< of every task
  };
  [[nodiscard]] Times without(bool gpu) const;
  [[nodiscard]] Ns gpu_at(std::uint32_t t) const;
  [[nodiscard]] Ns cpu_at(std::uint32_t t) const;
  [[nodiscard]] Ns gpu(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] Ns cpu(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] bool behind_blocks(std::uint32_t t) const { return t >= b_.behind_blocks && t < b_.last_block_back; }

  void times();
  void details();
  void communication();
  [[nodiscard]] Ns asked(std::uint32_t t) const;
  [[nodiscard]] Ns asked_from(std::uint32_t t) const;
  [[nodiscard]] bool behind_blocks(const memory::Block& k) const;
  [[nodiscard]] std::uint32_t position(Ns at) const;
  void memory();

  const whatif::Model& m_;
  const graph::Graph& g_;
  Borders b_;
  Times gpu_, cpu_;
  Ns behind_at_ = asked_from(b_.behind_blocks), back_at_ = asked_from(b_.last_block_back),
     first_back_at_ = asked_from(b_.first_block_back);
  double output_ = 0, head_ = 0;
  FlopsByType flops_by_type_{};
  Whole out_;
};

}  // namespace foretrace::plan
