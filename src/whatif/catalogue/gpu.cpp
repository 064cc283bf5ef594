#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "foretrace/whatif/parallel.hpp"
#include "graph/gpu_work.hpp"
#include "hardware/cost.hpp"
#include "hardware/figures.hpp"
#include "hardware/transfer.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/rewrite/moved_collectives.hpp"
#include "whatif/rewrite/rows.hpp"
#include "whatif/rewrite/scaling.hpp"

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

// PyTorch falls back from no FP8 product: torch._scaled_mm refuses GPUs below compute capability 8.9 and gfx942.
Status refuse_fp8(const Model& m, const std::vector<Row>& rows, const Device& to) {
  if (to.multiplies_fp8()) return {};
  const bool any = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    return is_product(m.works[row.work]) && m.works[row.work].dtype == Dtype::kFp8;
  });
  if (!any) return {};
  return fail(ErrorCode::kDeclined, fmt::format("{} has no FP8 products, and PyTorch refuses them there", to.name));
}

// What the target cannot do as the trace does.
void note_precision(Model& m, const std::vector<Row>& rows, const Device& to) {
  bool bf16 = false;
  bool fp16 = false;
  bool tf32 = false;
  bool strict = false;
  for (const Row& row : rows) {
    const work::Work& w = m.works[row.work];
    if (!is_product(w)) continue;
    bf16 |= w.dtype == Dtype::kBf16 && to.tflops_bf16 <= 0;
    fp16 |= w.dtype == Dtype::kFp16 && to.tflops_fp16 <= 0;
    tf32 |= w.dtype == Dtype::kTf32 && to.tflops_tf32 <= 0;
    strict |= w.dtype == Dtype::kFp32 && is_conv(w) && m.device.tflops_tf32 <= 0 && to.tflops_tf32 > 0;
  }
  if (bf16)
    m.not_modelled.push_back(to.name + " has no bf16: those products are converted and slower than in FP32 there");
  if (fp16) m.not_modelled.push_back(to.name + " has no fp16 tensor cores: those products are taken at its FP32 rate");
  if (tf32) m.not_modelled.push_back(to.name + " has no TF32: those products run in FP32 there");
  if (strict)
    m.not_modelled.push_back("PyTorch lets convolutions use TF32 by default, and " + to.name +
                             " has it: add tf32:only=convolutions (in NVIDIA's containers tf32)");
}

Status check_device(const std::string& name) {
  FORETRACE_TRY_VOID(hardware::device_or_file(name));
  return {};
}

Status check_host(const std::string& file) {
  FORETRACE_TRY_VOID(host::HostCosts::read(file));
  return {};
}

// The CPU there, by the speeds of both hosts.
Status change_host(Model& m, Draft& draft, const std::string& file) {
  FORETRACE_TRY(const host::HostCosts there, host::HostCosts::read(file));
  double here = 0;
  for (const double speed : m.base.speed) here += speed / static_cast<double>(m.base.speed.size());
  const double factor = here > 0 ? there.speed.value_or(there.default_speed) / here : 0;
  if (!(factor > 0)) return fail(ErrorCode::kDeclined, "the speed of one of the two hosts is not known");
  scale_host(m, draft, factor);
  return {};
}

hardware::TransferContext learnt_from(const Model& m, const std::vector<Row>& rows) {
  std::vector<work::Work> works;
  std::vector<double> times;
  for (const Row& row : rows) {
    works.push_back(m.works[row.work]);
    times.push_back(static_cast<double>(row.time) / times_run(m, row));
    if (works.back().strict_ns <= 0) continue;
    works.push_back(with_dtype(works.back(), Dtype::kFp32));  // what the trace measured before a what-if allowed TF32
    times.push_back(works.back().strict_ns);
  }
  hardware::TransferContext context;
  context.learn(works, times, m.device);
  return context;
}

class Move {
 public:
  Move(Model& m, Draft& draft, const Device& to, const std::vector<Row>& rows)
      : m_(m), draft_(draft), to_(to), context_(learnt_from(m, rows)), collectives_(m.device, to) {}

  void row(const Row& row) {
    const work::Work& work = m_.works[row.work];
    const double once = static_cast<double>(row.time) / times_run(m_, row);
    for (const std::uint32_t t : row.tasks) {
      if (work.family == work::Family::kCommunication) {
        collective(t);
        continue;
      }
      const double was = static_cast<double>(draft_.cost(t));
      const hardware::Cost cost = hardware::transfer(was, once, work, shape_of(m_, t), m_.device, to_, context_);
      all_ += was;
      if (!cost.known) unknown_ += was;
      count(work.family, was, cost.known ? cost.sigma : hardware::kUntransferableSigma);
      draft_.set(t, static_cast<Ns>(std::llround(cost.known ? cost.ns : was)), cost.origin);
    }
  }

  // GPU tasks that no operation describes: nothing to move them by.
  void undescribed() {
    for (std::uint32_t t = 0; t < m_.graph.size(); ++t) {
      if (!graph::is_gpu(m_.graph.kind[t]) || draft_.removed(t) || m_.works.row_of(t) != kNone) continue;
      if (m_.graph.kind[t] == TaskKind::kCollective) {  // of a what-if before: its network was chosen there
        kept_collectives_ = true;
        continue;
      }
      all_ += static_cast<double>(draft_.cost(t));
      unknown_ += static_cast<double>(draft_.cost(t));
    }
  }

  [[nodiscard]] bool any() const { return all_ > 0; }

  void note() {
    const auto note = [&](std::string_view text) { m_.not_modelled.emplace_back(text); };
    if (m_.device.vendor != to_.vendor) {
      note(fmt::format(
          "{} and {} have libraries of their own: products and attention follow published kernels of AMD's GPUs",
          m_.device.name, to_.name));
    }
    if (!stays_ && unknown_ > 0) {
      note(fmt::format("{:.1f} % of the GPU's time has no model and stays as measured", 100 * unknown_ / all_));
    }
    if (kept_collectives_) note("collectives between nodes, or of unknown size, keep their time: that network stays");
    if (moved_collectives_) {
      note(fmt::format("collectives follow the links inside a node, {} to {}{}", usual_fabric(m_.device),
                       usual_fabric(to_), m_.transfers_only ? "" : "; their waits stay"));
    }
    // Moved twice, both errors count.
    for (std::size_t f = 0; f < time_.size(); ++f) {
      if (time_[f] > 0) m_.moved_sigma[f] = std::hypot(m_.moved_sigma[f], spread_[f] / time_[f]);
    }
  }

 private:
  void collective(std::uint32_t t) {
    const double was = static_cast<double>(draft_.cost(t));
    const std::optional<MovedCollectives::Moved> there = stays_ ? std::nullopt : collectives_.move(m_, t, was);
    draft_.set(t, static_cast<Ns>(std::llround(there ? there->ns : was)),
               there ? graph::Origin::kModelled : m_.graph.origin[t]);
    (there ? moved_collectives_ : kept_collectives_) |= !stays_;
    if (there) count(work::Family::kCommunication, was, there->sigma);
  }

  void count(work::Family family, double was, double sigma) {
    time_[static_cast<std::size_t>(family)] += was;
    spread_[static_cast<std::size_t>(family)] += was * sigma;
  }

  Model& m_;
  Draft& draft_;
  const Device& to_;
  hardware::TransferContext context_;
  MovedCollectives collectives_;
  bool stays_ = same_device(m_.device, to_);
  double unknown_ = 0;
  double all_ = 0;
  bool kept_collectives_ = false;
  bool moved_collectives_ = false;
  std::array<double, work::kFamilies> time_ = {};
  std::array<double, work::kFamilies> spread_ = {};  // sigma by time
};

Status apply_gpu(Model& m, Draft& draft, const Parameters& parameters) {
  FORETRACE_TRY(const Device to, hardware::device_or_file(parameters.text("to")));
  if (m.device.name.empty()) {
    return fail(ErrorCode::kDeclined, "the trace does not say which GPU it was recorded on");
  }
  if (const std::string& host = parameters.text("host"); !host.empty()) {
    FORETRACE_TRY_VOID(change_host(m, draft, host));
  }
  const std::vector<Row> rows = rows_of(m, draft);
  FORETRACE_TRY_VOID(refuse_fp8(m, rows, to));
  Move move(m, draft, to, rows);
  for (const Row& row : rows) move.row(row);
  move.undescribed();
  if (!move.any()) return fail(ErrorCode::kDeclined, std::string(graph::kNoGpuWork));
  move.note();
  note_precision(m, rows, to);
  change_driver(m, draft, host::launches_under(m.device.vendor, to.vendor));
  m.device = to;
  m.latencies = &hardware::latencies_of(to);
  return {};
}

const Registered kRegistered(
    {.name = "gpu",
     .about = "the same step on another GPU",
     .parameters = {{.name = "to",
                     .about = "a name of `foretrace list devices`, or a device file (.toml)",
                     .required = true,
                     .check = check_device},
                    {.name = "host", .about = "the host there: a file of `foretrace calibrate`", .check = check_host}},
     .assumes = "the same software on the same host; libraries pick their best kernels there too",
     .source = "Habitat (Yu et al. 2021), NeuSight (Lee et al. 2025): wave scaling, utilisation under the roofline",
     .changes = Changes::kDevice,
     .apply = apply_gpu});

}  // namespace
}  // namespace foretrace::whatif
