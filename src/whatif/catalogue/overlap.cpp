#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ranks/collective_names.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/job/overlap_parts.hpp"
#include "whatif/model/whole_number.hpp"

namespace foretrace::whatif {
namespace {

using ranks::CollectiveKind;

constexpr int kMostParts = 64;  // beyond, parts are smaller than anything a library is asked for

NamedCollectives which(const Parameters& p) { return {ranks::kind_of(p.text("collective")), p.text("group")}; }
int parts_of(const Parameters& p) { return static_cast<int>(p.number("chunks")); }

Status apply_overlap(Model& model, Draft& draft, const Parameters& p) {
  std::string left_out;
  FORETRACE_TRY(const std::vector<OverlapPlace> places, overlap_places(model, which(p), parts_of(p), &left_out));
  overlap_at(model, draft, places, parts_of(p));
  if (!left_out.empty()) model.not_modelled.push_back(std::move(left_out));
  if (!model.transfers_only) {
    model.not_modelled.emplace_back("one rank's trace: how long the others keep it waiting after the change");
  }
  return {};
}

/// What each rank of a job can overlap.
using Found = std::vector<std::vector<OverlapPlace>>;

// Parts meet parts: a collective is cut on all of its ranks or on none.
void keep_those_of_all_ranks(const JobModels& job, Found& found) {
  std::vector<std::set<std::uint32_t>> cut(found.size());  // events
  for (std::size_t s = 0; s < found.size(); ++s) {
    for (const OverlapPlace& p : found[s]) {
      if (p.side != CutSide::kNone) cut[s].insert(job.ranks[s]->graph.event[p.collective].value);
    }
  }
  for (const Meeting& meeting : job.ties->meetings) {
    const auto lacks = [&](const Meeting::Member& member) {
      const std::uint32_t slot = job.ties->slot_of_rank[member.rank];
      return slot != kNone && !cut[slot].contains(member.event);
    };
    if (std::none_of(meeting.members.begin(), meeting.members.end(), lacks)) continue;
    for (const Meeting::Member& member : meeting.members) {
      const std::uint32_t slot = job.ties->slot_of_rank[member.rank];
      if (slot == kNone) continue;
      std::erase_if(found[slot], [&](const OverlapPlace& p) {
        return p.side != CutSide::kNone && job.ranks[slot]->graph.event[p.collective].value == member.event;
      });
    }
  }
}

Result<JobPlan> apply_to_job(const JobModels& job, const Parameters& p) {
  auto found = std::make_shared<Found>(job.ranks.size());
  auto left_out = std::make_shared<std::vector<std::string>>(job.ranks.size());
  std::string declined;
  for (std::size_t s = 0; s < job.ranks.size(); ++s) {
    if (job.ties->changes[s] == 0) continue;
    Result<std::vector<OverlapPlace>> places = overlap_places(*job.ranks[s], which(p), parts_of(p), &(*left_out)[s]);
    if (places) {
      (*found)[s] = std::move(*places);
    } else if (declined.empty()) {
      declined = places.error().message;
    }
  }
  keep_those_of_all_ranks(job, *found);
  if (std::all_of(found->begin(), found->end(), [](const auto& places) { return places.empty(); })) {
    return fail(ErrorCode::kDeclined,
                declined.empty() ? "only some of the ranks that meet in these collectives can cut theirs" : declined);
  }
  return JobPlan{[found, left_out, parts = parts_of(p)](std::size_t slot, Model& model, Draft& draft) -> Status {
    if ((*found)[slot].empty()) return fail(ErrorCode::kDeclined, "it has no such collective, or none to overlap");
    overlap_at(model, draft, (*found)[slot], parts);
    if (!(*left_out)[slot].empty()) model.not_modelled.push_back((*left_out)[slot]);
    return {};
  }};
}

std::string code_for(const Parameters& p, bool /*training*/) {
  std::string_view call = "all_reduce";
  switch (ranks::kind_of(p.text("collective"))) {
    case CollectiveKind::kAllGather:
      return fmt::format(
          "for part in x.chunk({0}): work = dist.all_gather_into_tensor(out, part, async_op=True)  # then "
          "layer(out) of the part before",
          parts_of(p));
    case CollectiveKind::kReduceScatter:
      call = "reduce_scatter_tensor(out, ";
      break;
    case CollectiveKind::kAllToAll:
      call = "all_to_all_single(out, ";
      break;
    default:
      call = "all_reduce(";
  }
  return fmt::format("for part in x.chunk({}): works.append(dist.{}layer(part), async_op=True))", parts_of(p), call);
}

const Registered kRegistered(
    {.name = "overlap",
     .about = "a collective between products overlaps them: both are cut into chunks",
     .parameters =
         {{.name = "collective",
           .about = "the kind of collective",
           .choices = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"},
           .required = true},
          {.name = "group",
           .about = "only those of this process group: its name, its description, or the dimension of a device mesh",
           .default_value = ""},
          {.name = "chunks",
           .about =
               "parts of each collective and its product; 1: it is only started as early and waited for as late as "
               "the data allows",
           .default_value = "2",
           .type = ParameterType::kNumber,
           .check = whole_number<kMostParts>}},
     .assumes =
         "products can be cut along their rows (tokens); part i is communicated while part i + 1 is computed; "
         "kernels that overlap a collective lose the SMs that it occupies; parts of a collective scale as on the "
         "built-in network "
         "nearest to the recorded transfers",
     .source = "asynchronous tensor parallel (PyTorch, torchtitan); Megatron-LM's tp-comm-overlap; Domino (arXiv "
               "2409.15241)",
     .not_modelled = "kernels that communicate themselves (symmetric memory, Flux)",
     .needs = {Need::kCommunication, Need::kShapes},
     .changes = Changes::kNetwork,
     .code = "for part in x.chunk(2): works.append(dist.all_reduce(layer(part), async_op=True))",
     .code_for = code_for,
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_overlap,
     .whole_program = "a compiled program's kernels do not show which product they belong to"});
const RegisteredForJobs kOnJobs("overlap", apply_to_job);

}  // namespace
}  // namespace foretrace::whatif
