#pragma once
// Moves on strategies: each proposes strategies close to a given one. One file each; the list is in strategy_moves.cpp.

#include <string>
#include <vector>

#include "foretrace/search/optimize.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "search/module_groups.hpp"
#include "search/moves/job_moves.hpp"

namespace foretrace::search {

/// What a move shortens: the part of the critical path it attacks.
enum class Attacks : std::uint8_t { kCpu, kGpu, kCommunication, kMemory };

struct StrategyView {
  const whatif::Model& model;  ///< the step as it is today
  const Strategy& strategy;
  Evaluation now;
  std::optional<std::int64_t> limit;
  std::vector<std::string> blocks;  ///< repeated blocks of layers, in order of their forward pass
  const std::vector<ModuleGroup>& groups;
  int gpus_per_node = 1;
  std::vector<double> bucket_sizes;  ///< MiB, the only ones allowed; none: any
  JobTraits job = {};                ///< of a recorded job; nothing of a single trace
  [[nodiscard]] bool over_limit() const { return limit && now.taken_bytes() && *now.taken_bytes() > *limit; }
};

struct StrategyMove {
  std::string name;
  std::string about;
  std::string may_break;
  Attacks attacks = Attacks::kGpu;
  std::string whatif = {};  ///< the what-if that allows it where only some are allowed; empty: its strategies' own
  void (*propose)(const StrategyView& view, std::vector<Strategy>& out) = nullptr;
};

StrategyMove accumulate_move();
StrategyMove bucket_size_move();
StrategyMove checkpoint_layer_move();
StrategyMove compile_region_move();
StrategyMove compress_move();
StrategyMove cuda_graph_move();
StrategyMove job_buckets_move();
StrategyMove job_compress_move();
StrategyMove pipeline_move();
StrategyMove precision_layer_move();
StrategyMove precision_move();
StrategyMove shard_move();
StrategyMove stage_balance_move();
StrategyMove switch_algorithm_move();
StrategyMove switch_off_move();
StrategyMove switch_on_move();

const std::vector<StrategyMove>& strategy_moves();

/// Sizes of buckets the search chooses from, in MiB.
const std::vector<double>& usual_bucket_sizes();

/// The use of a what-if by name in a strategy; empty when it is not there.
std::string use_in(const Strategy& strategy, std::string_view whatif);
/// The strategy with this use instead of any other of the same what-if, in the order what-ifs are to be applied. An empty
/// `text` only takes it out.
Strategy with(const Strategy& strategy, std::string_view whatif, const std::string& text);
/// How many layers a use names; `all` where it names none.
std::size_t count_in(std::string_view use, std::size_t all);
/// The strategy without any what-if that changes this.
Strategy without(const Strategy& strategy, whatif::Changes changes);
/// "checkpoint" of "checkpoint:layers=a|b".
std::string_view name_of(std::string_view use);

}  // namespace foretrace::search
