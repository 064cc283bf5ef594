#include "whatif/rewrite/layout_tasks.hpp"

#include <algorithm>
#include <span>

#include "hardware/choice/chooser.hpp"
#include "hardware/cost.hpp"
#include "hardware/figures.hpp"

namespace foretrace::whatif {

namespace {

struct Copy {
  std::string name;
  double ns = 0;
  bool result = false;
};

std::vector<Copy> copies_of(const Model& m, const work::Work& w) {
  std::vector<Copy> all;
  for (const hardware::LayoutChange& change : hardware::layout_changes(w)) {
    const hardware::Cost cost = predict(work::relayout_work(change.elements, w.dtype), m.device);
    if (!cost.known) return {};
    const bool to_last = change.result == channels_last(w);
    all.push_back({std::string(hardware::layout_change_name(to_last)), cost.ns, change.result});
  }
  return all;
}

// Around the kernels of one run, on the stream they belong to: strict ones may be spread over several, and a copy next to them on another
// stream would cost nothing.
void insert(Model& m, Draft& draft, std::span<const std::uint32_t> kernels, const std::vector<Copy>& copies,
            double factor, std::uint32_t work) {
  const Graph& g = m.graph;
  const std::uint32_t main = main_stream(g);
  std::vector<std::uint32_t> there;
  for (const std::uint32_t t : kernels) {
    if (g.lane[t] == main) there.push_back(t);
  }
  if (!there.empty()) kernels = there;
  const std::uint32_t first = kernels.front();
  Place at = place_before(g, first);
  // One launch more inside the library: no operation around it.
  const Ns launch =
      m.cpu_time(std::max(0.0, m.host.reference.launch_call_us - m.host.profiler.call_us), g.phase[first]);
  bool behind = false;
  for (const Copy& copy : copies) {
    if (copy.result && !behind) at = place_behind(g, kernels.back());
    behind = behind || copy.result;
    at = draft.insert({.name = copy.name,
                       .cost = static_cast<Ns>(copy.ns * factor),
                       .phase = g.phase[first],
                       .layer = g.layer[first],
                       .after = at,
                       .cpu_cost = launch,
                       .work = work,
                       .origin = graph::Origin::kModelled});
  }
}

}  // namespace

LayoutTasks::LayoutTasks(const Graph& g, const Row& row) : rest_(row) {
  if (row.tasks.size() < 2) return;
  const auto is_copy = [&](std::uint32_t t) { return hardware::is_layout_change(g.task_name(t)); };
  std::copy_if(row.tasks.begin(), row.tasks.end(), std::back_inserter(copies_), is_copy);
  std::erase_if(rest_.tasks, is_copy);
}

LayoutTasks::Made LayoutTasks::make(Model& m, Draft& draft, const std::vector<std::uint32_t>& kept, std::size_t times,
                                    double time, std::uint32_t work) const {
  const Graph& g = m.graph;
  std::vector<std::uint32_t> kernels = kept;
  std::sort(kernels.begin(), kernels.end());
  const std::size_t per_run = kernels.size() / times;
  std::vector<Copy> copies = copies_of(m, m.works[work]);
  const bool launched =
      std::all_of(kernels.begin(), kernels.end(), [&](std::uint32_t t) { return g.launch[t].valid(); });
  if (per_run == 0 || !launched) copies.clear();
  double sum = 0;
  for (const Copy& copy : copies) sum += copy.ns * static_cast<double>(times);
  const double factor = sum > 0 ? std::min(1.0, hardware::measured_figures(m.device).layout_share * time / sum) : 1;
  const Made made{sum * factor, copies.size() * times};
  if (!copies.empty() && copies_.size() == made.tasks) {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      draft.set(copies_[i], static_cast<Ns>(copies[i % copies.size()].ns * factor), graph::Origin::kModelled);
      draft.set_work(copies_[i], work);
    }
    return made;
  }
  draft.remove(copies_, Draft::kWithLaunch);
  for (std::size_t run = 0; run < times && !copies.empty(); ++run) {
    insert(m, draft, std::span(kernels).subspan(run * per_run, per_run), copies, factor, work);
  }
  return made;
}

}  // namespace foretrace::whatif
