#include "whatif/parallel/scheme_whatif.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/decimal.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {

Status check_fabric(const std::string& name) {
  if (name == kDefaultFabric) return {};
  FORETRACE_TRY_VOID(hardware::fabric_from(name));
  return {};
}

namespace {

Parameter number(std::string name, std::string about, std::string otherwise, double above) {
  return {std::move(name), std::move(about), std::move(otherwise), {}, ParameterType::kNumber, false, above};
}

// How many of something: refused before the trace is read when it is no whole number.
Parameter count(std::string name, std::string about, std::string otherwise, double above) {
  Parameter p = number(std::move(name), std::move(about), std::move(otherwise), above);
  p.check = whole_number<>;
  return p;
}

Parameter text(std::string name, std::string about, std::string otherwise) {
  return {std::move(name), std::move(about), std::move(otherwise), {}, ParameterType::kText, false, 0};
}

// The traced worker is one of them: the slowest is no faster.
Status check_slow_worker(const std::string& factor) {
  if (parse_double(factor).value_or(0) >= 1) return {};
  return fail(ErrorCode::kUsage, fmt::format("slow_worker must be 1 or more, not {}", factor));
}

// A parameter without a default value of its own.
std::optional<double> given_number(const Parameters& p, std::string_view name) {
  return p.given(name) ? std::optional(p.number(name)) : std::nullopt;
}

Result<int> whole(const Parameters& p, std::string_view name, int least, int most) {
  const double value = p.number(name);
  if (value < least || value > most || value != std::floor(value)) {
    return fail(ErrorCode::kUsage, fmt::format("{} must be a whole number from {} to {}", name, least, most));
  }
  return static_cast<int>(value);
}

Result<NetworkChoice> network_choice(Model& model, const Parameters& p) {
  NetworkChoice choice;
  choice.collectives = p.text("collectives");
  choice.collectives_tag = p.text("collectives_tag");
  FORETRACE_TRY(choice.gpus_per_node, whole(p, "gpus_per_node", 0, kMostWorkers));
  if (!choice.collectives.empty()) return choice;
  const bool named = p.given("fabric") && p.text("fabric") != kDefaultFabric;
  choice.fabric = named ? p.text("fabric") : usual_fabric(model.device);
  if (!named) model.not_modelled.push_back(fmt::format("the network was not named: {} assumed", choice.fabric));
  return choice;
}

// Whether the workers fill their nodes.
Status check_cluster(const Parameters& p) {
  if (p.text("collectives").empty() && !p.text("collectives_tag").empty()) {
    return fail(ErrorCode::kUsage, "collectives_tag without collectives", "name the file of measured collectives");
  }
  FORETRACE_TRY(const int workers, whole(p, "workers", 2, kMostWorkers));
  FORETRACE_TRY(const int per_node, whole(p, "gpus_per_node", 0, kMostWorkers));
  return check_nodes(workers, per_node);
}

}  // namespace

std::vector<Parameter> network_parameters() {
  Parameter fabric = text(
      "fabric", "the network: a name of `list fabrics`, or a file; default: this GPU's typical node", kDefaultFabric);
  fabric.check = check_fabric;
  return {std::move(fabric), text("collectives", "a file of measured collectives, instead of the fabric's model", ""),
          text("collectives_tag", "the rows of that file with this tag", ""),
          count("gpus_per_node", "GPUs that share a node; default: the fabric's", "0", -1)};
}

Result<Network> chosen_network(Model& model, const Parameters& p) {
  FORETRACE_TRY(const NetworkChoice named, network_choice(model, p));
  return network_of(named, model.device);
}

std::vector<Parameter> cluster_parameters() {
  Parameter ring = text("ring_steps", "every step of a ring as a task of its own", "off");
  ring.choices = {"on", "off"};
  std::vector<Parameter> all = {count("workers", "number of workers", "8", 1)};
  for (Parameter& p : network_parameters()) all.push_back(std::move(p));
  Parameter slow = number("slow_worker", "the computation of the slowest worker takes this many times as long", "1", 0);
  slow.check = check_slow_worker;
  all.push_back(std::move(slow));
  all.push_back(std::move(ring));
  return all;
}

Parameter bucket_mb_parameter() {
  return number("bucket_mb", "gradients reduced at once, MiB; default: 25, the first 1", "25", 0);
}

Parameter servers_parameter() {
  return count("servers", "parameter servers on machines of their own; 0: one next to each worker", "0", -1);
}

Parameter slice_mb_parameter(std::string about, std::string otherwise) {
  return number("slice_mb", std::move(about), std::move(otherwise), -1);
}

ParallelChoice choice_of(const Parameters& p, std::string parallel) {
  ParallelChoice c;
  c.parallel = std::move(parallel);
  c.bucket_mb = given_number(p, "bucket_mb");
  c.slow_worker = given_number(p, "slow_worker");
  c.cycle_ms = given_number(p, "cycle_ms");
  c.send_us = given_number(p, "send_us");
  c.slice_mb = given_number(p, "slice_mb");
  if (c.slice_mb == 0.0) c.slice_mb.reset();  // sent whole
  if (p.given("servers")) c.servers = static_cast<std::int64_t>(p.number("servers"));
  if (p.given("compress")) c.compress = p.text("compress");
  c.ring_steps = p.text("ring_steps") == "on";
  c.priorities = p.text("priorities") != "off";
  c.sends_on_training_thread = p.text("sender") == "training";
  c.flat = p.text("version") == "1";
  if (p.given("param_dtype")) c.param_dtype = p.text("param_dtype");
  if (p.given("reduce_dtype")) c.reduce_dtype = p.text("reduce_dtype");
  if (p.given("reshard")) c.reshard = p.text("reshard") == "1";
  if (p.given("prefetch")) c.prefetch = static_cast<std::int64_t>(p.number("prefetch"));
  if (p.given("shard")) c.shard = static_cast<std::int64_t>(p.number("shard"));
  if (p.given("cpu_offload")) c.cpu_offload = p.text("cpu_offload") == "1";
  return c;
}

Status apply_on_cluster(Model& model, Draft& draft, const Parameters& p, const ParallelChoice& choice) {
  FORETRACE_TRY_VOID(check_cluster(p));  // of uses that were not parsed
  FORETRACE_TRY(const int workers, whole(p, "workers", 2, kMostWorkers));
  FORETRACE_TRY(const Network network, chosen_network(model, p));
  FORETRACE_TRY(const Parallelism how, make_parallelism(choice));
  return apply_parallelism(model, draft, how, {network.collectives.get(), workers, network.gpus_per_node});
}

WhatIf scheme_whatif(WhatIf w) {
  std::vector<Parameter> parameters = cluster_parameters();
  Parameter compress = text("compress", "gradient compression", "none");
  compress.choices = {"none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"};
  parameters.insert(parameters.end(), w.parameters.begin(), w.parameters.end());
  parameters.push_back(std::move(compress));
  w.parameters = std::move(parameters);
  w.needs = {Need::kBackward, Need::kShapes};
  w.changes = Changes::kWorkers;
  w.parts = {.memory = Part::kModelled};
  w.effort = Effort::kWork;
  w.stage = Stage::kRuntime;
  if (!w.apply)
    w.apply = [scheme = w.name](Model& model, Draft& draft, const Parameters& p) {
      return apply_on_cluster(model, draft, p, choice_of(p, scheme));
    };
  w.check = check_cluster;
  return w;
}

std::string same_workers(const StepFacts& has, const Parameters& p) {
  const bool other = p.given("workers") && p.number("workers") != static_cast<double>(has.workers);
  constexpr std::array<std::string_view, 8> kChoices = {"fabric",     "collectives", "gpus_per_node", "slow_worker",
                                                        "ring_steps", "bucket_mb",   "compress",      "slice_mb"};
  const bool chosen = std::any_of(kChoices.begin(), kChoices.end(), [&](std::string_view c) { return p.given(c); });
  if (other || chosen) return {};
  return fmt::format("over {} workers (workers=… asks for another number)", has.workers);
}

namespace {

// version, param_dtype, reduce_dtype, reshard, prefetch, shard, cpu_offload.
std::vector<Parameter> sharded_parameters() {
  const auto choice = [](std::string name, std::string about, std::string otherwise, std::vector<std::string> choices) {
    Parameter p = text(std::move(name), std::move(about), std::move(otherwise));
    p.choices = std::move(choices);
    return p;
  };
  return {
      choice("version", "2: fully_shard; 1: FullyShardedDataParallel, with flat parameters", "2", {"2", "1"}),
      choice("param_dtype",
             "the type that parameters are gathered in and computed with, without autocast; default: as they are",
             "as_is", {"as_is", "bf16", "fp16", "fp32"}),
      choice("reduce_dtype", "the type that gradients are reduced in; default: that of the parameters", "as_is",
             {"as_is", "bf16", "fp16", "fp32"}),
      choice("reshard", "0: gathered parameters stay until backward (reshard_after_forward=False)", "1", {"1", "0"}),
      count("prefetch", "units gathered ahead of their use; default: one, in backward", "0", -1),
      count("shard", "GPUs that divide one copy of the model; the others hold replicas (HSDP); default: all", "0", -1),
      choice("cpu_offload", "1: shards and their update live on the host", "0", {"0", "1"})};
}

std::string sharded_code(const Parameters& p, bool /*training*/) {
  if (p.text("version") == "1") return "model = FullyShardedDataParallel(model, auto_wrap_policy=…)";
  const auto type = [](const std::string& t) {
    return t == "bf16" ? "torch.bfloat16" : t == "fp16" ? "torch.float16" : "torch.float32";
  };
  std::string policy;
  for (const char* const name : {"param_dtype", "reduce_dtype"}) {
    if (p.text(name) == "as_is") continue;
    policy += fmt::format("{}{}={}", policy.empty() ? "" : ", ", name, type(p.text(name)));
  }
  std::string more;
  if (!policy.empty()) more += fmt::format(", mp_policy=MixedPrecisionPolicy({})", policy);
  if (p.text("reshard") == "0") more += ", reshard_after_forward=False";
  if (p.number("shard") > 0) more += ", mesh=init_device_mesh(\"cuda\", (replicas, shard))";
  if (p.text("cpu_offload") == "1") more += ", offload_policy=CPUOffloadPolicy()";
  return more.empty() ? std::string() : fmt::format("for block in model.layers: fully_shard(block{})", more);
}

std::string already_sharded(const Model& model, const Parameters& p) {
  const std::shared_ptr<const StepFacts> has = step_facts(model);
  if (has->workers < 2 || !has->sharded) return {};
  const std::string how = same_workers(*has, p);
  return how.empty() ? "" : "the step already runs sharded " + how;
}

}  // namespace

WhatIf sharded_whatif(std::string name, std::string about, std::string source) {
  return scheme_whatif({.name = std::move(name),
                        .about = std::move(about),
                        .parameters = sharded_parameters(),
                        .assumes = "every repeated block is a unit of its own",
                        .source = std::move(source),
                        .code = "for block in model.layers: fully_shard(block)",
                        .jax_code = "jax.device_put(params, NamedSharding(mesh, P(\"data\")))  # and the batch",
                        .code_for = sharded_code,
                        .validated = true,
                        .already = already_sharded});
}

}  // namespace foretrace::whatif
