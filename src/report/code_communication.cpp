#include "report/code_communication.hpp"

#include <fmt/format.h>

#include "foretrace/hardware/device.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "whatif/model/script.hpp"

// Lines of distribute(): by scheme, then by what travels.
namespace foretrace::report {

using whatif::Compression;
using whatif::Parallelism;
using whatif::Scheme;
using whatif::ScriptPlaces;

namespace {

void write_plan(const search::Communication& c, const std::string& gain, ScriptPlaces& to) {
  std::string parts;
  for (const search::PlannedBucket& b : c.buckets) {
    parts += fmt::format("{}{}: {}", parts.empty() ? "" : ", ", b.last, b.partitions);
  }
  to.wrap.push_back(fmt::format(
      "    # With one size for all buckets instead: DistributedDataParallel(model, bucket_cap_mb={:g})", c.bucket_mb));
  to.wrap.push_back(fmt::format("    model.planned_buckets = PlannedBuckets(model, {{{}}}){}", parts, gain));
  to.planned = true;
}

int gpus_per_node(const search::Communication& c) {
  if (c.gpus_per_node > 0) return c.gpus_per_node;
  const Result<hardware::Fabric> fabric = hardware::fabric_from(c.fabric);
  return fabric ? fabric->gpus_per_node : 1;
}

// What is registered with DistributedDataParallel; false: no hook is known for this compression.
bool write_hook(const search::Communication& c, const Parallelism& how, ScriptPlaces& to) {
  if (how.scheme == Scheme::kBlueConnect) {
    to.wrap.push_back(fmt::format("    model.register_comm_hook(None, AlongNodes({}).reduce)", gpus_per_node(c)));
    return how.compression == Compression::kNone;
  }
  if (how.compression == Compression::kFp16) {
    to.wrap.emplace_back(
        "    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n\n"
        "    model.register_comm_hook(None, default_hooks.fp16_compress_hook)");
  } else if (how.compression == Compression::kPowerSgd) {
    to.wrap.emplace_back(
        "    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook\n\n"
        "    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=10)\n"
        "    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)");
  } else {
    return how.compression == Compression::kNone;
  }
  return true;
}

bool write_wrapped(const search::Communication& c, const Parallelism& how, const std::string& gain, ScriptPlaces& to) {
  const std::string size = c.first_bucket_mb ? "" : fmt::format(", bucket_cap_mb={:g}", c.bucket_mb);
  const std::string wrap =
      fmt::format("model = torch.nn.parallel.DistributedDataParallel(model{}, gradient_as_bucket_view=True)", size);
  if (to.captured) {  // what a graph records must not have been made on the stream it is recorded from
    to.wrap.push_back(fmt::format("    with side_stream():\n        {}{}", wrap, gain));
  } else {
    to.wrap.push_back("    " + wrap + gain);
  }
  if (how.scheme == Scheme::kZero1) to.make_optimizer = "zero_optimizer(cls, parameters, options)";
  return write_hook(c, how, to);
}

bool write_sharded(const Parallelism& how, const std::string& gain, ScriptPlaces& to) {
  const bool half = how.compression == Compression::kFp16;
  to.wrap.push_back(fmt::format("    sharded(model, gather_again={}{}){}",
                                how.scheme == Scheme::kZero2 ? "False" : "True",
                                half ? ", reduce_dtype=torch.float16" : "", gain));
  return half || how.compression == Compression::kNone;
}

}  // namespace

bool write_communication(const search::Communication& c, const std::string& gain, ScriptPlaces& to) {
  const Result<Scheme> scheme = whatif::parse_scheme(c.scheme);
  const Result<Compression> compression = whatif::parse_compression(c.compression);
  if (!scheme || !compression) return false;
  const Parallelism how{.scheme = *scheme, .compression = *compression};
  switch (how.scheme) {
    case Scheme::kDdp:
      if (c.buckets.empty()) return write_wrapped(c, how, gain, to);
      write_plan(c, gain, to);
      return how.compression == Compression::kNone;
    case Scheme::kZero1:
    case Scheme::kBlueConnect:
      return write_wrapped(c, how, gain, to);
    case Scheme::kZero2:
    case Scheme::kFsdp:
      return write_sharded(how, gain, to);
    default:  // parameter servers and Horovod are set up outside the script
      return false;
  }
}

}  // namespace foretrace::report
