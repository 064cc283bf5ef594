// Device files.

#define TOML_EXCEPTIONS 0
#define TOML_ASSERT(condition) \
  static_cast<void>(0)  // a damaged file is an error, also where assertions are compiled in
#include "foretrace/hardware/device.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "base/suggest.hpp"
#include "hardware/toml_tables.hpp"

namespace foretrace::hardware {

std::span<const std::pair<std::string_view, std::string_view>> device_files();  // generated from devices/*.toml

namespace {

tl::unexpected<Error> bad_file(const std::string& file, std::string message, std::string hint = {}) {
  return tl::unexpected<Error>(
      Error{ErrorCode::kUnreadable, std::move(message), file, Error::kNoOffset, std::move(hint)});
}

double pcie_gbs_of(std::int64_t generation) {
  switch (generation) {  // x16, one direction, after line coding
    case 3:
      return 15.75 * kPcieShare;
    case 4:
      return 31.5 * kPcieShare;
    case 5:
      return 63.0 * kPcieShare;
    case 6:
      return 121.0 * kPcieShare;
    default:
      return 0;
  }
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "NVIDIA H200", "nvidia-h200" and "H200" are the same question.
std::string key_of(std::string_view name) {
  std::string key;
  for (const char c : lower(name)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) key += c;
  }
  for (const std::string_view vendor : {"nvidia", "amd", "geforce", "tesla", "instinct"}) {
    if (key.starts_with(vendor) && key.size() > vendor.size()) key.erase(0, vendor.size());
  }
  return key;
}

}  // namespace

double Device::tflops(Dtype dtype) const {
  switch (dtype) {
    case Dtype::kTf32:
      return tflops_tf32 > 0 ? tflops_tf32 : tflops_fp32;
    case Dtype::kFp16:
      return tflops_fp16 > 0 ? tflops_fp16 : tflops_fp32;
    case Dtype::kBf16:
      return tflops_bf16 > 0 ? tflops_bf16 : tflops_fp32;
    default:
      return tflops_fp32;
  }
}

Result<Device> parse_device(std::string_view text, std::string name, const std::string& origin) {
  if (has_forbidden_characters(text)) {
    return bad_file(origin, "characters no TOML file may hold",
                    "see docs/adding-a-device.md for the form of a device file");
  }
  const toml::parse_result parsed = toml::parse(text, origin);
  if (!parsed) {
    const toml::parse_error& e = parsed.error();
    return bad_file(origin, fmt::format("line {}: {}", e.source().begin.line, std::string(e.description())),
                    "see docs/adding-a-device.md for the form of a device file");
  }
  const toml::table& t = parsed.table();
  Device d;
  d.name = std::move(name);
  const auto number = [&](std::string_view table, std::string_view key) { return t[table][key].value_or(0.0); };
  if (const toml::array* names = t["driver_names"].as_array()) {
    for (const toml::node& n : *names) {
      if (const auto text_value = n.value<std::string>()) d.driver_names.push_back(*text_value);
    }
  }
  d.full_name = d.driver_names.empty() ? d.name : d.driver_names.front();
  d.vendor = t["vendor"].value_or(std::string("nvidia"));
  const std::string capability = t["compute"]["capability"].value_or(std::string());
  if (std::sscanf(capability.c_str(), "%d.%d", &d.compute_major, &d.compute_minor) != 2) {
    return bad_file(origin, "compute.capability is missing or not of the form \"9.0\"");
  }
  d.sm_count = static_cast<int>(number("compute", "sms"));
  d.clock_mhz = number("compute", "clock_mhz");
  d.threads_per_sm = static_cast<int>(number("compute", "threads_per_sm"));
  d.blocks_per_sm = static_cast<int>(number("compute", "blocks_per_sm"));
  d.registers_per_sm = static_cast<int>(number("compute", "registers_per_sm"));
  d.shared_kb_per_sm = number("compute", "shared_kb_per_sm");
  d.tflops_fp32 = number("tflops", "fp32");
  d.tflops_tf32 = number("tflops", "tf32");
  d.tflops_fp16 = number("tflops", "fp16");
  d.tflops_bf16 = number("tflops", "bf16");
  d.memory_gb = number("memory", "gb");
  d.bandwidth_gbs = number("memory", "bandwidth_gbs");
  d.achievable_bandwidth = t["memory"]["achievable_bandwidth"].value_or(kAchievable);
  d.l2_mb = number("memory", "l2_mb");
  d.pcie_gbs = t["link"]["pcie_gbs"].value_or(pcie_gbs_of(t["link"]["pcie_generation"].value_or(std::int64_t{0})));
  d.nvlink_gbs = number("link", "nvlink_gbs");
  d.power_w = number("board", "power_w");
  d.usd_per_hour = number("board", "usd_per_hour");
  d.price_source = t["board"]["price_source"].value_or(std::string());
  d.source = t["board"]["source"].value_or(std::string());

  for (const auto& [value, key] : {std::pair<double, const char*>{d.sm_count, "compute.sms"},
                                   {d.tflops_fp32, "tflops.fp32"},
                                   {d.memory_gb, "memory.gb"},
                                   {d.bandwidth_gbs, "memory.bandwidth_gbs"}}) {
    if (!(value > 0) || !std::isfinite(value)) {
      return bad_file(origin, fmt::format("{} is missing or not a positive number", key),
                      "no prediction can do without it; see docs/adding-a-device.md");
    }
  }
  if (!(d.achievable_bandwidth > 0 && d.achievable_bandwidth <= 1)) {
    return bad_file(origin, "memory.achievable_bandwidth is a share of the peak: above 0, at most 1");
  }
  if (d.source.empty()) return bad_file(origin, "board.source is missing: every file says where its figures come from");
  if (d.usd_per_hour > 0 && d.price_source.empty()) {
    return bad_file(origin, "board.usd_per_hour without board.price_source: a price needs a date and a source");
  }
  return d;
}

const std::vector<Device>& devices() {
  static const std::vector<Device> kDevices = [] {
    std::vector<Device> all;
    for (const auto& [stem, text] : device_files()) {
      Result<Device> d = parse_device(text, std::string(stem), std::string(stem) + ".toml");
      FORETRACE_CHECK(d.has_value());  // a test reads every built-in file
      all.push_back(std::move(*d));
    }
    std::sort(all.begin(), all.end(), [](const Device& a, const Device& b) { return lower(a.name) < lower(b.name); });
    return all;
  }();
  return kDevices;
}

Result<Device> find_device(std::string_view name) {
  const std::string key = key_of(name);
  std::vector<std::string> names;
  std::vector<const Device*> begins;
  for (const Device& d : devices()) {
    if (key_of(d.name) == key) return d;
    for (const std::string& driver : d.driver_names) {
      if (key_of(driver) == key) return d;
    }
    if (!key.empty() && key_of(d.name).starts_with(key)) begins.push_back(&d);
    names.push_back(d.name);
  }
  if (begins.size() == 1) return *begins.front();
  std::string hint;
  if (begins.size() > 1) {
    for (const Device* d : begins) hint += (hint.empty() ? "did you mean " : " or ") + d->name;
    hint += '?';
  } else {
    hint = did_you_mean(name, names);
  }
  hint += (hint.empty() ? "" : " ");
  hint += "'foretrace list devices' shows them all; a file of your own works with --device FILE";
  return fail(ErrorCode::kUsage, fmt::format("no device is named '{}'", name), std::move(hint));
}

Result<Device> load_device(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return bad_file(path, "the device file cannot be opened");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  FORETRACE_TRY(Device d, parse_device(text, std::filesystem::path(path).stem().string(), path));
  d.file = path;
  return d;
}

Result<Device> device_or_file(const std::string& name) {
  Result<Device> known = find_device(name);
  std::error_code ignored;
  const bool path = name.ends_with(".toml") || std::filesystem::is_regular_file(name, ignored);
  return known || !path ? std::move(known) : load_device(name);
}

namespace {

// The trace's figures win: a partition (MIG, MPS) reports fewer SMs, and what scales with them follows.
void adopt(Device& d, const trace::DeviceProperties& p) {
  if (p.sm_count > 0 && p.sm_count != d.sm_count) {
    const double share = static_cast<double>(p.sm_count) / d.sm_count;
    d.tflops_fp32 *= share;
    d.tflops_tf32 *= share;
    d.tflops_fp16 *= share;
    d.tflops_bf16 *= share;
    d.sm_count = static_cast<int>(p.sm_count);
  }
  if (p.total_memory_bytes > 0) d.memory_gb = static_cast<double>(p.total_memory_bytes) / 1e9;
  if (p.max_threads_per_sm > 0) d.threads_per_sm = static_cast<int>(p.max_threads_per_sm);
  if (p.registers_per_sm > 0) d.registers_per_sm = static_cast<int>(p.registers_per_sm);
  if (p.shared_memory_per_sm > 0) d.shared_kb_per_sm = static_cast<double>(p.shared_memory_per_sm) / 1024;
}

}  // namespace

Result<DeviceMatch> device_of(const trace::Trace& trace, const std::vector<Device>& own) {
  if (trace.devices.empty()) {
    return fail(ErrorCode::kDeclined, "the trace does not say which GPU it was recorded on",
                "record with a PyTorch profiler that writes deviceProperties, or name the GPU with --device");
  }
  const trace::DeviceProperties& p = trace.devices.front();
  const std::string key = key_of(p.name);
  std::vector<const Device*> known;
  for (const Device& d : own) known.push_back(&d);
  for (const Device& d : devices()) known.push_back(&d);
  for (const Device* one : known) {
    const Device& d = *one;
    for (const std::string& driver : d.driver_names) {
      if (key_of(driver) != key || key.empty()) continue;
      DeviceMatch match{d, fmt::format("by name, {}", p.name)};
      if (p.sm_count > 0 && p.sm_count != d.sm_count) {
        match.how += fmt::format("; {} of {} SMs", p.sm_count, d.sm_count);
      }
      adopt(match.device, p);
      return match;
    }
  }
  // Same architecture, then the nearest in SMs and memory.
  const Device* best = nullptr;
  double nearest = 0.25;  // beyond a quarter off, the file's rates say little about this GPU
  for (const Device* one : known) {
    const Device& d = *one;
    if (d.compute_major != p.compute_major || d.compute_minor != p.compute_minor || p.sm_count <= 0) continue;
    const double off =
        std::abs(std::log(static_cast<double>(p.sm_count) / d.sm_count)) +
        (p.total_memory_bytes > 0 ? std::abs(std::log(static_cast<double>(p.total_memory_bytes) / 1e9 / d.memory_gb))
                                  : 0.0);
    if (off < nearest) {
      nearest = off;
      best = &d;
    }
  }
  if (best == nullptr) {
    return fail(ErrorCode::kDeclined,
                fmt::format("no device file is like this trace's GPU ('{}', compute capability {}.{}, {} SMs)", p.name,
                            p.compute_major, p.compute_minor, p.sm_count),
                "describe it in a file of your own (docs/adding-a-device.md) and pass --device FILE");
  }
  DeviceMatch match{*best, fmt::format("by properties: '{}' looks like {}", p.name, best->name)};
  adopt(match.device, p);
  match.device.full_name = p.name;
  return match;
}

}  // namespace foretrace::hardware
