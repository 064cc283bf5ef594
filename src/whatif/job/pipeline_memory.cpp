#include "whatif/job/pipeline_memory.hpp"

#include <algorithm>
#include <map>

#include "whatif/model/memory_positions.hpp"

namespace foretrace::whatif {

namespace {

using memory::Block;
using memory::Curve;

class Rerun {
 public:
  Rerun(const Model& rank, const PipelinePasses& passes, const std::vector<simulate::PipelineAction>& actions,
        std::uint32_t micro_batches)
      : passes_(passes) {
    const MemoryPositions positions(rank);
    for (const Pass& pass : passes.passes) borders_.push_back(positions.at(pass.begin));
    borders_.push_back(std::max(borders_.back(), positions.at(passes.end)));
    std::uint32_t at = borders_.front();
    for (const simulate::PipelineAction& a : actions) {
      const bool backward = a.kind != simulate::ActionKind::kForward;
      const std::size_t like = passes.like(backward, a.microbatch, micro_batches);
      runs_of_[like].push_back({a.microbatch, at});
      at += borders_[like + 1] - borders_[like];
    }
    end_ = at;
  }

  Curve run(const Curve& recorded, const Curve& resized) const {
    Curve out = resized;
    out.blocks.clear();
    for (const Block& b : recorded.blocks) {
      if (!inside(b.allocated)) out.blocks.push_back(moved(b));
    }
    for (const Block& b : resized.blocks) {
      if (inside(b.allocated)) run_again(b, out.blocks);
    }
    std::stable_sort(out.blocks.begin(), out.blocks.end(),
                     [](const Block& a, const Block& b) { return a.allocated < b.allocated; });
    out.positions = behind_passes(resized.positions);
    out.update_from = last_place(resized.update_from);
    out.backward_from = out.update_from;
    for (const auto& [like, runs] : runs_of_) {
      if (passes_.passes[like].backward) out.backward_from = std::min(out.backward_from, runs.front().begin);
    }
    memory::recompute(out);
    return out;
  }

 private:
  struct Run {
    std::uint32_t micro_batch;
    std::uint32_t begin;
  };

  [[nodiscard]] bool inside(std::uint32_t position) const {
    return position >= borders_.front() && position < borders_.back();
  }
  [[nodiscard]] std::size_t pass_at(std::uint32_t position) const {
    return static_cast<std::size_t>(std::upper_bound(borders_.begin(), borders_.end(), position) - borders_.begin()) -
           1;
  }
  [[nodiscard]] std::uint32_t behind_passes(std::uint32_t position) const { return position - borders_.back() + end_; }

  // Where what happens once happens now: with the last run of its pass; at the end of all of them where none is like it.
  [[nodiscard]] std::uint32_t last_place(std::uint32_t position) const {
    if (position == UINT32_MAX || position < borders_.front()) return position;
    if (!inside(position)) return behind_passes(position);
    const std::size_t pass = pass_at(position);
    const auto runs = runs_of_.find(pass);
    return runs == runs_of_.end() ? end_ : runs->second.back().begin + (position - borders_[pass]);
  }

  [[nodiscard]] Block moved(Block b) const {
    b.allocated = last_place(b.allocated);
    b.freed = std::max(b.freed == UINT32_MAX ? b.freed : b.allocated + 1, last_place(b.freed));
    return b;
  }

  // The recorded backward pass of the same micro-batch.
  [[nodiscard]] std::size_t backward_of(std::size_t forward) const {
    const auto from = passes_.passes.begin();
    auto before =
        std::count_if(from, from + static_cast<std::ptrdiff_t>(forward), [](const Pass& p) { return !p.backward; });
    for (std::size_t i = 0; i < passes_.passes.size(); ++i) {
      if (passes_.passes[i].backward && before-- == 0) return i;
    }
    return forward;
  }

  void run_again(const Block& b, std::vector<Block>& out) const {
    const std::size_t pass = pass_at(b.allocated);
    const auto runs = runs_of_.find(pass);
    if (runs == runs_of_.end()) return;
    for (const Run& run : runs->second) {
      Block again = b;
      again.allocated = run.begin + (b.allocated - borders_[pass]);
      again.freed = std::max(again.allocated + 1, freed_of(b, pass, run));
      out.push_back(again);
    }
  }

  [[nodiscard]] std::uint32_t freed_of(const Block& b, std::size_t pass, const Run& run) const {
    if (b.freed == UINT32_MAX || !inside(b.freed)) return last_place(b.freed);
    const std::size_t freed_in = pass_at(b.freed);
    if (freed_in == pass) return run.begin + (b.freed - borders_[pass]);
    const bool by_its_backward = !passes_.passes[pass].backward && freed_in == backward_of(pass);
    const auto runs = runs_of_.find(freed_in);
    if (by_its_backward && runs != runs_of_.end()) {
      for (const Run& other : runs->second) {
        if (other.micro_batch == run.micro_batch) return other.begin + (b.freed - borders_[freed_in]);
      }
    }
    return last_place(b.freed);
  }

  const PipelinePasses& passes_;
  std::vector<std::uint32_t> borders_;  // recorded positions at which passes begin, and the end of the last
  std::map<std::size_t, std::vector<Run>> runs_of_;  // by recorded pass, in the order in which they run
  std::uint32_t end_ = 0;
};

}  // namespace

Curve rescheduled_memory(const Model& rank, const Curve& recorded, const PipelinePasses& passes,
                         const std::vector<simulate::PipelineAction>& actions, std::uint32_t micro_batches) {
  return Rerun(rank, passes, actions, micro_batches).run(recorded, *rank.memory);
}

}  // namespace foretrace::whatif
