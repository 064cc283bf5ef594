#include "whatif/job/compress_reductions.hpp"

#include <map>

#include "trace/latencies.hpp"
#include "whatif/job/reductions.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

namespace {

struct Edge {
  std::uint32_t other;
  Ns lag;
  DependencyKind kind;
};

/// What the GPU does for a hook in front of a collective and behind it, on the collective's stream.
class Hook {
 public:
  Hook(Model& m, Draft& draft, const std::vector<Reduction>& recorded) : m_(m), draft_(draft) {
    for (const Reduction& r : recorded) waits_for_[r.task];
    const Graph& g = m.graph;
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
        const auto to = waits_for_.find(g.dep_to[d]);
        if (to != waits_for_.end() && graph::is_gpu(g.kind[t])) to->second.push_back({t, g.dep_lag[d], g.dep_kind[d]});
      }
    }
  }

  // The first kernel waits for the gradients as the collective did.
  void compress(std::uint32_t collective, double bytes, int kernels, Ns cpu) {
    if (kernels == 0) return;
    const Place at = insert("compress", place_before(m_.graph, collective), bytes, kernels, cpu);
    if (at.gpu == kNone) return;
    for (const Edge& e : waits_for_.at(collective)) draft_.depend(e.other, at.gpu, e.lag, e.kind);
  }

  // What waited for the collective waits for the last kernel.
  void decompress(std::uint32_t collective, double bytes, int kernels) {
    if (kernels == 0) return;
    const Graph& g = m_.graph;
    const Ns cpu = kernels * m_.cpu_time(m_.host.ddp.copy_back_us, Phase::kBackward);
    const Place at = insert("decompress", place_behind(g, collective), bytes, kernels, cpu);
    if (at.gpu == kNone) return;
    for (std::uint32_t d = g.dep_begin[collective]; d < g.dep_begin[collective + 1]; ++d) {
      if (g.dep_kind[d] == DependencyKind::kShare) continue;
      draft_.depend(at.gpu, g.dep_to[d], g.dep_lag[d], g.dep_kind[d]);
    }
  }

 private:
  Place insert(const char* name, const Place& after, double bytes, int kernels, Ns cpu) {
    if (!after.known()) return {};
    const double moves = m_.device.streaming_gbs() > 0 ? bytes / m_.device.streaming_gbs() : 0;
    return draft_.insert({.name = name,
                          .cost = kernels * m_.latencies->short_kernel + static_cast<Ns>(moves),
                          .phase = Phase::kBackward,
                          .after = after,
                          .cpu_cost = cpu});
  }

  Model& m_;
  Draft& draft_;
  std::map<std::uint32_t, std::vector<Edge>> waits_for_;  // by collective
};

// Which gradients each recorded all-reduce carries: both are in the order in which they are ready.
std::vector<Bucket> buckets_of(const std::vector<Reduction>& recorded, const Gradients& gradients) {
  std::vector<Bucket> out;
  std::uint32_t next = 0;
  std::int64_t carried = 0, there = 0;
  for (const Reduction& r : recorded) {
    Bucket& bucket = out.emplace_back();
    bucket.bytes = r.bytes;
    carried += r.bytes;
    for (; next < gradients.list.size() && there + gradients.bytes(next) <= carried; ++next) {
      bucket.gradients.push_back(next);
      there += gradients.bytes(next);
    }
  }
  return out;
}

}  // namespace

Status compress_reductions(Model& m, Draft& draft, const Parallelism& how) {
  const std::vector<Reduction> recorded = reductions_of(m);
  FORETRACE_TRY(const Gradients gradients, find_gradients(m));
  FORETRACE_TRY_VOID(each_gradient_once(recorded, gradients));
  const RecordedTransfers transfers(m.graph, recorded);
  const std::vector<Bucket> buckets = buckets_of(recorded, gradients);
  const auto workers = static_cast<int>(step_facts(m)->workers);
  Hook hook(m, draft, recorded);
  // Measured steps had hooks on networks, none between the ranks of a recorded job.
  m.validated = false;
  m.not_modelled.emplace_back("compress-gradients on a recorded job is not validated against measurements");
  for (std::size_t k = 0; k < recorded.size(); ++k) {
    const Compressed c = compress(m, gradients, how, workers, buckets[k]);
    if (c.kind != hardware::Collective::kAllReduce) {
      return fail(ErrorCode::kDeclined,
                  "the method gathers what it sends, and no recorded collective shows how long a gather takes");
    }
    double time = 0;
    for (const double bytes : c.messages) time += static_cast<double>(transfers.time(bytes)) * c.slower;
    draft.set(recorded[k].task, static_cast<Ns>(time), graph::Origin::kScaled);
    const double us = m.host.ddp.hook_us + m.host.ddp.copy_back_us * c.before_kernels;
    hook.compress(recorded[k].task, c.before_bytes, c.before_kernels, m.cpu_time(us, Phase::kBackward) + c.cpu);
    hook.decompress(recorded[k].task, c.between_bytes + c.behind_bytes, c.between_kernels + c.behind_kernels);
  }
  return {};
}

}  // namespace foretrace::whatif
