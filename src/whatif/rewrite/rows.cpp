#include "whatif/rewrite/rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/saturate.hpp"
#include "hardware/choice/chooser.hpp"
#include "trace/latencies.hpp"
#include "whatif/model/compiled.hpp"
#include "whatif/rewrite/generated_rows.hpp"
#include "whatif/rewrite/layout_tasks.hpp"

namespace foretrace::whatif {

std::vector<Row> rows_of(const Model& m, const Draft& draft) {
  const Graph& g = m.graph;
  std::vector<std::uint32_t> place(m.works.size(), kNone);
  std::vector<Row> rows;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    const std::uint32_t row = m.works.row_of(t);
    if (row == kNone || draft.removed(t) || !graph::is_gpu(g.kind[t])) continue;
    std::uint32_t& at = place[row];
    if (at == kNone) {
      at = static_cast<std::uint32_t>(rows.size());
      const Ns begin = g.launch[t].valid() ? g.measured[g.launch[t].index()] : g.measured[t];
      rows.push_back({row, {}, 0, begin, g.phase[t]});
    }
    rows[at].tasks.push_back(t);
    rows[at].time += draft.cost(t);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.begin < b.begin; });
  return rows;
}

std::uint32_t main_stream(const Graph& g) {
  std::uint32_t found = 0;
  std::uint32_t most = 0;
  for (std::uint32_t l = 0; l < g.lanes.size(); ++l) {
    const graph::GraphLane& lane = g.lanes[l];
    if (lane.kind != graph::GraphLaneKind::kGpu || lane.end - lane.begin <= most) continue;
    most = lane.end - lane.begin;
    found = l;
  }
  return found;
}

double times_run(const Model& m, const Row& row) {
  const std::uint32_t kernels = m.works[row.work].kernels;
  return kernels > 0 ? std::max(1.0, std::floor(static_cast<double>(row.tasks.size()) / kernels + 0.01)) : 1.0;
}

namespace {

// A product as XLA's own kernels do it, which it times against the library's: those load rows that no access of 16 bytes fits as they load
// others.
work::Work aligned(const work::Work& work) {
  const auto* gemm = std::get_if<work::Gemm>(&work.kind);
  constexpr std::int64_t kAligned = 8;  // half-precision elements in one access of 16 bytes
  if (gemm == nullptr || gemm->m <= 0 || gemm->alignment() >= kAligned) return work;
  work::Work padded = work;
  auto& to = std::get<work::Gemm>(padded.kind);
  for (std::int64_t* size : {&to.n, &to.k, to.a_transposed ? &to.m : &to.k})
    *size = (*size + kAligned - 1) / kAligned * kAligned;
  refresh(padded);
  return padded;
}

}  // namespace

hardware::Cost rescale_row(const Model& m, const Row& row, const work::Work& becomes) {
  const work::Work& work = m.works[row.work];
  if (is_generated(m, work)) return rescale_generated(m, row, becomes);
  const double times = times_run(m, row);
  const bool compiled = is_compiled(m);
  hardware::Cost cost = rescale(static_cast<double>(row.time) / times, compiled ? aligned(work) : work,
                                compiled ? aligned(becomes) : becomes, m.device);
  cost.ns *= times;
  return cost;
}

namespace {

// What was spread over streams becomes part of the main one: behind the task launched before it, in front of the next.
void join_main_stream(const Graph& g, Draft& draft, std::uint32_t main, const Row& row,
                      const std::vector<std::uint32_t>& kept) {
  std::uint32_t first = UINT32_MAX, last = 0;  // calls
  for (const std::uint32_t t : row.tasks) {
    if (!g.launch[t].valid()) return;
    first = std::min(first, g.launch[t].value);
    last = std::max(last, g.launch[t].value);
  }
  const graph::GraphLane& lane = g.lanes[main];
  const auto launched = [&](std::uint32_t t, std::uint32_t call) {
    return g.launch[t].valid() && g.launch[t].value < call;
  };
  std::uint32_t next = lane.begin;
  while (next < lane.end && launched(next, first)) ++next;
  if (next > lane.begin) {
    for (const std::uint32_t t : kept) {
      if (g.lane[t] != main) draft.depend(next - 1, t, 0, DependencyKind::kStreamWait);
    }
  }
  while (next < lane.end && (launched(next, last + 1) || draft.removed(next))) ++next;
  if (next == lane.end || !g.launch[next].valid() || g.lane[g.launch[next].index()] != g.lane[last]) return;
  for (const std::uint32_t t : kept) {
    if (g.lane[t] != main) draft.depend(t, next, 0, DependencyKind::kStreamWait);
  }
}

// What the host did in a library's call in front of each launch that goes.
void remove_preparations(const Graph& g, Draft& draft, const Selection& gone) {
  for (const std::uint32_t t : gone) {
    if (!g.launch[t].valid()) continue;
    const auto call = static_cast<std::uint32_t>(g.launch[t].index());
    const std::uint32_t before = call - 1;
    if (call == g.lanes[g.lane[call]].begin || g.kind[before] != TaskKind::kCpu || !g.op[call].valid()) continue;
    if (g.op[before].value == g.op[call].value && !draft.removed(before)) draft.set(before, 0, graph::Origin::kScaled);
  }
}

// An algorithm on several streams begins and ends by waiting for another stream; one kernel behind another does not.
void close_gaps(const Model& m, Draft& draft, const std::vector<std::uint32_t>& kept) {
  const Graph& g = m.graph;
  const auto close = [&](std::uint32_t t) {
    if (g.lane_lag[t] > m.latencies->kernel_gap) draft.set_lane_lag(t, m.latencies->kernel_gap);
  };
  for (const std::uint32_t t : kept) close(t);
  const std::uint32_t last = *std::max_element(kept.begin(), kept.end());
  const std::uint32_t end = g.lanes[g.lane[last]].end;
  std::uint32_t next = last + 1;
  while (next < end && draft.removed(next)) ++next;
  if (next < end) close(next);
}

// Kernels of a row that take its new time. Another algorithm launches another number of them: those too many go, with their
// calls. A recurrent layer on tensor cores fills the GPU, so that streams it was spread over no longer gain anything: its
// time stays on one, and the calls on the others.
std::vector<std::uint32_t> kept_tasks(const Model& m, Draft& draft, const Row& row, const work::Work& becomes,
                                      std::size_t times) {
  const work::Work& was = m.works[row.work];
  if (was.dtype == becomes.dtype && channels_last(was) == channels_last(becomes)) return row.tasks;
  std::vector<std::uint32_t> kept = row.tasks;
  const std::uint32_t main = main_stream(m.graph);
  const auto on_main = [&](std::uint32_t t) { return m.graph.lane[t] == main; };
  // On tensor cores a convolution is one kernel after another on one stream.
  if (is_conv(becomes) && becomes.dtype != work::Dtype::kFp32 && std::any_of(kept.begin(), kept.end(), on_main)) {
    std::erase_if(kept, std::not_fn(on_main));
  }
  const std::size_t count = times * hardware::kernels_of(becomes, row.tasks.size() / times);
  Draft::Removal how = Draft::kWithLaunch;
  if (count < kept.size()) {
    std::stable_partition(kept.begin(), kept.end(), on_main);
    kept.resize(count);
    // Tasks a change before this one repeated (another pass, recomputation) have lines of their own.
    const bool once = std::none_of(m.applied.begin(), m.applied.end(), [](const Model::Applied& before) {
      return before.changes == Changes::kAccumulation || before.changes == Changes::kRecomputation;
    });
    if (once) join_main_stream(m.graph, draft, main, row, kept);
  } else if (becomes.family == work::Family::kRnn) {
    std::map<std::uint32_t, std::size_t> tasks_on;
    for (const std::uint32_t t : row.tasks) ++tasks_on[m.graph.lane[t]];
    const auto most = std::max_element(tasks_on.begin(), tasks_on.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    std::erase_if(kept, [&](std::uint32_t t) { return m.graph.lane[t] != most->first; });
    how = Draft::kTaskOnly;
  }
  if (kept.size() < row.tasks.size()) {
    Selection gone;
    for (const std::uint32_t t : row.tasks) {
      if (std::find(kept.begin(), kept.end(), t) == kept.end()) gone.push_back(t);
    }
    draft.remove(gone, how);
    if (how == Draft::kWithLaunch && is_compiled(m)) {
      remove_preparations(m.graph, draft, gone);
      close_gaps(m, draft, kept);
    }
  }
  return kept;
}

// Launches of a batch norm that trains. cuDNN's is one in either pass, but not for bf16: that always runs PyTorch's own, which gathers
// statistics, updates the running ones and normalises. With channels innermost a counter is cleared before the statistics, and
// backward sums up first (ResNet-50 in bf16, channels-last: 53 of each of 4 and 3 kernels).
std::size_t batch_norm_launches(const work::Work& w) {
  if (w.family != work::Family::kBatchNorm || w.dtype != work::Dtype::kBf16) return 1;
  if (w.backward) return channels_last(w) ? 3 : 1;
  return channels_last(w) ? 4 : 3;
}

// Launches that a run of the row has more when it becomes another; 0 where the trace's algorithm is none of these.
std::size_t more_launches(const work::Work& was, const work::Work& becomes) {
  const std::size_t before = batch_norm_launches(was);
  const std::size_t now = batch_norm_launches(becomes);
  const bool known = becomes.family == work::Family::kBatchNorm && std::max(1U, was.kernels) == before;
  return known && now > before ? now - before : 0;
}

// They are small kernels, behind each run of the row, and take their time from the others.
Ns add_launches(Model& m, Draft& draft, const Row& row, std::size_t more, double time, std::uint32_t work) {
  const Graph& g = m.graph;
  const std::size_t run = std::max(1U, m.works[row.work].kernels);
  const Ns each =
      std::min(m.latencies->short_kernel, static_cast<Ns>(time / 2 / static_cast<double>(row.tasks.size() * more)));
  Ns taken = 0;
  for (std::size_t i = run - 1; i < row.tasks.size(); i += run) {
    const std::uint32_t t = row.tasks[i];
    Place at = place_behind(g, t);
    for (std::size_t k = 0; k < more && at.known(); ++k) {
      at = draft.insert({.name = "batch norm, other kernels",
                         .cost = each,
                         .phase = row.phase,
                         .layer = g.layer[t],
                         .after = at,
                         .cpu_cost = m.cpu_time(m.host.eager.op_us, row.phase),
                         .work = work});
      taken += each;
    }
  }
  return taken;
}

}  // namespace

void set_row(Model& m, Draft& draft, const Row& row, double time, const work::Work& becomes, graph::Origin origin) {
  const work::Work& was = m.works[row.work];
  const std::size_t more = more_launches(was, becomes);
  const std::size_t times = was.kernels > 0 ? std::max<std::size_t>(1, row.tasks.size() / was.kernels) : 1;
  const bool other_kernel = was.dtype != becomes.dtype || channels_last(was) != channels_last(becomes);
  // Copies of a convolution's tensors into the layout of its kernel come and go with that kernel.
  std::optional<LayoutTasks> copies;
  if (other_kernel && is_conv(becomes)) copies.emplace(m.graph, row);
  if (copies && copies->rest().tasks.empty()) copies.reset();
  const std::vector<std::uint32_t> kept = kept_tasks(m, draft, copies ? copies->rest() : row, becomes, times);
  const std::uint32_t work = m.works.add(becomes);
  std::size_t tasks = kept.size();
  if (copies) {
    const LayoutTasks::Made made = copies->make(m, draft, kept, times, time, work);
    time -= made.time;
    tasks += made.tasks;
  }
  if (more > 0) {
    time -= static_cast<double>(add_launches(m, draft, row, more, time, work));
    tasks += more * times;
  }
  m.works.rows[work].kernels = static_cast<std::uint32_t>((tasks + times - 1) / times);
  double before = 0;
  for (const std::uint32_t t : kept) before += static_cast<double>(draft.cost(t));
  const double factor = before > 0 ? time / before : 0;
  for (const std::uint32_t t : kept) {
    draft.set(t, saturated(static_cast<double>(draft.cost(t)) * factor), origin);
    draft.set_work(t, work);
  }
}

void set_row(Model& m, Draft& draft, const Row& row, const hardware::Cost& cost, work::Work becomes) {
  becomes.sigma = cost.sigma;
  set_row(m, draft, row, cost.ns, becomes, cost.origin);
}

void replace_rows(Model& m, Draft& draft, const std::vector<const Row*>& rows, const work::Work& becomes,
                  const std::string& name, int kernels) {
  if (rows.empty()) return;
  const Graph& g = m.graph;
  const std::uint32_t first = rows.front()->tasks.front();
  if (!g.launch[first].valid()) return;
  Selection gone;
  for (const Row* r : rows) gone.insert(gone.end(), r->tasks.begin(), r->tasks.end());
  draft.remove(gone, Draft::kWithLaunch);
  const hardware::Cost cost = predict(becomes, m.device);
  const std::uint32_t work = m.works.add(becomes);
  m.works.rows[work].sigma = cost.sigma;
  const Phase phase = rows.front()->phase;
  Place at = place_before(g, first);
  for (int i = 0; i < kernels; ++i) {
    at = draft.insert({.name = name,
                       .cost = static_cast<Ns>(cost.ns / kernels),
                       .phase = phase,
                       .layer = g.layer[first],
                       .after = at,
                       .cpu_cost = m.launch_time(phase),
                       .work = work,
                       .origin = cost.origin});
  }
}

void insert_work(Model& m, Draft& draft, Place& at, std::string name, const work::Work& work, NewKernel kernel) {
  if (!at.known()) return;
  const hardware::Cost cost = predict(work, m.device);
  kernel.name = std::move(name);
  kernel.cost = cost.known ? static_cast<Ns>(cost.ns) : m.latencies->short_kernel;
  kernel.after = at;
  kernel.work = m.works.add(work);
  kernel.origin = cost.origin;
  at = draft.insert(kernel);
}

void join_rows(Model& m, Draft& draft, const std::vector<const Row*>& rows, work::Work becomes, Selection& gone,
               double most) {
  double measured = 0;
  double apart = 0;
  for (const Row* r : rows) {
    measured += static_cast<double>(r->time);
    apart += predict(m.works[r->work], m.device).ns;
  }
  refresh(becomes);
  const hardware::Cost together = predict(becomes, m.device);
  if (!together.known || apart <= 0) return;
  for (std::size_t i = 1; i < rows.size(); ++i) gone.insert(gone.end(), rows[i]->tasks.begin(), rows[i]->tasks.end());
  set_row(m, draft, *rows.front(), measured * std::min(most, together.ns / apart), becomes, graph::Origin::kModelled);
}

}  // namespace foretrace::whatif
