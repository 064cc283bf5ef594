#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "foretrace/graph/gpu_work.hpp"
#include "foretrace/hardware/transfer.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

namespace {

using hardware::Device;
using work::Dtype;

hardware::KernelShape shape_of(const Model& m, std::uint32_t task) {
  const EventId event = m.graph.event[task];
  if (!event.valid() || m.trace == nullptr) return {};
  const trace::KernelLaunch* launch = m.trace->launch(event.index());
  if (launch == nullptr) return {};
  return {launch->grid[0] * launch->grid[1] * launch->grid[2], launch->block[0] * launch->block[1] * launch->block[2],
          std::max<std::int64_t>(0, launch->registers_per_thread),
          std::max<std::int64_t>(0, launch->shared_memory_bytes)};
}

// What the target cannot do the way the trace does it.
void note_precision(Model& m, const std::vector<Row>& rows, const Device& to) {
  bool bf16 = false;
  bool fp16 = false;
  bool tf32 = false;
  bool fp8 = false;
  for (const Row& row : rows) {
    const work::Work& w = m.works[row.work];
    if (!is_product(w)) continue;
    bf16 |= w.dtype == Dtype::kBf16 && to.tflops_bf16 <= 0;
    fp16 |= w.dtype == Dtype::kFp16 && to.tflops_fp16 <= 0;
    tf32 |= w.dtype == Dtype::kTf32 && to.tflops_tf32 <= 0;
    fp8 |= w.dtype == Dtype::kFp8 && !to.multiplies_fp8();
  }
  if (bf16) m.not_modelled.push_back(to.name + " has no bf16 tensor cores: those products are taken at its FP32 rate");
  if (fp16) m.not_modelled.push_back(to.name + " has no fp16 tensor cores: those products are taken at its FP32 rate");
  if (fp8) m.not_modelled.push_back(to.name + " has no FP8: those products run in half precision there");
  if (tf32) m.not_modelled.push_back(to.name + " has no TF32: those products run in FP32 there");
}

Status check_device(const std::string& name) {
  FORETRACE_TRY_VOID(hardware::device_or_file(name));
  return {};
}

Status check_host(const std::string& file) {
  FORETRACE_TRY_VOID(HostCosts::read(file));
  return {};
}

// The CPU there, by the speeds of both hosts.
Status change_host(Model& m, Draft& draft, const std::string& file) {
  FORETRACE_TRY(const HostCosts there, HostCosts::read(file));
  double here = 0;
  for (const double speed : m.base.speed) here += speed / static_cast<double>(m.base.speed.size());
  const double factor = here > 0 ? there.speed.value_or(there.usual_speed) / here : 0;
  if (!(factor > 0)) return fail(ErrorCode::kDeclined, "the speed of one of the two hosts is not known");
  draft.scale(draft.select({.where =
                                [&](std::uint32_t t) {
                                  return m.graph.kind[t] == TaskKind::kCpu || m.graph.kind[t] == TaskKind::kCall;
                                }}),
              factor);
  return {};
}

Status apply_gpu(Model& m, Draft& draft, const Parameters& parameters) {
  FORETRACE_TRY(const Device to, hardware::device_or_file(parameters.text("to")));
  if (m.device.name.empty()) {
    return fail(ErrorCode::kDeclined, "the trace does not say which GPU it was recorded on");
  }
  if (const std::string host = parameters.text("host"); !host.empty()) {
    FORETRACE_TRY_VOID(change_host(m, draft, host));
  }
  const std::vector<Row> rows = rows_of(m, draft);
  hardware::TransferContext context;
  {
    std::vector<work::Work> works;
    std::vector<double> times;
    for (const Row& row : rows) {
      works.push_back(m.works[row.work]);
      times.push_back(static_cast<double>(row.time));
      if (works.back().strict_ns <= 0) continue;
      works.push_back(with_dtype(works.back(), Dtype::kFp32));  // what the trace measured before a what-if allowed TF32
      times.push_back(works.back().strict_ns);
    }
    context.learn(works, times, m.device);
  }
  double unknown = 0;
  double all = 0;
  bool collectives = false;
  std::array<double, work::kFamilies> time = {};
  std::array<double, work::kFamilies> spread = {};  // sigma by time
  for (const Row& row : rows) {
    const work::Work& work = m.works[row.work];
    for (const std::uint32_t t : row.tasks) {
      const double was = static_cast<double>(draft.cost(t));
      if (work.family == work::Family::kCommunication) {
        collectives = true;
        draft.set(t, draft.cost(t), graph::Origin::kMeasured);
        continue;
      }
      all += was;
      const hardware::Cost cost =
          hardware::transfer(was, static_cast<double>(row.time), work, shape_of(m, t), m.device, to, context);
      if (!cost.known) unknown += was;
      time[static_cast<std::size_t>(work.family)] += was;
      spread[static_cast<std::size_t>(work.family)] += was * (cost.known ? cost.sigma : 0.5);
      draft.set(t, static_cast<Ns>(std::llround(cost.known ? cost.ns : was)), cost.origin);
    }
  }
  if (m.device.vendor != to.vendor) {
    m.not_modelled.push_back(
        fmt::format("{} and {} have libraries of their own: products follow peaks and one AMD GPU's tables",
                    m.device.name, to.name));
  }
  if (all == 0) return fail(ErrorCode::kDeclined, std::string(graph::kNoGpuWork));
  if (unknown > 0) {
    m.not_modelled.push_back(
        fmt::format("{:.1f} % of the GPU's time has no model and stays as measured", 100 * unknown / all));
  }
  if (collectives) m.not_modelled.emplace_back("collectives keep their measured time");
  note_precision(m, rows, to);
  // Moved twice, both errors count.
  for (std::size_t f = 0; f < time.size(); ++f) {
    if (time[f] > 0) m.moved_sigma[f] = std::hypot(m.moved_sigma[f], spread[f] / time[f]);
  }
  m.device = to;
  return {};
}

WhatIf gpu_whatif() {
  return {
      .name = "gpu",
      .about = "the same step on another GPU",
      .parameters = {{"to",
                      "a name of `foretrace list devices`, or a device file (.toml)",
                      "",
                      {},
                      ParameterType::kText,
                      true,
                      0,
                      check_device},
                     {"host",
                      "the host there: a file of `foretrace calibrate`",
                      "",
                      {},
                      ParameterType::kText,
                      false,
                      0,
                      check_host}},
      .assumes = "the same software on the same host; libraries pick their best kernels there too",
      .source = "Habitat (Yu et al. 2021), NeuSight (Lee et al. 2025): wave scaling, utilisation under the roofline",
      .not_modelled = {},
      .needs = {},
      .changes = Changes::kDevice,
      .parts = {.memory = Part::kUnchanged},
      .code = {},
      .validated = false,
      .apply = apply_gpu};
}

const Registered kRegistered(gpu_whatif);

}  // namespace

}  // namespace foretrace::whatif
