#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/gpus.hpp"
#include "whatif/rewrite/rows.hpp"
#include "whatif/rewrite/sequence_length.hpp"
#include "whatif/sharding/group.hpp"

namespace foretrace::whatif {
namespace {

using hardware::Collective;
using work::Dtype;
using work::Work;

// What the GPUs that divide a sequence exchange around each attention.
class Exchanges {
 public:
  Exchanges(const Model& m, Group& group, std::int64_t size, std::string kind)
      : m_(m), group_(group), size_(size), kind_(std::move(kind)) {}

  void around(const Row& row) {
    const Work& w = m_.works[row.work];
    const auto& a = std::get<work::Attention>(w.kind);
    dtype_ = work::is_half(w.dtype) ? w.dtype : Dtype::kFp32;
    const std::int64_t head = a.batch * a.queries * a.head_size / size_;  // numbers of one head here
    queries_ = head * std::max<std::int64_t>(1, a.heads);
    keys_ = head * std::max<std::int64_t>(1, a.heads / std::max<std::int64_t>(1, a.shared));
    // Every GPU has a head of keys at least.
    const std::int64_t key_heads = std::max<std::int64_t>(1, a.heads / std::max<std::int64_t>(1, a.shared));
    if (key_heads < size_)
      spread_keys_ = keys_ / key_heads * size_;
    else
      spread_keys_ = keys_;
    const auto runs = static_cast<std::size_t>(times_run(m_, row));
    const std::size_t run = std::max<std::size_t>(1, row.tasks.size() / runs);
    for (std::size_t i = 0; i + run <= row.tasks.size(); i += run) {
      const std::uint32_t first = row.tasks[i], last = row.tasks[i + run - 1];
      phase_ = m_.graph.phase[first];
      front_ = place_before(m_.graph, first);
      behind_ = place_behind(m_.graph, last);
      if (kind_ == "ulysses") heads(w.backward);
      if (kind_ == "gather") gather(w.backward);
      if (kind_ == "ring") ring(w.backward);
    }
  }

 private:
  [[nodiscard]] double bytes(std::int64_t elements) const {
    return static_cast<double>(elements) * static_cast<double>(work::bytes_of(dtype_));
  }

  void add_collective(const Place& at, Collective kind, std::int64_t elements, const char* name, bool copies = false) {
    Group::Meeting meeting{.from = at, .at = at, .kind = kind, .bytes = bytes(elements), .phase = phase_, .name = name};
    if (copies) {
      Work copy = work::relayout_work(elements, dtype_);
      meeting.before = meeting.behind = copy;
    }
    group_.add_collective(std::move(meeting));
  }

  // Positions become heads, and back: all of them wait.
  void heads(bool backward) {
    constexpr const char* kName = "context parallel: heads for positions";
    constexpr const char* kBack = "context parallel: positions for heads";
    if (backward) {
      add_collective(front_, Collective::kAllToAll, queries_, kBack, true);
      for (const std::int64_t n : {spread_keys_, spread_keys_, queries_})
        add_collective(behind_, Collective::kAllToAll, n, kName, true);
    } else {
      for (const std::int64_t n : {queries_, spread_keys_, spread_keys_})
        add_collective(front_, Collective::kAllToAll, n, kName, true);
      add_collective(behind_, Collective::kAllToAll, queries_, kBack, true);
    }
  }

  // Keys and values of all positions, once for each pass; what their gradients add up to goes back.
  void gather(bool backward) {
    add_collective(front_, Collective::kAllGather, 2 * keys_ * size_,
                   "context parallel: keys and values of all positions");
    if (backward)
      add_collective(behind_, Collective::kReduceScatter, 2 * keys_ * size_,
                     "context parallel: gradients of keys and values");
  }

  // Keys and values go round while attention works on those that are there; in the backward pass their gradients go with them.
  void ring(bool backward) {
    const auto send = [&](int times, const char* name) {
      group_.add_collective({.from = front_,
                             .at = behind_,
                             .kind = Collective::kSendRecv,
                             .bytes = bytes(2 * keys_),
                             .phase = phase_,
                             .name = name,
                             .times = times});
    };
    const int steps = static_cast<int>(size_) - 1;
    send(steps, "context parallel: ring of keys and values");
    if (backward) send(steps + 1, "context parallel: ring of their gradients");
  }

  const Model& m_;
  Group& group_;
  std::int64_t size_;
  std::string kind_;
  Dtype dtype_ = Dtype::kBf16;
  std::int64_t queries_ = 0, keys_ = 0, spread_keys_ = 0;  // numbers on one GPU
  Phase phase_ = Phase::kForward;
  Place front_, behind_;
};

// Each step of a ring gives a part of the result, to be added to what is there.
void add_merges(Model& m, Draft& draft, const Row& row, std::int64_t size) {
  const Work& w = m.works[row.work];
  const auto& a = std::get<work::Attention>(w.kind);
  const std::int64_t elements = a.batch * a.heads * a.queries * a.head_size / size;
  const std::uint32_t kernels = std::max(1U, w.kernels);
  const Work sum = work::elementwise_work(elements, 2, 1, Dtype::kFp32);
  const Phase phase = row.phase;
  const Ns launches = m.launch_time(phase) * kernels + m.cpu_time(m.host.eager.op_us, phase);
  for (std::size_t i = kernels - 1; i < row.tasks.size(); i += kernels) {
    Place at = place_behind(m.graph, row.tasks[i]);
    for (std::int64_t k = 1; k < size; ++k)
      insert_work(m, draft, at, "context parallel: a part of attention added", sum,
                  {.phase = phase, .cpu_cost = launches});
  }
}

Status check_sizes(const work::Attention& a, std::int64_t size, std::string_view kind) {
  const auto refuse = [&](std::string_view what, std::int64_t count) {
    return fail(ErrorCode::kDeclined, fmt::format("{} {} cannot be divided over {} GPUs", count, what, size),
                "choose a size that divides them");
  };
  if (a.queries % size != 0) return refuse("positions", a.queries);
  if (kind == "ulysses" && a.heads % size != 0) return refuse("heads", a.heads);
  return {};
}

Status apply_cp(Model& m, Draft& draft, const Parameters& p) {
  const auto size = static_cast<std::int64_t>(p.number("size"));
  if (size == 1) {
    draft.note_change();  // one GPU has the whole sequence
    return {};
  }
  const std::string& kind = p.text("kind");
  FORETRACE_TRY(const std::unique_ptr<Group> group, Group::make(m, draft, p));
  FORETRACE_TRY(const SequenceShapes shapes, SequenceShapes::find(m));
  const std::vector<Row> rows = rows_of(m, draft);
  std::vector<const Row*> attentions;
  for (const Row& row : rows) {
    if (const auto* a = std::get_if<work::Attention>(&m.works[row.work].kind)) {
      FORETRACE_TRY_VOID(check_sizes(*a, size, kind));
      attentions.push_back(&row);
    }
  }
  if (attentions.empty()) {
    return fail(ErrorCode::kDeclined,
                "no fused attention is found: context parallelism exchanges what attention as one kernel reads",
                "where the step computes attention from its parts, put flash-attention in front");
  }
  if (p.text("reduce") == "1" && missing(m, Need::kBackward).empty()) {
    FORETRACE_TRY_VOID(group->reduce_gradients());
  }
  Exchanges exchanges(m, *group, size, kind);
  for (const Row* row : attentions) exchanges.around(*row);
  if (kind == "ring") {
    for (const Row* row : attentions) add_merges(m, draft, *row, size);
  }
  group->finish();
  const double share = 1.0 / static_cast<double>(size);
  FORETRACE_TRY_VOID(
      change_length(m, draft, shapes, share, kind == "ulysses" ? KeysSeen::kFewerHeads : KeysSeen::kAll));
  m.pass_samples *= share;
  return multiply_gpus(m, size, Batches::kShared);
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> out = group_parameters();
  out.push_back({"kind",
                 "ring: keys and values circulate; gather: every GPU gets all of them; ulysses: heads for positions by "
                 "all-to-all",
                 "ring",
                 {"ring", "ulysses", "gather"}});
  out.push_back({"reduce", "0: gradients are not reduced over these GPUs", "1", {"1", "0"}});
  return out;
}

const Registered kRegistered(
    {.name = "cp",
     .about = "context parallel: the positions of every sample divided over several GPUs",
     .parameters = parameters(),
     .assumes =
         "attention sees all keys, by a ring that overlaps it, a gather in front of it, or an exchange of heads; "
         "causal work is balanced (each GPU has an early and a late part); gradients are reduced over the GPUs",
     .source = "Ring Attention (arXiv 2310.01889), DeepSpeed Ulysses (arXiv 2309.14509), Llama 3 (arXiv 2407.21783)",
     .not_modelled =
         "attention's kernels on the smaller blocks of a ring's steps; buffers of keys and values in transit",
     .needs = {Need::kShapes},
     .changes = Changes::kWorkers,
     .parts = {.memory = Part::kModelled},
     .code = "with context_parallel(mesh[\"cp\"], buffers=…, buffer_seq_dims=…): loss = model(batch)",
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_cp,
     .check = check_group,
     .whole_program = "a compiled program's kernels do not show which of their sizes is a sequence"});

}  // namespace
}  // namespace foretrace::whatif
