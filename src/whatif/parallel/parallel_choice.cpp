// Checks what users ask for, and fills in the defaults of PyTorch and of the papers.

#include <fmt/format.h>

#include <algorithm>

#include "foretrace/whatif/parallel.hpp"

namespace foretrace::whatif {

namespace {

std::optional<work::Dtype> type_named(const std::string& name) {
  if (name.empty() || name == "as_is") return std::nullopt;
  return name == "bf16" ? work::Dtype::kBf16 : name == "fp16" ? work::Dtype::kFp16 : work::Dtype::kFp32;
}

}  // namespace

std::vector<std::string> bucket_orders() { return {"ready", "reverse", "forward"}; }

Result<Parallelism> make_parallelism(const ParallelChoice& choice) {
  Parallelism s;
  FORETRACE_TRY(s.scheme, parse_scheme(choice.parallel));
  FORETRACE_TRY(s.compression, parse_compression(choice.compress));
  const std::pair<const char*, std::optional<double>> positive[] = {{"bucket-mb", choice.bucket_mb},
                                                                    {"slice-mb", choice.slice_mb},
                                                                    {"slow-worker", choice.slow_worker},
                                                                    {"cycle-ms", choice.cycle_ms},
                                                                    {"send-us", choice.send_us}};
  for (const auto& [name, value] : positive) {
    if (!value || *value > 0) continue;
    return fail(ErrorCode::kUsage, fmt::format("--{} must be above 0, not {}", name, *value),
                "leave it out for the default");
  }
  if (choice.bucket_mb) {
    s.bucket_mb = *choice.bucket_mb;
    s.first_bucket_mb.reset();  // PyTorch keeps its small first bucket only when bucket_cap_mb is not given
  }
  if (choice.servers) {
    if (*choice.servers < 0 || *choice.servers > kMostServers) {
      return fail(ErrorCode::kUsage, fmt::format("--servers must be from 0 to {}", kMostServers),
                  "0: a server next to each worker");
    }
    if (s.scheme != Scheme::kPs && s.scheme != Scheme::kP3) {
      return fail(ErrorCode::kUsage, fmt::format("--servers: {} has no parameter servers", to_string(s.scheme)),
                  "--parallel ps or --parallel p3");
    }
    s.servers = static_cast<int>(*choice.servers);
  }
  s.slice_mb = choice.slice_mb;
  s.cycle_ms = choice.cycle_ms.value_or(s.cycle_ms);
  s.send_us = choice.send_us;
  s.sends_on_training_thread = choice.sends_on_training_thread;
  s.ring_steps = choice.ring_steps;
  if (!choice.order.empty()) {
    const std::vector<std::string> orders = bucket_orders();
    const auto at = std::find(orders.begin(), orders.end(), choice.order);
    if (at == orders.end()) {
      return fail(ErrorCode::kUsage, fmt::format("there is no order of buckets named '{}'", choice.order),
                  fmt::format("one of: {}", fmt::join(orders, ", ")));
    }
    s.order = static_cast<BucketOrder>(at - orders.begin());
  }
  s.slow_worker = choice.slow_worker.value_or(1);
  s.priorities = choice.priorities;
  s.flat = choice.flat;
  s.param_dtype = type_named(choice.param_dtype);
  s.reduce_dtype = type_named(choice.reduce_dtype);
  s.reshard = choice.reshard;
  s.prefetch = static_cast<int>(choice.prefetch.value_or(0));
  s.shard = static_cast<int>(choice.shard.value_or(0));
  s.cpu_offload = choice.cpu_offload;
  s.ratio = choice.ratio.value_or(s.ratio);
  s.rank = static_cast<int>(choice.rank.value_or(s.rank));
  return s;
}

}  // namespace foretrace::whatif
