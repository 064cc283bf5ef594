#include "ranks/job_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "ranks/group_role.hpp"
#include "ranks/group_traffic.hpp"
#include "ranks/pipeline_shape.hpp"

namespace foretrace::ranks {

std::string_view to_string(Parallelism kind) {
  constexpr std::string_view kNames[] = {"tp", "cp", "ep", "emb", "pp", "fsdp", "dp", "tied", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Schedule schedule) {
  constexpr std::string_view kNames[] = {"unknown", "gpipe", "1f1b", "interleaved", "zb1p", "dualpipe"};
  return kNames[static_cast<std::size_t>(schedule)];
}

std::string in_words(const PipelineShape& p) {
  constexpr std::string_view kNames[] = {"", "GPipe", "1F1B", "interleaved 1F1B", "zero-bubble", "DualPipe"};
  std::string out = fmt::format("pipeline of {} stages", p.stages);
  if (p.micro_batches > 0) out += fmt::format(", {} micro-batch{}", p.micro_batches, p.micro_batches == 1 ? "" : "es");
  if (p.schedule != Schedule::kUnknown) out += fmt::format(", {}", kNames[static_cast<std::size_t>(p.schedule)]);
  if (p.chunks > 1) out += fmt::format(", {} chunks a rank", p.chunks);
  return out;
}

Parallelism JobKind::purpose(std::uint32_t group, std::uint32_t kind_bit) const {
  for (const JobGroup& g : groups) {
    if (g.group == group && (g.kinds & kind_bit) != 0) return g.kind;
  }
  return Parallelism::kOther;
}

std::uint32_t JobKind::size_of(Parallelism kind) const {
  std::size_t most = 1;
  for (const JobGroup& g : groups) {
    if (g.kind == kind) most = std::max(most, g.ranks.size());
  }
  if (kind == Parallelism::kPipeline && pipeline) return pipeline->stages;
  return static_cast<std::uint32_t>(most);
}

namespace {

// Names follow the order in which ranks are usually laid out, the nearest first.
constexpr std::array kNamed{Parallelism::kTensor,   Parallelism::kContext, Parallelism::kExpert, Parallelism::kTables,
                            Parallelism::kPipeline, Parallelism::kSharded, Parallelism::kData};

class KindFinder {
 public:
  KindFinder(const Job& job, const Matching& m, const JobGraph& graph, const ProgramOrder& order,
             const hardware::CollectiveModel* fabric)
      : job_(job), m_(m), order_(order), traffic_(job, m, graph, order, fabric), chains_(find_chains(job, m, order)) {
    if (fabric != nullptr) out_.fabric = fabric->name();
  }

  JobKind run() {
    out_.places.resize(job_.ranks.size());
    find_groups();
    find_pipeline();
    find_places();
    find_absent();
    name();
    return std::move(out_);
  }

 private:
  [[nodiscard]] const Chain* chain_in(std::uint32_t group) const {
    for (const Chain& c : chains_) {
      if (c.group == group) return &c;
    }
    return nullptr;
  }

  void find_groups() {
    const std::vector<GroupUse> uses = group_uses(m_, order_);
    double total = 0;
    for (const GroupUse& u : uses) total += u.total();
    for (std::uint32_t g = 0; g < m_.groups.size(); ++g) {
      if (uses[g].total() <= 0) continue;
      const Chain* chain = chain_in(g);
      const Roles roles = roles_of(uses[g], total, chain != nullptr && !chain->ring, m_.groups[g].description);
      out_.sequence_parallel |= roles.sequence_parallel;
      out_.zero = std::max(out_.zero, roles.zero);
      for (const Role& role : roles.roles) add_group(g, role);
    }
    std::stable_sort(out_.groups.begin(), out_.groups.end(), [](const JobGroup& a, const JobGroup& b) {
      return std::tie(a.kind, a.ranks) < std::tie(b.kind, b.ranks);
    });
    const auto has = [&](Parallelism kind) {
      return std::any_of(out_.groups.begin(), out_.groups.end(), [&](const JobGroup& g) { return g.kind == kind; });
    };
    out_.hybrid = has(Parallelism::kSharded) && has(Parallelism::kData);
  }

  void add_group(std::uint32_t index, const Role& role) {
    const Group& known = m_.groups[index];
    JobGroup group;
    group.kind = role.kind;
    group.name = known.name;
    group.description = known.description;
    group.group = index;
    group.ranks = known.declared;
    if (group.ranks.empty()) {
      for (const std::uint32_t r : known.ranks) group.ranks.push_back(job_.ranks[r].rank);
    }
    if (role.kind == Parallelism::kData && ties_ends(group.ranks)) group.kind = Parallelism::kTied;
    traffic_.measure(role, group);
    out_.groups.push_back(std::move(group));
  }

  // The first and the last stage of one pipeline: data-parallel ranks are of one stage.
  [[nodiscard]] bool ties_ends(const std::vector<std::int64_t>& ranks) const {
    return std::any_of(chains_.begin(), chains_.end(), [&](const Chain& c) {
      return !c.ring && ranks.size() == 2 &&
             std::minmax(ranks[0], ranks[1]) == std::minmax(c.stages.front(), c.stages.back());
    });
  }

  // Chains of one job are alike: the first one that shows its schedule speaks for all.
  void find_pipeline() {
    for (const Chain& c : chains_) {
      if (c.ring) continue;
      if (!out_.pipeline || out_.pipeline->schedule == Schedule::kUnknown) out_.pipeline = c.shape;
    }
  }

  void find_places() {
    Ns bubble = 0;
    std::int64_t staged = 0;
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) {
      RankPlace& place = out_.places[r];
      place.compute = length(traffic_.computing(r));
      for (const Chain& c : chains_) {
        const auto at = std::find(c.stages.begin(), c.stages.end(), job_.ranks[r].rank);
        if (c.ring || at == c.stages.end()) continue;
        place.stage = static_cast<std::uint32_t>(at - c.stages.begin());
        place.bubble = length(traffic_.bubble(r));
        bubble += place.bubble;
        ++staged;
        break;
      }
      place.peers = place.stage;
    }
    if (out_.pipeline && staged > 0) out_.pipeline->bubble = bubble / staged;
  }

  void find_absent() {
    std::set<std::int64_t> given, named;
    for (const Rank& r : job_.ranks) given.insert(r.rank);
    for (const JobGroup& g : out_.groups) named.insert(g.ranks.begin(), g.ranks.end());
    for (const Chain& c : chains_) named.insert(c.stages.begin(), c.stages.end());
    std::set_difference(named.begin(), named.end(), given.begin(), given.end(), std::back_inserter(out_.absent));
  }

  void name() {
    for (const Parallelism kind : kNamed) {
      const std::uint32_t size = out_.size_of(kind);
      if (size < 2) continue;
      out_.parallel += fmt::format("{}{}{}", out_.parallel.empty() ? "" : " ", to_string(kind), size);
      out_.text += fmt::format("{}{}", out_.text.empty() ? "" : " × ", words(kind, size));
    }
    if (out_.zero == 1) out_.parallel += " zero1";
  }

  [[nodiscard]] std::string words(Parallelism kind, std::uint32_t size) const {
    switch (kind) {
      case Parallelism::kTensor:
        return fmt::format("tensor parallel over {} ranks{}", size,
                           out_.sequence_parallel ? ", with sequence parallel" : "");
      case Parallelism::kContext:
        return fmt::format("context parallel over {} ranks", size);
      case Parallelism::kExpert:
        return fmt::format("expert parallel over {} ranks", size);
      case Parallelism::kTables:
        return fmt::format("embedding tables over {} ranks", size);
      case Parallelism::kPipeline:
        return in_words(*out_.pipeline);
      case Parallelism::kSharded:
        return fmt::format("fully sharded over {} ranks (FSDP, ZeRO-3){}", size,
                           out_.hybrid ? " and replicated (HSDP)" : "");
      default:
        return fmt::format("data parallel over {} ranks{}", size,
                           out_.zero == 1 ? ", optimizer states sharded (ZeRO-1 or 2)" : "");
    }
  }

  const Job& job_;
  const Matching& m_;
  const ProgramOrder& order_;
  Traffic traffic_;
  std::vector<Chain> chains_;
  JobKind out_;
};

}  // namespace

JobKind find_kind(const Job& job, const Matching& matching, const JobGraph& graph, const ProgramOrder& order,
                  const hardware::CollectiveModel* fabric) {
  return KindFinder(job, matching, graph, order, fabric).run();
}

}  // namespace foretrace::ranks
