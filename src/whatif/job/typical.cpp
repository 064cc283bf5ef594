#include "whatif/job/typical.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "ranks/exchange.hpp"

namespace foretrace::whatif {

using graph::Graph;
using graph::TaskKind;

namespace {

bool counts(const Graph& g, std::uint32_t task, bool gpu) {
  const TaskKind kind = g.kind[task];
  return kind != TaskKind::kCollective && graph::is_gpu(kind) == gpu;
}

Ns work_of(const Graph& g, bool gpu) {
  Ns sum = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (counts(g, t, gpu)) sum += g.cost[t];
  }
  return sum;
}

// Stream and thread ids differ between ranks: only the thread that runs the step is distinguished from the others.
using Key = std::tuple<bool, TaskKind, std::string_view>;

std::map<Key, std::vector<std::uint32_t>> by_name(const Graph& g, bool gpu) {
  std::map<Key, std::vector<std::uint32_t>> out;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (counts(g, t, gpu)) out[{g.lane[t] == g.main_lane, g.kind[t], g.task_name(t)}].push_back(t);
  }
  return out;
}

}  // namespace

std::vector<std::uint32_t> typical_ranks(const JobModels& job, bool gpu) {
  std::map<std::uint32_t, std::vector<std::pair<Ns, std::uint32_t>>> classes;
  for (std::uint32_t s = 0; s < job.ranks.size(); ++s) {
    classes[job.ties->peers[s]].emplace_back(work_of(job.ranks[s]->graph, gpu), s);
  }
  std::vector<std::uint32_t> out(job.ranks.size());
  for (auto& [peers, members] : classes) {
    std::sort(members.begin(), members.end());
    for (const auto& [work, slot] : members) out[slot] = members[(members.size() - 1) / 2].second;
  }
  return out;
}

std::vector<std::pair<std::uint32_t, Ns>> costs_elsewhere(const Graph& mine, const Graph& other, bool gpu) {
  auto out = ranks::exchange(by_name(mine, gpu), mine.cost, by_name(other, gpu), other.cost);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace foretrace::whatif
