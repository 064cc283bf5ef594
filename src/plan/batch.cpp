#include "plan/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foretrace::plan {
namespace {

constexpr double kMostMicrobatches = 1e6;  // a guard against typing errors

// "1 sample", "4 samples", "0.5 samples"
std::string samples_of(double n) { return fmt::format("{:g} sample{}", n, n == 1 ? "" : "s"); }

bool whole(double x) { return std::abs(x - std::round(x)) < 1e-6; }

}  // namespace

Result<Batch> batch_of(const Plan& p, std::optional<double> global, std::optional<double> traced) {
  Batch b;
  const auto declined = [](std::string why) { return fail(ErrorCode::kDeclined, std::move(why)); };
  if ((global || p.microbatch) && !traced) {
    return declined("the trace does not show how many samples a step has: --batch N says it");
  }
  if (global) b.replica = *global / p.dp / *traced;
  if (p.microbatch && p.microbatches) b.replica = *p.microbatch * *p.microbatches / *traced;
  const double samples = b.replica * traced.value_or(1);
  if (global && whole(*traced) && whole(*global) && !whole(samples)) {
    return declined(fmt::format("{} of the job cannot be divided over {} replicas", samples_of(*global), p.dp));
  }
  if (p.microbatches) {
    b.microbatches = *p.microbatches;
  } else if (p.microbatch) {
    const double n = samples / *p.microbatch;
    if (*p.microbatch < 1 - 1e-6 && whole(*traced)) {
      return declined(fmt::format("a micro-batch of {} is less than one sample", samples_of(*p.microbatch)));
    }
    if (n > kMostMicrobatches) {
      return declined(
          fmt::format("{:g} micro-batches of a replica are more than the limit of {:g}", n, kMostMicrobatches));
    }
    if (n < 1 - 1e-6 || !whole(n)) {
      return declined(fmt::format("micro-batches of {} do not divide a replica's {}", samples_of(*p.microbatch),
                                  samples_of(samples)));
    }
    b.microbatches = static_cast<int>(std::lround(n));
  } else if (p.pp > 1) {
    // Twice as many as stages keeps a pipeline busy two thirds of the time, where the batch divides like that.
    b.microbatches = traced ? std::max(1, std::min(2 * p.pp, static_cast<int>(samples))) : 2 * p.pp;
    while (traced && !whole(samples / b.microbatches)) --b.microbatches;
  }
  b.share = b.replica / b.microbatches;
  if (traced && b.share * *traced < 1 - 1e-6) {
    return declined(b.microbatches == 1 ? fmt::format("a replica has {}: less than one", samples_of(samples))
                                        : fmt::format("{} micro-batches of a replica's {:g} samples: less than one "
                                                      "sample each",
                                                      b.microbatches, samples));
  }
  return b;
}
}  // namespace foretrace::plan
