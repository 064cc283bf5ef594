#include "report/plan_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "report/json_writer.hpp"

namespace foretrace::report {
namespace {

using plan::Plan;
using plan::PlanPrediction;
using Figures = plan::Planner::Figures;

tl::unexpected<Error> has_no(std::string_view trainer, std::string_view what) {
  return fail(ErrorCode::kDeclined, fmt::format("{} has no setting for {}", trainer, what));
}

// Blocks of each stage, in order.
std::vector<int> blocks_by_stage(const PlanPrediction& p) {
  std::vector<int> out;
  for (const plan::PlanRank& rank : p.ranks) out.push_back(rank.blocks);
  return out;
}

bool equal(const std::vector<int>& blocks) {
  return std::adjacent_find(blocks.begin(), blocks.end(), std::not_equal_to<>()) == blocks.end();
}

// Samples of a micro-batch; nothing where the trace does not show its batch.
std::optional<double> microbatch_of(const PlanPrediction& p) {
  if (!p.global_batch) return std::nullopt;
  return *p.global_batch / p.plan.dp / p.microbatches;
}

// Schedules of torch.distributed.pipelining. Its zero-bubble schedules take several stages on a GPU and refuse a single one.
std::string_view torch_schedule(const Plan& k) {
  if (k.schedule == "gpipe") return "GPipe";
  if (k.schedule == "1f1b") return "1F1B";
  return k.schedule == "interleaved" ? "Interleaved1F1B" : "";
}

Result<std::string> torchtitan(const PlanPrediction& p, const Figures& of_model) {
  const Plan& k = p.plan;
  if (k.zero == 1 || k.zero == 2)
    return has_no("torchtitan", fmt::format("zero={}: it shards fully or not at all", k.zero));
  const int shard = k.zero == 3 ? (k.shard > 0 ? k.shard : k.dp) : 1;
  std::string out = fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\npipeline_parallel_degree = {}\ncontext_parallel_degree = {}\n",
      k.dp / shard, shard, k.tp, k.pp, k.cp);
  if (k.ep > 1) out += fmt::format("expert_parallel_degree = {}\n", k.ep);
  if (!k.order.empty()) return has_no("torchtitan", "order=" + k.order);
  if (!k.reshard) out += "fsdp_reshard_after_forward = \"never\"\n";
  const std::optional<double> microbatch = microbatch_of(p);
  if (k.pp > 1) {
    const std::string_view schedule = torch_schedule(k);
    if (schedule.empty()) return has_no("torchtitan", "schedule=" + k.schedule);
    if (!k.stages.empty() || !k.balance.empty()) return has_no("torchtitan", "the blocks of each stage");
    out += fmt::format("pipeline_parallel_schedule = \"{}\"\n", schedule);
    const int stages = k.pp * std::max(1, k.chunks);
    if (of_model.layers % stages != 0) return has_no("torchtitan", "stages of unequal numbers of layers");
    // Embedding and head count as layers there unless told otherwise.
    out += fmt::format(
        "pipeline_parallel_layers_per_stage = {}\npipeline_parallel_first_stage_less_layers = 0\n"
        "pipeline_parallel_last_stage_less_layers = 0\n",
        of_model.layers / stages);
    if (microbatch) out += fmt::format("pipeline_parallel_microbatch_size = {:g}\n", *microbatch);
  }
  if (microbatch) {
    const double local = k.pp > 1 ? *p.global_batch / k.dp : *microbatch;
    out += fmt::format("\n[training]\nlocal_batch_size = {:g}\nglobal_batch_size = {:g}\n", local, *p.global_batch);
    if (k.param_dtype == "bf16") out += "mixed_precision_param = \"bfloat16\"\n";
    if (k.cpu_offload) out += "enable_cpu_offload = true\n";
  }
  if (k.recomputed_blocks()) return has_no("torchtitan", "some blocks that are computed again");
  const std::string_view recompute = k.recompute.empty() ? "none" : std::string_view(k.recompute);
  return out + fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n", recompute);
}

Result<std::string> megatron(const PlanPrediction& p, const Figures& of_model) {
  const Plan& k = p.plan;
  if (k.zero == 2) return has_no("Megatron-LM", "zero=2");
  if (k.schedule != "1f1b" && k.schedule != "interleaved") return has_no("Megatron-LM", "schedule=" + k.schedule);
  std::string out = fmt::format("--tensor-model-parallel-size {}\n--pipeline-model-parallel-size {}\n", k.tp, k.pp);
  if (k.cp > 1) out += fmt::format("--context-parallel-size {}\n", k.cp);
  if (k.ep > 1) out += fmt::format("--expert-model-parallel-size {}\n", k.ep);
  if (const std::vector<int> blocks = blocks_by_stage(p); k.schedule == "1f1b" && k.pp > 1 && !equal(blocks)) {
    // E: the embedding, t: a block, L: the loss.
    out += "--pipeline-model-parallel-layout E";
    for (std::size_t i = 0; i < blocks.size(); ++i) out += fmt::format("{}t*{}", i > 0 ? "|" : "", blocks[i]);
    out += "L\n";
  }
  if (k.sequence) out += "--sequence-parallel\n";
  if (!k.order.empty()) {
    if (k.order != "tp-pp-cp-dp" || k.cp > 1) return has_no("Megatron-LM", "order=" + k.order);
    out += "--use-tp-pp-dp-mapping\n";
  }
  if (k.zero == 1) out += "--use-distributed-optimizer\n";
  if (k.zero < 2 && k.dp * k.cp > 1 && k.overlap != false) out += "--overlap-grad-reduce\n";
  if (k.zero == 1 && k.overlap == true) out += "--overlap-param-gather\n";
  if (k.zero == 3) out += "--use-torch-fsdp2\n";
  if (k.schedule == "interleaved") {
    const int stages = k.pp * std::max(1, k.chunks);
    if (of_model.layers % stages != 0 || !k.stages.empty())
      return has_no("Megatron-LM", "stages of unequal numbers of layers");
    out += fmt::format("--num-layers-per-virtual-pipeline-stage {}\n", of_model.layers / stages);
  }
  if (const auto microbatch = microbatch_of(p)) {
    out += fmt::format("--micro-batch-size {:g}\n--global-batch-size {:g}\n", *microbatch, *p.global_batch);
  }
  if (k.param_dtype == "bf16" || k.master) out += "--bf16\n";
  if (k.recompute == "full")
    out += "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n";
  if (k.recompute == "selective") out += "--recompute-granularity selective\n";
  if (const std::optional<int> blocks = k.recomputed_blocks()) {
    if (*blocks % k.pp != 0) return has_no("Megatron-LM", "stages that compute unequal numbers of blocks again");
    out += fmt::format("--recompute-granularity full\n--recompute-method block\n--recompute-num-layers {}\n",
                       *blocks / k.pp);
  }
  return out;
}

Result<std::string> deepspeed(const PlanPrediction& p, const Figures& /*of_model*/) {
  const Plan& k = p.plan;
  if (k.pp > 1 || k.cp > 1 || k.ep > 1)
    return has_no("DeepSpeed's configuration", "pp, cp and ep: these are in the program");
  if (!k.order.empty()) return has_no("DeepSpeed's configuration", "order=" + k.order);
  const std::optional<double> microbatch = microbatch_of(p);
  return json_text([&](JsonWriter& json) {
    json.begin_object();
    if (microbatch) {
      json.member("train_batch_size", static_cast<std::int64_t>(*p.global_batch));
      json.member("train_micro_batch_size_per_gpu", static_cast<std::int64_t>(*microbatch));
    }
    json.member("gradient_accumulation_steps", p.microbatches);
    json.key("zero_optimization").begin_object().member("stage", k.zero);
    if (k.zero > 0 && k.overlap) json.member("overlap_comm", *k.overlap);
    if (k.cpu_offload) {
      for (const char* part : {"offload_param", "offload_optimizer"}) {
        json.key(part).begin_object().member("device", "cpu").end_object();
      }
    }
    json.end_object();
    json.key("bf16").begin_object().member("enabled", k.param_dtype == "bf16" || k.master).end_object();
    if (k.tp > 1) json.key("tensor_parallel").begin_object().member("autotp_size", k.tp).end_object();
    json.end_object();
  });
}

Result<std::string> accelerate(const PlanPrediction& p, const Figures& of_model) {
  const Plan& k = p.plan;
  if (k.pp > 1 || k.ep > 1) return has_no("accelerate", "pp and ep");
  if (!k.order.empty()) return has_no("accelerate", "order=" + k.order);
  if (k.zero == 1 || k.zero == 2) return has_no("accelerate", fmt::format("zero={} without DeepSpeed", k.zero));
  const auto machines = std::max<std::int64_t>(1, p.workers / std::max(1, of_model.gpus_per_node));
  std::string out =
      fmt::format("compute_environment: LOCAL_MACHINE\ndistributed_type: {}\nnum_machines: {}\nnum_processes: {}\n",
                  k.zero == 3 ? "FSDP" : "MULTI_GPU", machines, p.workers);
  if (k.param_dtype == "bf16") out += "mixed_precision: bf16\n";
  // Its file has no such setting: the program passes it.
  if (p.microbatches > 1) out += fmt::format("# Accelerator(gradient_accumulation_steps={})\n", p.microbatches);
  if (k.zero == 3) {
    out += fmt::format("fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: {}\n", k.reshard);
    if (k.cpu_offload) out += "  fsdp_offload_params: true\n";
    if (k.recompute == "full") out += "  fsdp_activation_checkpointing: true\n";
  }
  if (k.tp > 1 || k.cp > 1 || k.shard > 0) {
    const int shard = k.zero == 3 ? (k.shard > 0 ? k.shard : k.dp) : 1;
    out += fmt::format(
        "parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n  parallelism_config_dp_shard_size: {}\n"
        "  parallelism_config_tp_size: {}\n  parallelism_config_cp_size: {}\n",
        k.dp / shard, shard, k.tp, k.cp);
  }
  return out;
}

}  // namespace

std::vector<std::string> trainers() { return {"torchtitan", "megatron", "deepspeed", "accelerate"}; }

Result<std::string> settings_for(std::string_view trainer, const PlanPrediction& plan, const Figures& figures) {
  if (trainer == "torchtitan") return torchtitan(plan, figures);
  if (trainer == "megatron") return megatron(plan, figures);
  if (trainer == "deepspeed") return deepspeed(plan, figures);
  return accelerate(plan, figures);
}

}  // namespace foretrace::report
