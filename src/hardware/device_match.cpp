// The GPU a trace was recorded on.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "foretrace/hardware/device.hpp"
#include "hardware/device_key.hpp"
#include "trace/gpu.hpp"

namespace foretrace::hardware {

namespace {

// The trace's figures win: a partition (MIG, MPS) reports fewer SMs, and what scales with them follows.
void adopt(Device& d, const trace::DeviceProperties& p) {
  if (d.vendor == "amd" && p.total_memory_bytes > 0 && p.sm_count > 0 && p.sm_count < d.sm_count) {
    // Cards of two dies are two devices to HIP, each with its half of the memory.
    const double share = std::min(1.0, static_cast<double>(p.total_memory_bytes) / 1e9 / d.reported_gb);
    d.bandwidth_gbs *= share;
    d.l2_mb *= share;
  }
  if (p.sm_count > 0 && p.sm_count != d.sm_count) {
    const double share = static_cast<double>(p.sm_count) / d.sm_count;
    d.tflops_fp32 *= share;
    d.tflops_fp32_matrix *= share;
    d.tflops_tf32 *= share;
    d.tflops_fp16 *= share;
    d.tflops_bf16 *= share;
    d.sm_count = d.rated_sms = static_cast<int>(p.sm_count);
  }
  if (p.total_memory_bytes > 0) d.memory_gb = d.reported_gb = static_cast<double>(p.total_memory_bytes) / 1e9;
  if (p.max_threads_per_sm > 0) d.threads_per_sm = static_cast<int>(p.max_threads_per_sm);
  if (p.registers_per_sm > 0) d.registers_per_sm = static_cast<int>(p.registers_per_sm);
  if (p.shared_memory_per_sm > 0) d.shared_kb_per_sm = static_cast<double>(p.shared_memory_per_sm) / 1024;
}

// "gfx942:sramecc+:xnack-" -> "gfx942"; empty where a name gives none.
std::string architecture_in(std::string_view name) {
  const std::string small = lower(name);
  const std::size_t at = small.find("gfx");
  if (at == std::string::npos) return {};
  std::size_t end = at + 3;
  while (end < small.size() && ((small[end] >= '0' && small[end] <= '9') || (small[end] >= 'a' && small[end] <= 'f')))
    ++end;
  return small.substr(at, end - at);
}

// How much boards of one architecture differ in bandwidth and clock for their SMs: the spread of the built-in ones.
double spread_of_boards(const Device& like) {
  double sum = 0, squares = 0, n = 0;
  for (const Device& d : devices()) {
    if (d.vendor != like.vendor || d.compute_major != like.compute_major || d.architecture != like.architecture)
      continue;
    const double rate = std::log(d.bandwidth_gbs / d.sm_count);
    sum += rate;
    squares += rate * rate;
    n += 1;
  }
  return n > 1 ? std::sqrt(std::max(0.0, squares / n - sum * sum / n / n)) : 0;
}

bool may_be_of(const Device& d, trace::GpuVendor vendor) {
  if (vendor == trace::GpuVendor::kUnknown) return true;
  return (d.vendor == "amd") == (vendor == trace::GpuVendor::kAmd);
}

// A GPU that no file describes: an SM does what those of the nearest board of its architecture do, and bandwidth follows the SMs.
std::optional<DeviceMatch> guessed_device(const trace::DeviceProperties& p, const std::vector<const Device*>& known,
                                          trace::GpuVendor vendor, const std::string& architecture) {
  const Device* best = nullptr;
  std::pair<std::int64_t, double> nearest;
  for (const Device* d : known) {
    const bool same = architecture.empty() ? d->compute_major == p.compute_major && vendor == trace::GpuVendor::kNvidia
                                           : d->architecture == architecture;
    if (!same || !may_be_of(*d, vendor) || p.sm_count <= 0) continue;
    const std::pair off{architecture.empty() ? std::abs(d->compute_minor - p.compute_minor) : 0,
                        std::abs(std::log(static_cast<double>(p.sm_count) / d->sm_count))};
    if (best == nullptr || off < nearest) {
      nearest = off;
      best = d;
    }
  }
  if (best == nullptr) return std::nullopt;
  DeviceMatch match{*best, {}};
  Device& d = match.device;
  const double share = static_cast<double>(p.sm_count) / best->sm_count;
  d.bandwidth_gbs *= share;
  d.l2_mb *= share;
  d.power_w = d.usd_per_hour = 0;
  d.price_source.clear();
  d.driver_names.clear();
  adopt(d, p);
  d.name = d.full_name = p.name.empty() ? fmt::format("a GPU of {} SMs", p.sm_count) : p.name;
  d.guessed_sigma = spread_of_boards(*best);
  match.how = fmt::format(
      "by {} {}.{}, {} SMs and {:.0f} GB: no file describes '{}'; its clock ({:.0f} MHz) and bandwidth ({:.0f} GB/s) "
      "are "
      "guessed from {}",
      architecture.empty() ? "compute capability" : "architecture", p.compute_major, p.compute_minor, p.sm_count,
      d.memory_gb, p.name, d.clock_mhz, d.bandwidth_gbs, best->name);
  return match;
}

}  // namespace

Result<DeviceMatch> device_of(const trace::Trace& trace, const std::vector<Device>& own) {
  if (trace.devices.empty()) {
    return fail(ErrorCode::kDeclined, "the trace does not say which GPU it was recorded on",
                "record with a PyTorch profiler that writes deviceProperties, or name the GPU: `foretrace gpus TRACE "
                "--from NAME`");
  }
  const trace::DeviceProperties& p = *trace::main_properties(trace);
  const trace::GpuVendor vendor = trace::gpu_vendor(trace);
  const std::string key = device_key(p.name);
  std::vector<const Device*> known;
  for (const Device& d : own) known.push_back(&d);
  for (const Device& d : devices()) known.push_back(&d);
  for (const Device* one : known) {
    const Device& d = *one;
    for (const std::string& driver : d.driver_names) {
      if (device_key(driver) != key || key.empty()) continue;
      DeviceMatch match{d, fmt::format("by name, {}", p.name), true};
      if (p.sm_count > 0 && p.sm_count != d.sm_count) {
        match.how += fmt::format("; {} of {} SMs", p.sm_count, d.sm_count);
      }
      adopt(match.device, p);
      return match;
    }
  }
  const std::string architecture = architecture_in(p.name);
  // Same maker and architecture, then the nearest in SMs and memory. Numbers of architectures alone do not tell makers
  // apart: 9.0 is Hopper's and that of AMD's CDNA 2.
  const Device* best = nullptr;
  double nearest = 0.25;  // beyond a quarter off, the file's rates say little about this GPU
  for (const Device* one : known) {
    const Device& d = *one;
    if (!may_be_of(d, vendor) || p.sm_count <= 0) continue;
    // Another minor version is the same generation, and counts as a tenth away.
    const bool generation = d.compute_major == p.compute_major;
    if (architecture.empty() ? !generation : d.architecture != architecture) continue;
    const double off =
        (architecture.empty() && d.compute_minor != p.compute_minor ? 0.1 : 0.0) +
        std::abs(std::log(static_cast<double>(p.sm_count) / d.sm_count)) +
        (p.total_memory_bytes > 0 ? std::abs(std::log(static_cast<double>(p.total_memory_bytes) / 1e9 / d.reported_gb))
                                  : 0.0);
    if (off < nearest) {
      nearest = off;
      best = &d;
    }
  }
  const bool amd = vendor == trace::GpuVendor::kAmd;
  if (best == nullptr) {
    if (std::optional<DeviceMatch> guess = guessed_device(p, known, vendor, architecture)) return *guess;
    return fail(ErrorCode::kDeclined,
                fmt::format("no device file is like this trace's GPU ('{}', {} {}.{}, {} {})", p.name,
                            amd ? "AMD architecture" : "compute capability", p.compute_major, p.compute_minor,
                            p.sm_count, amd ? "CUs" : "SMs"),
                "describe it in a file of your own (docs/internals/adding-a-device.md) and pass --device FILE");
  }
  DeviceMatch match{*best, fmt::format("by {}: '{}' looks like {}",
                                       architecture.empty() ? "properties" : "architecture", p.name, best->name)};
  adopt(match.device, p);
  match.device.guessed_sigma = spread_of_boards(*best);
  if (!p.name.empty()) match.device.full_name = p.name;
  return match;
}

}  // namespace foretrace::hardware
