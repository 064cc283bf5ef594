#include "plan/compose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/replicas.hpp"
#include "plan/stages.hpp"
#include "simulate/pipeline_run.hpp"

namespace foretrace::plan {
namespace {

using hardware::Collective;
using simulate::ActionKind;
using simulate::PipelineSchedule;

constexpr double kFp32 = 4;
// Adam reads a gradient, the weight and two moments and writes all but the gradient: 7 values. With copies in FP32 it writes the
// half-precision weight too.
constexpr double kAdamValues = 7;
constexpr double kKeptInFp32 = 3;  // the weight and two moments

constexpr double kDdpBucket = 25 << 20;         // bytes: bucket_cap_mb of torch.nn.parallel.DistributedDataParallel
constexpr double kMegatronBucket = 40e6;        // elements: the least that Megatron Core reduces at once
constexpr double kMegatronBucketPerRank = 1e6;  // and the least for each replica

Ns rounded(double ns) { return static_cast<Ns>(std::llround(ns)); }

double size_of(const std::string& dtype, double otherwise) {
  if (dtype.empty()) return otherwise;
  return dtype == "fp32" ? 4 : 2;
}

class Composer {
 public:
  Composer(const Job& job, Groups& groups, PipelineSchedule schedule, std::vector<Stage> stages)
      : job_(job),
        plan_(job.plan),
        p_(job.parts),
        groups_(groups),
        schedule_(std::move(schedule)),
        stages_(std::move(stages)),
        replicas_(plan_, groups, job.expert_share) {}

  Composition run(bool with_actions) {
    simulate::PipelineCosts costs;
    for (const Stage& s : stages_) costs.stages.push_back(cost_of(s));
    costs.transfer.assign(stages_.size() - 1, transfer());
    const simulate::PipelineRun run = simulate::run_pipeline(schedule_, costs);
    out_.bubble = run.bubble();
    Ns latest = 0;
    std::uint32_t slowest = 0;
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      out_.ranks.push_back(rank_of(r, run));
      const Ns after = behind(r, run);
      out_.ranks[r].gradients = reduced_[r];
      out_.ranks[r].update = after - reduced_[r];
      out_.gpu_time = std::max(out_.gpu_time, gpu_time(r));
      const Ns end = run.finished[r] + after;
      if (end > latest) slowest = r;
      latest = std::max(latest, end);
    }
    out_.step = latest;
    out_.sigma = std::max(out_.sigma, replicas_.sigma());
    exposures(slowest);
    for (const PlanRank& r : out_.ranks) out_.peak = std::max(out_.peak, r.peak_bytes.value_or(0));
    if (with_actions) show(run);
    return std::move(out_);
  }

 private:
  [[nodiscard]] Held held(const Stage& s) const {
    const double own = s.sum(p_, [](const Part& p) { return p.parameters; });
    return replicas_.held(own + (s.copies_embedding(p_) ? p_.tied : 0), s.blocks * p_.block.parameters);
  }
  [[nodiscard]] Held held_by(std::uint32_t rank) const {
    Held out;
    for (std::uint32_t c = 0; c < schedule_.shape.chunks; ++c) {
      const Held h = held(stages_[schedule_.stage_of(rank, c)]);
      out.common += h.common;
      out.experts += h.experts;
    }
    return out;
  }
  [[nodiscard]] double rank_sum(std::uint32_t rank, double (*of)(const Part&)) const {
    double out = 0;
    for (std::uint32_t c = 0; c < schedule_.shape.chunks; ++c) out += stages_[schedule_.stage_of(rank, c)].sum(p_, of);
    return out;
  }

  // Time of a pass of a stage whose parameters are gathered block by block while the previous block computes.
  [[nodiscard]] double with_gathers(double compute, double gather, int blocks) const {
    return std::max(compute, gather) + (blocks > 0 ? std::min(compute, gather) / (blocks + 1) : 0);
  }

  // What kernels take longer while collectives of the replicas run for so long: these occupy SMs, and memory.
  [[nodiscard]] double slowed_by(double hidden) const {
    if (job_.sms <= 0) return 0;
    const double left = 1 - static_cast<double>(std::min(replicas_.channels(), job_.sms / 2)) / job_.sms;
    return hidden * (1 - left * (1 - job_.contention));
  }

  simulate::StageCost cost_of(const Stage& s) {
    const auto sum = [&](double (*of)(const Part&)) { return s.sum(p_, of); };
    simulate::StageCost c;
    double forward = sum([](const Part& p) { return static_cast<double>(p.forward - p.once); });
    double backward = sum([](const Part& p) { return static_cast<double>(p.backward); });
    double weight = sum([](const Part& p) { return static_cast<double>(p.weight); });
    double forward_cpu = sum([](const Part& p) { return static_cast<double>(p.forward_cpu - p.once_cpu); });
    double backward_cpu = sum([](const Part& p) { return static_cast<double>(p.backward_cpu); });
    double weight_cpu = sum([](const Part& p) { return static_cast<double>(p.weight_cpu); });
    // In each pass something comes from one neighbour and goes to the other.
    const int messages = (s.first ? 0 : 1) + (s.last ? 0 : 1);
    forward_cpu += static_cast<double>(messages * job_.call);
    backward_cpu += static_cast<double>(messages * job_.call);
    if (job_.microbatches > 1) {
      // All but the first add their gradients to what is there.
      const double share = 1.0 - 1.0 / job_.microbatches;
      const double tensors = sum([](const Part& p) { return p.tensors; });
      const double add =
          share * (3 * gradient_size_ * held(s).all() / job_.streaming + tensors * static_cast<double>(job_.gap));
      const double add_cpu = share * tensors * static_cast<double>(job_.launch);
      backward += add;
      weight += add;
      backward_cpu += add_cpu;
      weight_cpu += add_cpu;
    }
    double waits = 0;
    if (plan_.zero == 3 && replicas_.divide()) {
      const auto gather = static_cast<double>(replicas_.gather(held(s), gathered_size(), unit()));
      waits = -(forward + backward);
      forward = with_gathers(forward + slowed_by(std::min(gather, forward)), gather, s.blocks);
      if (plan_.reshard) backward = with_gathers(backward + slowed_by(std::min(gather, backward)), gather, s.blocks);
      waits += forward + backward;
    }
    gathers_.push_back(waits);
    c.forward = rounded(forward);
    c.backward = rounded(backward);
    c.weight = std::min(c.backward, rounded(weight));
    c.forward_cpu = rounded(forward_cpu * job_.slowest_host);
    c.backward_cpu = rounded(backward_cpu * job_.slowest_host);
    c.weight_cpu = std::min(c.backward_cpu, rounded(weight_cpu * job_.slowest_host));
    c.once = rounded(sum([](const Part& p) { return static_cast<double>(p.once); }));
    c.once_cpu = rounded(sum([](const Part& p) { return static_cast<double>(p.once_cpu); }) * job_.slowest_host);
    return c;
  }

  /// Bytes of an element as it is gathered.
  [[nodiscard]] double gathered_size() const { return size_of(plan_.param_dtype, p_.gradient_bytes); }

  Ns group(Collective kind, double bytes, std::int64_t ranks, std::int64_t apart) {
    const hardware::CollectiveCost c = groups_.cost(kind, bytes, ranks, apart);
    out_.sigma = std::max(out_.sigma, c.sigma);
    return c.ns;
  }

  // Each of the tp ranks sends what it holds: all of it, or with sequence parallelism its positions.
  Ns transfer() {
    if (stages_.size() < 2) return 0;
    const double bytes = p_.boundary;
    return group(Collective::kSendRecv, bytes, 2, plan_.apart("pp"));
  }

  // Micro-batches that each stage of a GPU sees: a dualpipe's two have half of them.
  [[nodiscard]] double passes() const {
    return static_cast<double>(job_.microbatches) / (plan_.schedule == "dualpipe" ? 2 : 1);
  }

  [[nodiscard]] Ns gpu_time(std::uint32_t rank) const {
    const double pass =
        rank_sum(rank, [](const Part& p) { return static_cast<double>(p.forward - p.once + p.backward - p.exposed); });
    const double once = rank_sum(rank, [](const Part& p) { return static_cast<double>(p.once); });
    return rounded(pass * passes() + once + update_of(rank));
  }

  // GPU time of a rank's part of the update.
  [[nodiscard]] double update_of(std::uint32_t rank) const {
    const double all = total(p_.blocks, [](const Part& p) { return p.parameters; });
    double update = all > 0 ? static_cast<double>(p_.update) * replicas_.kept(held_by(rank), 1) / all : 0;
    if (master_) update *= (kAdamValues * kFp32 + p_.gradient_bytes) / (kAdamValues * p_.gradient_bytes);
    if (copies_gradients()) update += 2 * gradient_size_ * held_by(rank).all() / job_.streaming;
    // Gradients are divided by the number of micro-batches, one kernel for each.
    if (plan_.pp > 1) update += 2 * gradient_size_ * held_by(rank).all() / job_.streaming;
    return update;
  }

  // Behind a rank's last backward: what is left of the reduction, the update, what is gathered again.
  Ns behind(std::uint32_t rank, const simulate::PipelineRun& run) {
    const Ns reduction = exposed_reduction(rank, run);
    const Held mine = held_by(rank);
    const double tensors = rank_sum(rank, [](const Part& p) { return p.tensors; });
    const double all_tensors = total(p_.blocks, [](const Part& p) { return p.tensors; });
    double update_cpu = all_tensors > 0 ? static_cast<double>(p_.update_cpu) * tensors / all_tensors : 0;
    if (plan_.pp > 1) update_cpu += tensors * static_cast<double>(job_.launch);
    const Ns copies = tied_gradients(rank);
    Ns gather = plan_.zero == 1 || plan_.zero == 2 ? replicas_.gather(mine, gathered_size(), 0) : 0;
    // Each block's parameters are there before its forward pass in the next step.
    if (plan_.overlap == true) gather = added_to(gather, run.finish[rank][0] - run.start[rank][0], rank);
    reduced_[rank] = reduction + copies + gather;
    return reduced_[rank] + rounded(std::max(update_of(rank), update_cpu));
  }

  // The first stage and the last one have a copy each of a weight that embedding and head share, and add up its gradients.
  Ns tied_gradients(std::uint32_t rank) {
    const auto& shape = schedule_.shape;
    bool takes_part = false;
    for (std::uint32_t c = 0; c < shape.chunks; ++c) {
      const Stage& s = stages_[schedule_.stage_of(rank, c)];
      takes_part |= s.copies_embedding(p_) || (s.first && !s.last && p_.tied > 0);
    }
    const std::int64_t apart = plan_.apart("pp") * (plan_.pp - 1);
    return takes_part ? group(Collective::kAllReduce, p_.tied * gradient_size_, 2, apart) : 0;
  }

  // Gradients of several micro-batches are added up where the first one put them, and copied into DDP's buckets in the end.
  // FP32 gradients of half-precision weights are one buffer that is reduced where it is.
  [[nodiscard]] bool copies_gradients() const {
    return !master_ && plan_.zero == 0 && replicas_.reduce() && job_.microbatches > 1;
  }
  // Such a buffer is there all the time, where gradients are not divided with the parameters.
  [[nodiscard]] bool gradients_stay() const { return master_ && (plan_.zero < 3 || !replicas_.divide()); }

  [[nodiscard]] double total(int blocks, double (*of)(const Part&)) const {
    return Stage{blocks, true, true}.sum(p_, of);
  }

  // Gradients are reduced as the last micro-batch's backward makes them: what that does not hide comes behind it.
  Ns exposed_reduction(std::uint32_t rank, const simulate::PipelineRun& run) {
    reduced_.resize(schedule_.ranks.size());
    const Ns all = replicas_.reduction(held_by(rank), size_of(plan_.reduce_dtype, gradient_size_), reduced_at_once());
    if (plan_.overlap == false) return all;
    const auto& actions = schedule_.ranks[rank];
    Ns window = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const bool last = actions[i].kind != ActionKind::kForward && run.finish[rank][i] == run.finished[rank];
      if (last) window = run.finish[rank][i] - run.start[rank][i];
    }
    return added_to(all, window, rank);
  }

  // Elements of gradients that one call reduces: those of a block where parameters are divided, DDP's buckets, or Megatron's where gradients
  // in FP32 are in one buffer (which without overlap is reduced as a whole).
  [[nodiscard]] double reduced_at_once() const {
    if (plan_.bucket_mb) return *plan_.bucket_mb * 1e6 / gradient_size_;
    if (plan_.zero == 3) return unit();
    if (!master_) return kDdpBucket / gradient_size_;
    if (plan_.buckets) return kDdpBucket / p_.gradient_bytes;
    return plan_.overlap == false ? 0 : std::max(kMegatronBucket, kMegatronBucketPerRank * plan_.dp * plan_.cp);
  }
  /// Elements of what is gathered or reduced at once of divided parameters.
  [[nodiscard]] double unit() const { return p_.block.parameters; }

  // What communication during a pass adds to it: its exposed part, and what the rest takes from kernels.
  [[nodiscard]] Ns added_to(Ns all, Ns window, std::uint32_t rank) const {
    const Ns exposed = exposed_part(all, window, rank);
    return exposed + rounded(slowed_by(static_cast<double>(all - exposed)));
  }

  // The part of all blocks' communication that a pass through them does not hide. A block's own communication never overlaps its own work.
  [[nodiscard]] Ns exposed_part(Ns all, Ns window, std::uint32_t rank) const {
    int blocks = 0;
    for (std::uint32_t c = 0; c < schedule_.shape.chunks; ++c) blocks += stages_[schedule_.stage_of(rank, c)].blocks;
    const double pieces = std::max(1, blocks + 1);
    return std::max<Ns>(all - rounded(static_cast<double>(window) * (1 - 1 / pieces)),
                        rounded(static_cast<double>(all) / pieces));
  }

  void exposures(std::uint32_t slowest) {
    const double inside = rank_sum(slowest, [](const Part& p) { return static_cast<double>(p.exposed); });
    out_.exposed_groups = rounded(inside * passes());
    double gathers = 0;
    for (std::uint32_t c = 0; c < schedule_.shape.chunks; ++c) gathers += gathers_[schedule_.stage_of(slowest, c)];
    out_.exposed_gradients = rounded(gathers * passes()) + reduced_[slowest];
    // A micro-batch passes every border once each way before a pipeline is full and after it is empty.
    if (stages_.size() > 1) out_.exposed_stages = 2 * static_cast<Ns>(stages_.size() - 1) * transfer();
  }

  /// Most bytes of the last part beyond what it keeps. In place: the logits, or their gradient.
  [[nodiscard]] double behind_blocks() const {
    return plan_.fused_loss ? std::min(p_.last.transient, p_.output) : p_.last.transient;
  }

  PlanRank rank_of(std::uint32_t rank, const simulate::PipelineRun& run) {
    PlanRank out;
    out.busy = run.busy[rank];
    out.bubble = run.end - run.busy[rank];
    const std::vector<std::uint32_t> held = schedule_.most_in_flight(rank);
    double activations = 0, copies = 0, scratch = 0, largest = 0;
    bool first = false, last = false;
    for (std::uint32_t c = 0; c < schedule_.shape.chunks; ++c) {
      const Stage& s = stages_[schedule_.stage_of(rank, c)];
      out.stages.push_back(static_cast<int>(schedule_.stage_of(rank, c)));
      out.blocks += s.blocks;
      activations += held[c] * s.sum(p_, [](const Part& p) { return p.activation; });
      copies += s.sum(p_, [](const Part& p) { return p.copies; });
      scratch = std::max({scratch, p_.block.transient, s.last ? behind_blocks() : 0});
      first |= s.first;
      last |= s.last;
      largest = std::max(largest, s.most(p_, [](const Part& p) { return p.largest; }));
      out.in_flight += static_cast<double>(held[c]) / schedule_.shape.chunks;
    }
    if (!p_.memory) return out;
    const double all = total(p_.blocks, [](const Part& p) { return p.parameters; });
    const Held mine = held_by(rank);
    const auto share = [&](double elements) { return all > 0 ? elements / all : 1; };
    // FP32 weights of which each GPU has a part are the only ones: half-precision ones are made as they are gathered.
    const bool gathered_only = master_ && plan_.zero == 3 && replicas_.divide();
    const double parameters = gathered_only ? 0 : share(replicas_.kept(mine, 3)) * p_.parameter_bytes;
    const double stated = replicas_.kept(mine, 1);
    const double states = master_ ? stated * kKeptInFp32 * kFp32 : share(stated) * p_.state_bytes;
    double gradients = replicas_.kept(mine, 2) * gradient_size_;
    // Two blocks at a time plus what is outside the blocks, or all of them where none is freed.
    const double around = mine.all() - out.blocks * p_.block.parameters;
    const double gathered = plan_.zero == 3 && replicas_.divide()
                                ? (plan_.reshard ? 2 * p_.block.parameters + around : mine.all()) * gathered_size()
                                : 0;
    // Once the first micro-batch is back its gradients stay; the next ones are made in memory of their own and added.
    const double in_flight = std::accumulate(held.begin(), held.end(), 0.0);
    const double passes = static_cast<double>(job_.microbatches) * schedule_.shape.chunks;
    const double later = passes > in_flight ? activations : activations * (1 - 1 / std::max(1.0, in_flight));
    if (copies_gradients()) gradients *= 2;
    if (plan_.buckets && replicas_.reduce()) gradients += mine.all() * p_.gradient_bytes;
    if (job_.microbatches > 1) gradients += largest * p_.gradient_bytes;
    // All but the one that is computed now: that one is among the activations.
    const double outputs = plan_.outputs && last ? (job_.microbatches - 1) * p_.output : 0;
    const double end = gradients + (first ? p_.first.transient : 0);
    double peak = std::max(std::max(activations, later + gradients) + scratch, end);
    if (gradients_stay()) {
      // Behind the last part's backward what it kept is gone.
      const double blocks_back = activations - (last ? p_.last.activation : 0) + p_.block.scratch;
      peak = std::max(gradients + std::max(blocks_back, last ? activations + behind_blocks() : 0), end);
    } else if (job_.microbatches == 1 && last) {
      // Behind the last part's backward the blocks still hold all they keep, together with that part's gradients.
      // A program with stages gives gradients back before its first pass.
      const double old =
          plan_.pp == 1 && p_.old_gradients > 0 ? p_.old_transient + p_.old_gradients * gradients : behind_blocks();
      const double before = activations + std::max(old, behind_blocks());
      const double then = activations - p_.last.activation + p_.last.parameters * gradient_size_ + p_.block.transient;
      peak = std::max({before, then, end});
    }
    peak += copies + gathered + outputs;
    out.states_bytes = rounded(parameters + states + gradients);
    out.activation_bytes = rounded(activations);
    out.peak_bytes = rounded(parameters + states + p_.other_bytes + peak);
    return out;
  }

  void show(const simulate::PipelineRun& run) {
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      for (std::size_t i = 0; i < schedule_.ranks[r].size(); ++i) {
        const simulate::PipelineAction& a = schedule_.ranks[r][i];
        out_.actions.push_back({static_cast<int>(r), static_cast<int>(a.microbatch), static_cast<int>(a.chunk),
                                "FBIW"[static_cast<std::size_t>(a.kind)], run.start[r][i], run.finish[r][i]});
      }
    }
  }

  const Job& job_;
  const Plan& plan_;
  const Parts& p_;
  Groups& groups_;
  PipelineSchedule schedule_;
  std::vector<Stage> stages_;
  Replicas replicas_;
  /// FP32 copies of half-precision weights change what the update moves; where all is FP32 there is nothing to change.
  bool master_ = plan_.master && p_.gradient_bytes < kFp32;
  double gradient_size_ = master_ ? kFp32 : p_.gradient_bytes;
  std::vector<double> gathers_;  // by stage: time of both passes of a micro-batch that waits for parameters
  std::vector<Ns> reduced_;      // by rank
  Composition out_;
};

}  // namespace

Result<Composition> compose(const Job& job, Groups& groups, bool with_actions) {
  const Plan& p = job.plan;
  FORETRACE_TRY(const simulate::ScheduleKind kind, simulate::schedule_named(p.schedule));
  FORETRACE_TRY(PipelineSchedule schedule,
                simulate::make_pipeline_schedule({kind, static_cast<std::uint32_t>(p.pp),
                                                  static_cast<std::uint32_t>(job.microbatches),
                                                  static_cast<std::uint32_t>(std::max(1, p.chunks))}));
  FORETRACE_TRY(std::vector<Stage> stages, cut(p, job.parts, job.layers, schedule.stages()));
  return Composer(job, groups, std::move(schedule), std::move(stages)).run(with_actions);
}

}  // namespace foretrace::plan
