// Plans as text.

#include "plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/decimal.hpp"
#include "base/suggest.hpp"
#include "base/text.hpp"
#include "simulate/pipeline_schedule.hpp"

namespace foretrace::plan {
namespace {

constexpr int kMostOfOne = 1 << 20;   // micro-batches, chunks, blocks: a guard against typing errors
constexpr double kMostSamples = 1e9;  // the same
constexpr std::string_view kUsualOrder = "tp-cp-dp-pp";
constexpr std::string_view kKeys =
    "tp, pp, cp, ep, dp, fsdp, zero, sequence, vocab, reduce, microbatches, microbatch, global-batch, schedule, "
    "chunks, balance, stages, "
    "kind, order, async, kv, imbalance, capacity, reshard, prefetch, cpu_offload, overlap, param-dtype, reduce-dtype, "
    "master, bucket-mb, buckets, loss, outputs, recompute";

tl::unexpected<Error> wrong(std::string_view key, std::string_view value, std::string_view expected,
                            std::string hint = {}) {
  return fail(ErrorCode::kUsage, fmt::format("{}={}: {} expected", key, value, expected), std::move(hint));
}

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> out;
  for (const std::string_view name : split(list, ',')) out.emplace_back(name.substr(name.find_first_not_of(' ')));
  return out;
}

class Reader {
 public:
  Status read(std::string_view key, std::string_view value) {
    if (!seen_.insert(std::string(key)).second) {
      return fail(ErrorCode::kUsage, fmt::format("{} is given twice", key));
    }
    if (key == "tp") return gpus(key, value, plan_.tp);
    if (key == "pp") return gpus(key, value, plan_.pp);
    if (key == "cp") return gpus(key, value, plan_.cp);
    if (key == "ep") return gpus(key, value, plan_.ep);
    if (key == "dp") return gpus(key, value, plan_.dp);
    if (key == "chunks") return count(key, value, plan_.chunks);
    if (key == "stages") return stages(value);
    if (key == "fsdp") return gpus(key, value, fsdp_);
    if (key == "zero")
      return choice(key, value, {"0", "1", "2", "3"}, [&](std::size_t i) { plan_.zero = static_cast<int>(i); });
    if (key == "sequence") return choice(key, value, {"0", "1"}, [&](std::size_t i) { plan_.sequence = i == 1; });
    if (key == "reduce") return choice(key, value, {"0", "1"}, [&](std::size_t i) { plan_.reduce = i == 1; });
    if (key == "overlap") return choice(key, value, {"0", "1"}, [&](std::size_t i) { plan_.overlap = i == 1; });
    if (key == "async") return choice(key, value, {"0", "1"}, [&](std::size_t i) { plan_.async = i == 1; });
    if (key == "bucket-mb") return factor(key, value, plan_.bucket_mb.emplace());
    if (key == "loss") return choice(key, value, {"plain", "fused"}, [&](std::size_t i) { plan_.fused_loss = i == 1; });
    if (key == "buckets") return choice(key, value, {"none", "kept"}, [&](std::size_t i) { plan_.buckets = i == 1; });
    if (key == "kv")
      return choice(key, value, {"refused", "replicated"}, [&](std::size_t i) { plan_.divide_keys = i == 1; });
    if (key == "reshard") return choice(key, value, {"0", "1"}, [&](std::size_t i) { plan_.reshard = i == 1; });
    if (key == "cpu_offload") return choice(key, value, {"0", "1"}, [&](std::size_t i) { plan_.cpu_offload = i == 1; });
    if (key == "prefetch") return count(key, value, plan_.prefetch.emplace());
    if (key == "imbalance") return factor(key, value, plan_.imbalance);
    if (key == "capacity") return factor(key, value, plan_.capacity);
    if (key == "master") return choice(key, value, {"none", "fp32"}, [&](std::size_t i) { plan_.master = i == 1; });
    if (key == "outputs")
      return choice(key, value, {"dropped", "kept"}, [&](std::size_t i) { plan_.outputs = i == 1; });
    if (key == "vocab") {
      return choice(key, value, {"replicated", "parallel"}, [&](std::size_t i) { plan_.vocab = i == 1; });
    }
    if (key == "microbatches") return count(key, value, plan_.microbatches.emplace());
    if (key == "microbatch") return samples(key, value, plan_.microbatch.emplace());
    if (key == "global-batch") return samples(key, value, plan_.global_batch.emplace());
    return name(key, value);
  }

  Result<Plan> finish() {
    if (fsdp_ > 0) {
      if (seen_.contains("zero") && plan_.zero != 3) {
        return fail(ErrorCode::kUsage, fmt::format("fsdp={} divides parameters: zero={} does not", fsdp_, plan_.zero),
                    "leave zero away, or give dp instead of fsdp");
      }
      plan_.zero = 3;
      if (!seen_.contains("dp")) plan_.dp = fsdp_;
      if (plan_.dp % fsdp_ != 0) {
        return fail(ErrorCode::kUsage, fmt::format("fsdp={} does not divide dp={}", fsdp_, plan_.dp));
      }
      plan_.shard = fsdp_ == plan_.dp ? 0 : fsdp_;
    } else if (!seen_.contains("dp")) {
      plan_.dp = plan_.ep;
    }
    return check();
  }

 private:
  static Status count(std::string_view key, std::string_view value, int& to, int most = kMostOfOne) {
    const std::int64_t n = parse_int64(value).value_or(0);
    if (n < 1 || n > most) return wrong(key, value, fmt::format("a whole number from 1 to {}", most));
    to = static_cast<int>(n);
    return {};
  }
  // Four of them multiplied stay far below what 64 bits hold.
  static Status gpus(std::string_view key, std::string_view value, int& to) {
    return count(key, value, to, whatif::kMostWorkers);
  }
  Status stages(std::string_view value) {
    for (const std::string_view blocks : split(value, '|')) {
      // A stage may hold the embedding or the head alone.
      const std::int64_t n = parse_int64(blocks).value_or(-1);
      if (n < 0 || n > kMostOfOne) return wrong("stages", value, "whole numbers of blocks");
      plan_.stages.push_back(static_cast<int>(n));
    }
    return {};
  }
  static Status samples(std::string_view key, std::string_view value, double& to) {
    to = parse_double(value).value_or(0);
    if (!(to > 0) || to > kMostSamples) return wrong(key, value, "a number of samples above 0, at most 1e9");
    return {};
  }
  static Status factor(std::string_view key, std::string_view value, double& to) {
    to = parse_double(value).value_or(0);
    if (!(to > 0) || to > kMostSamples) return wrong(key, value, "a factor above 0");
    return {};
  }
  template <class Set>
  static Status choice(std::string_view key, std::string_view value, const std::vector<std::string_view>& all,
                       Set set) {
    const auto at = std::find(all.begin(), all.end(), value);
    if (at == all.end()) {
      return wrong(key, value, fmt::format("{}", fmt::join(all, " or ")),
                   did_you_mean(value, {all.begin(), all.end()}));
    }
    set(static_cast<std::size_t>(at - all.begin()));
    return {};
  }
  Status name(std::string_view key, std::string_view value) {
    const auto text = [&](std::string& to, const std::vector<std::string_view>& all) {
      return choice(key, value, all, [&](std::size_t i) { to = all[i]; });
    };
    if (key == "schedule") return text(plan_.schedule, {"1f1b", "gpipe", "interleaved", "zb1p", "dualpipe"});
    if (key == "balance") return text(plan_.balance, {"layers", "time"});
    if (key == "kind") return text(plan_.kind, {"ring", "ulysses", "gather"});
    if (key == "param-dtype") return text(plan_.param_dtype, {"bf16", "fp16", "fp32"});
    if (key == "reduce-dtype") return text(plan_.reduce_dtype, {"fp32", "bf16", "fp16"});
    if (key == "order") {
      // GPUs of dp and cp hold the same parameters: they are one group of neighbours, too.
      return text(plan_.order,
                  {kUsualOrder, "tp-pp-cp-dp", "cp-dp-tp-pp", "cp-dp-pp-tp", "pp-tp-cp-dp", "pp-cp-dp-tp"});
    }
    if (key == "recompute") {
      if (!parse_int64(value)) return text(plan_.recompute, {"none", "selective", "alternate", "full"});
      int blocks = 0;
      FORETRACE_TRY_VOID(count(key, value, blocks));
      plan_.recompute = fmt::format("{}", blocks);
      return {};
    }
    std::string hint = did_you_mean(key, names_in(kKeys));
    if (hint.empty()) hint = fmt::format("it has {}", kKeys);
    return fail(ErrorCode::kUsage, fmt::format("a plan has no '{}'", key), std::move(hint));
  }

  Result<Plan> check() {
    Plan& p = plan_;
    if (p.recompute == "none") p.recompute.clear();
    if (p.balance == "layers") p.balance.clear();
    if (p.order == kUsualOrder) p.order.clear();
    if (p.workers() > whatif::kMostWorkers) {
      return fail(ErrorCode::kUsage,
                  fmt::format("{} GPUs are more than the limit of {}", p.workers(), whatif::kMostWorkers));
    }
    if ((p.dp * p.cp) % p.ep != 0) {
      return fail(ErrorCode::kUsage, fmt::format("ep={} does not divide the {} GPUs of dp and cp", p.ep, p.dp * p.cp),
                  "experts are divided over GPUs that hold the same parameters otherwise");
    }
    if (p.sequence && p.tp == 1) return fail(ErrorCode::kUsage, "sequence=1 needs tp of 2 or more");
    if (p.buckets && !p.master)
      return fail(ErrorCode::kUsage, "buckets=kept needs FP32 gradients with half-precision weights: give master=fp32");
    if ((p.async || !p.divide_keys) && p.tp == 1) return fail(ErrorCode::kUsage, "async and kv need tp of 2 or more");
    if ((p.imbalance != 1 || p.capacity != 1) && p.ep == 1)
      return fail(ErrorCode::kUsage, "imbalance and capacity need ep of 2 or more");
    if ((!p.reshard || p.cpu_offload || p.prefetch) && p.zero != 3)
      return fail(ErrorCode::kUsage, "reshard, prefetch and cpu_offload need divided parameters: give zero=3 or fsdp");
    if (!p.kind.empty() && p.cp == 1) return fail(ErrorCode::kUsage, "kind= needs cp of 2 or more");
    if (p.microbatch && p.microbatches && p.global_batch) {
      const double all = *p.microbatch * *p.microbatches * p.dp;
      if (std::abs(all - *p.global_batch) > 1e-6 * all) {
        return fail(ErrorCode::kUsage, fmt::format("{} micro-batches of {} on {} replicas are {} samples, not {}",
                                                   *p.microbatches, *p.microbatch, p.dp, all, *p.global_batch));
      }
    }
    if (p.schedule == "interleaved" && p.chunks == 0) p.chunks = 2;
    if (p.pp > 1) {
      const int microbatches = p.microbatches.value_or(p.pp * 2);
      FORETRACE_TRY(const simulate::PipelineSchedule schedule,
                    simulate::make_pipeline_schedule(shape_of(microbatches)));
      if (!p.stages.empty() && p.stages.size() != schedule.stages()) {
        return fail(ErrorCode::kUsage,
                    fmt::format("stages= gives {} stages, the plan has {}", p.stages.size(), schedule.stages()));
      }
    } else if (seen_.contains("schedule") || p.chunks > 1 || !p.stages.empty() || !p.balance.empty()) {
      return fail(ErrorCode::kUsage, "schedule, stages and balance need pp of 2 or more");
    }
    if (!p.stages.empty() && !p.balance.empty()) {
      return fail(ErrorCode::kUsage, "stages= and balance= exclude each other: give one of them");
    }
    return plan_;
  }
  [[nodiscard]] simulate::PipelineShape shape_of(int microbatches) const {
    return {*simulate::schedule_named(plan_.schedule), static_cast<std::uint32_t>(plan_.pp),
            static_cast<std::uint32_t>(microbatches), static_cast<std::uint32_t>(std::max(1, plan_.chunks))};
  }

  Plan plan_;
  int fsdp_ = 0;
  std::set<std::string> seen_;
};

}  // namespace

std::int64_t Plan::apart(std::string_view group) const {
  std::int64_t inside = 1;
  for (const std::string_view name : split(order.empty() ? kUsualOrder : std::string_view(order), '-')) {
    if (name == group) break;
    inside *= name == "tp" ? tp : name == "cp" ? cp : name == "dp" ? dp : pp;
  }
  return inside;
}

std::optional<int> Plan::recomputed_blocks() const {
  const auto blocks = parse_int64(recompute);
  return blocks ? std::optional(static_cast<int>(*blocks)) : std::nullopt;
}

Result<Plan> parse_plan(std::string_view text) {
  Reader reader;
  if (!text.empty()) {
    for (const std::string_view entry : split(text, ',')) {
      const std::size_t equals = entry.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        return fail(ErrorCode::kUsage, fmt::format("'{}' in a plan is not key=value", entry),
                    "for example --plan tp=2,pp=4,dp=8,microbatches=16");
      }
      FORETRACE_TRY_VOID(reader.read(entry.substr(0, equals), entry.substr(equals + 1)));
    }
  }
  return reader.finish();
}

std::string to_text(const Plan& p) {
  std::vector<std::string> parts;
  const auto size = [&](std::string_view key, int n) {
    if (n > 1) parts.push_back(fmt::format("{}={}", key, n));
  };
  const auto word = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) parts.push_back(fmt::format("{}={}", key, value));
  };
  size("tp", p.tp);
  size("pp", p.pp);
  size("cp", p.cp);
  size("ep", p.ep);
  size("dp", p.dp);
  if (p.shard > 0) {
    parts.push_back(fmt::format("fsdp={}", p.shard));
  } else if (p.zero > 0) {
    parts.push_back(fmt::format("zero={}", p.zero));
  }
  if (p.sequence) parts.emplace_back("sequence=1");
  if (!p.vocab) parts.emplace_back("vocab=replicated");
  if (!p.reduce) parts.emplace_back("reduce=0");
  if (p.async) parts.emplace_back("async=1");
  if (!p.divide_keys) parts.emplace_back("kv=refused");
  if (p.imbalance != 1) parts.push_back(fmt::format("imbalance={:g}", p.imbalance));
  if (p.capacity != 1) parts.push_back(fmt::format("capacity={:g}", p.capacity));
  if (!p.reshard) parts.emplace_back("reshard=0");
  if (p.prefetch) parts.push_back(fmt::format("prefetch={}", *p.prefetch));
  if (p.cpu_offload) parts.emplace_back("cpu_offload=1");
  if (p.overlap) parts.push_back(fmt::format("overlap={}", *p.overlap ? 1 : 0));
  if (p.microbatches) parts.push_back(fmt::format("microbatches={}", *p.microbatches));
  if (p.microbatch) parts.push_back(fmt::format("microbatch={:g}", *p.microbatch));
  if (p.global_batch) parts.push_back(fmt::format("global-batch={:g}", *p.global_batch));
  if (p.schedule != "1f1b") parts.push_back("schedule=" + p.schedule);
  if (p.schedule == "interleaved") size("chunks", p.chunks);
  word("balance", p.balance);
  if (!p.stages.empty()) parts.push_back(fmt::format("stages={}", fmt::join(p.stages, "|")));
  word("order", p.order);
  word("kind", p.kind);
  word("param-dtype", p.param_dtype);
  word("reduce-dtype", p.reduce_dtype);
  if (p.master) parts.emplace_back("master=fp32");
  if (p.bucket_mb) parts.push_back(fmt::format("bucket-mb={:g}", *p.bucket_mb));
  if (p.buckets) parts.emplace_back("buckets=kept");
  if (p.fused_loss) parts.emplace_back("loss=fused");
  if (p.outputs) parts.emplace_back("outputs=kept");
  word("recompute", p.recompute);
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace foretrace::plan
