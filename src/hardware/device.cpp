#include "foretrace/hardware/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

#include "base/byte_source.hpp"
#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/suggest.hpp"
#include "base/text.hpp"
#include "hardware/architecture.hpp"
#include "hardware/device_key.hpp"
#include "hardware/toml_keys.hpp"

namespace foretrace::hardware {

namespace {

constexpr double kGibibyte = 1.073741824;  // 10^9 bytes
constexpr double kMostSustained = 2;       // no card runs at twice its rated clock: a guard against percentages
constexpr std::string_view kHint = "docs/internals/adding-a-device.md shows the form of a device file";

tl::unexpected<Error> bad_file(const std::string& file, std::string message) {
  return tl::unexpected<Error>(
      Error{ErrorCode::kUnreadable, std::move(message), file, Error::kNoOffset, std::string(kHint)});
}

double pcie_gbs_of(double generation) {
  // Sixteen lanes of 8, 16, 32 and 64 GT/s, one direction, after coding (128 of 130 bits, from generation 6 on
  // 242 of 256 bytes; PCI-SIG's specifications).
  const double reached = device_defaults().pcie_share;
  switch (static_cast<int>(std::clamp(generation, 0.0, 100.0))) {
    case 3:
      return 15.75 * reached;
    case 4:
      return 31.5 * reached;
    case 5:
      return 63.0 * reached;
    case 6:
      return 121.0 * reached;
    default:
      return 0;
  }
}

Status check_keys(const TomlTable& t, const std::string& origin) {
  using enum TomlType;
  static const std::vector<TomlKey> kTop = {
      {"driver_names", kTexts},   {"architecture", kText}, {"vendor", kText}, {"compute", kTable},
      {"tflops", kTable},         {"memory", kTable},      {"link", kTable},  {"board", kTable},
      {"recognised_only", kFlag}, {"sustained", kTable}};
  static const std::vector<std::pair<std::string_view, std::vector<TomlKey>>> kTables = {
      {"compute",
       {{"capability", kText},
        {"sms"},
        {"clock_mhz"},
        {"threads_per_sm"},
        {"registers_per_sm"},
        {"shared_kb_per_sm"},
        {"blocks_per_sm"}}},
      {"tflops", {{"fp32"}, {"fp32_matrix"}, {"tf32"}, {"fp16"}, {"bf16"}}},
      {"memory", {{"gb"}, {"reported_gb"}, {"bandwidth_gbs"}, {"achievable_bandwidth"}, {"l2_mb"}}},
      {"sustained", {{"fp32"}, {"tf32"}, {"half"}}},
      {"link", {{"pcie_generation"}, {"pcie_gbs"}, {"nvlink_gbs"}}},
      {"board", {{"power_w"}, {"usd_per_hour"}, {"price_source", kText}, {"source", kText}}}};
  const TomlForm form{"a device file", origin, std::string(kHint)};
  FORETRACE_TRY_VOID(only_known(t, kTop, "", form));
  for (const auto& [name, keys] : kTables) {
    FORETRACE_TRY_VOID(only_known(t.table(name), keys, fmt::format("{}.", name), form));
  }
  return {};
}

}  // namespace

std::string device_key(std::string_view name) {
  return name_key(name, {"nvidia", "amd", "geforce", "tesla", "instinct"});
}

const DeviceDefaults& device_defaults() {
  static const DeviceDefaults kDefaults = [] {
    DeviceDefaults u;
    const std::pair<std::string_view, double*> places[] = {{"bandwidth_share", &u.bandwidth_share},
                                                           {"reported_share", &u.reported_share},
                                                           {"pcie_share", &u.pcie_share},
                                                           {"tensor_power", &u.tensor_power},
                                                           {"tensor_node", &u.tensor_node}};
    read_values(data_file("hardware/devices/defaults.csv"), places);
    return u;
  }();
  return kDefaults;
}

bool same_device(const Device& a, const Device& b) {
  return a.vendor == b.vendor && a.compute_major == b.compute_major && a.compute_minor == b.compute_minor &&
         a.sm_count == b.sm_count && a.clock_mhz == b.clock_mhz && a.bandwidth_gbs == b.bandwidth_gbs &&
         a.achievable_bandwidth == b.achievable_bandwidth && a.tflops_fp32 == b.tflops_fp32 &&
         a.tflops_fp32_matrix == b.tflops_fp32_matrix && a.tflops_tf32 == b.tflops_tf32 &&
         a.tflops_fp16 == b.tflops_fp16 && a.tflops_bf16 == b.tflops_bf16 && a.l2_mb == b.l2_mb &&
         a.power_w == b.power_w && a.sustained_fp32 == b.sustained_fp32 && a.sustained_tf32 == b.sustained_tf32 &&
         a.sustained_half == b.sustained_half && a.pcie_gbs == b.pcie_gbs;
}

double Device::tflops(work::Dtype dtype) const {
  const double strict = std::max(tflops_fp32, tflops_fp32_matrix);
  switch (dtype) {
    case work::Dtype::kTf32:
      return tflops_tf32 > 0 ? tflops_tf32 : strict;
    case work::Dtype::kFp16:
      return tflops_fp16 > 0 ? tflops_fp16 : strict;
    case work::Dtype::kBf16:
      return tflops_bf16 > 0 ? tflops_bf16 : strict;
    case work::Dtype::kFp8:
      return (multiplies_fp8() ? 2 : 1) * tflops(work::Dtype::kBf16);
    default:
      return strict;
  }
}

double Device::flops_per_clock(work::Dtype dtype) const {
  const int sms = std::max(1, rated_sms > 0 ? rated_sms : sm_count);
  const double clock = rated_clock_mhz > 0 ? rated_clock_mhz : clock_of(*this);
  return tflops(dtype) * 1e6 / (sms * clock);
}

bool Device::multiplies_fp8() const { return tflops_bf16 > 0 && architecture_of(*this).fp8; }

Result<Device> parse_device(std::string_view text, std::string name, const std::string& origin) {
  FORETRACE_TRY(const TomlTable t, parse_toml(text, origin, std::string(kHint)));
  FORETRACE_TRY_VOID(check_keys(t, origin));
  const TomlTable &compute = t.table("compute"), &tflops = t.table("tflops"), &memory = t.table("memory");
  const TomlTable &link = t.table("link"), &board = t.table("board"), &sustained = t.table("sustained");
  const auto number = [](const TomlTable& table, std::string_view key) {
    const double value = table.number(key).value_or(0);
    return std::isfinite(value) ? value : 0;  // TOML knows inf and nan
  };
  constexpr double kLargestCount = 1e9;  // of anything a GPU has: a guard against damaged files
  const auto count = [&](std::string_view key) {
    return static_cast<int>(std::clamp(number(compute, key), 0.0, kLargestCount));
  };
  Device d;
  d.name = std::move(name);
  if (const auto names = t.lists.find("driver_names"); names != t.lists.end()) d.driver_names = names->second;
  d.full_name = d.driver_names.empty() ? d.name : d.driver_names.front();
  d.vendor = t.text("vendor").value_or("nvidia");
  d.recognised_only = t.flag("recognised_only");
  d.architecture = lower(t.text("architecture").value_or(""));
  const std::string capability = compute.text("capability").value_or("");
  if (std::sscanf(capability.c_str(), "%d.%d", &d.compute_major, &d.compute_minor) != 2) {
    return bad_file(origin, "compute.capability is missing or not of the form \"9.0\"");
  }
  d.sm_count = count("sms");
  d.clock_mhz = number(compute, "clock_mhz");
  d.rated_sms = d.sm_count;
  d.rated_clock_mhz = d.clock_mhz;
  d.threads_per_sm = count("threads_per_sm");
  d.blocks_per_sm = count("blocks_per_sm");
  d.registers_per_sm = count("registers_per_sm");
  d.shared_kb_per_sm = number(compute, "shared_kb_per_sm");
  d.tflops_fp32 = number(tflops, "fp32");
  d.tflops_fp32_matrix = number(tflops, "fp32_matrix");
  d.tflops_tf32 = number(tflops, "tf32");
  d.tflops_fp16 = number(tflops, "fp16");
  d.tflops_bf16 = number(tflops, "bf16");
  d.memory_gb = number(memory, "gb");
  d.reported_gb = memory.number("reported_gb").value_or(d.memory_gb * device_defaults().reported_share * kGibibyte);
  d.bandwidth_gbs = number(memory, "bandwidth_gbs");
  d.achievable_bandwidth = memory.number("achievable_bandwidth").value_or(device_defaults().bandwidth_share);
  d.l2_mb = number(memory, "l2_mb");
  d.pcie_gbs = link.number("pcie_gbs").value_or(pcie_gbs_of(number(link, "pcie_generation")));
  d.nvlink_gbs = number(link, "nvlink_gbs");
  d.power_w = number(board, "power_w");
  d.sustained_fp32 = number(sustained, "fp32");
  d.sustained_tf32 = number(sustained, "tf32");
  d.sustained_half = number(sustained, "half");
  d.usd_per_hour = number(board, "usd_per_hour");
  d.price_source = board.text("price_source").value_or("");
  d.source = board.text("source").value_or("");

  for (const auto& [value, key] : {std::pair<double, const char*>{d.sm_count, "compute.sms"},
                                   {d.tflops_fp32, "tflops.fp32"},
                                   {d.memory_gb, "memory.gb"},
                                   {d.bandwidth_gbs, "memory.bandwidth_gbs"}}) {
    if (!(value > 0)) {
      return bad_file(origin, fmt::format("{} is missing or not a positive number: no prediction can do without", key));
    }
  }
  if (!(d.achievable_bandwidth > 0 && d.achievable_bandwidth <= 1)) {
    return bad_file(origin, "memory.achievable_bandwidth is a share of the peak: above 0, at most 1");
  }
  for (const double share : {d.sustained_fp32, d.sustained_tf32, d.sustained_half}) {
    if (share < 0 || share > kMostSustained) {
      return bad_file(origin,
                      fmt::format("a share of `sustained` is one of clock_mhz: above 0, at most {:g}", kMostSustained));
    }
  }
  if (!(d.reported_gb > 0)) return bad_file(origin, "memory.reported_gb is not a positive number");
  if (d.source.empty()) return bad_file(origin, "board.source is missing: every file says where its figures come from");
  if (d.usd_per_hour > 0 && d.price_source.empty()) {
    return bad_file(origin, "board.usd_per_hour without board.price_source: a price needs a date and a source");
  }
  return d;
}

const std::vector<Device>& devices() {
  static const std::vector<Device> kDevices = [] {
    std::vector<Device> all;
    for (const DataFile& file : data_files_in("hardware/devices", ".toml")) {
      const std::string_view stem = file.stem(), text = file.text;
      Result<Device> d = parse_device(text, std::string(stem), std::string(stem) + ".toml");
      FORETRACE_CHECK(d.has_value());  // a test reads every built-in file
      all.push_back(std::move(*d));
    }
    std::sort(all.begin(), all.end(), [](const Device& a, const Device& b) { return lower(a.name) < lower(b.name); });
    return all;
  }();
  return kDevices;
}

namespace {

// What names leave out when there is only one: "H200" is the H200-SXM. Any other letter makes another GPU: an L40 is no L40S, an
// RTX 4070 no 4070 Ti.
bool is_form_factor(std::string_view rest) {
  return rest.starts_with("sxm") || rest.starts_with("pcie") || rest.ends_with("gb");
}

// "h200" of "h200sxm": the letters and the number a GPU goes by, without what follows.
std::string model_of(const std::string& key) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  auto end = std::find_if(key.begin(), key.end(), digit);
  while (end != key.end() && digit(*end)) ++end;
  return {key.begin(), end};
}
std::string letters_of(const std::string& key) { return key.substr(0, key.find_first_of("0123456789")); }

// Those of the same family (H of H300) whose number is nearest.
std::vector<const Device*> nearest_of_family(const std::string& key) {
  std::vector<const Device*> found;
  std::size_t least = std::string::npos;
  for (const Device& d : devices()) {
    const std::string own = device_key(d.name);
    if (letters_of(own) != letters_of(key) || d.recognised_only) continue;
    const std::size_t off = edit_distance(model_of(key), model_of(own));
    if (off < least) found.clear();
    least = std::min(least, off);
    if (off == least) found.push_back(&d);
  }
  return found;
}

std::string device_hint(std::string_view name, const std::vector<const Device*>& begins) {
  const auto one_of = [](const std::vector<const Device*>& some) {
    std::string hint;
    for (const Device* d : some) hint += (hint.empty() ? "did you mean " : " or ") + d->name;
    return hint + '?';
  };
  if (!begins.empty()) return one_of(begins);
  // The longest name that begins the one asked for ("B200" of "B200-SXM") is nearer than one that differs by a letter.
  const std::string key = device_key(name);
  std::string_view longest;
  std::vector<std::string> names;
  for (const Device& d : devices()) {
    const std::string own = device_key(d.name);
    const bool begins_it = key.size() > own.size() && key.starts_with(own);
    const bool another_number = begins_it && key[own.size()] >= '0' && key[own.size()] <= '9';  // a P40 is no P4
    if (begins_it && !another_number && d.name.size() > longest.size()) longest = d.name;
    names.push_back(d.name);
  }
  if (!longest.empty()) return fmt::format("did you mean '{}'?", longest);
  const std::vector<const Device*> family = nearest_of_family(key);
  return family.empty() || letters_of(key).empty() ? did_you_mean(name, names) : one_of(family);
}

}  // namespace

Result<Device> find_device(std::string_view name) {
  const std::string key = device_key(name);
  std::vector<const Device*> begins;
  for (const Device& d : devices()) {
    const std::string own = device_key(d.name);
    if (own == key) return d;
    for (const std::string& driver : d.driver_names) {
      if (device_key(driver) == key) return d;
    }
    if (!key.empty() && own.starts_with(key)) begins.push_back(&d);
  }
  if (begins.size() == 1 && is_form_factor(std::string_view(device_key(begins.front()->name)).substr(key.size()))) {
    return *begins.front();
  }
  std::string hint = device_hint(name, begins);
  hint += (hint.empty() ? "" : " ");
  hint += "`foretrace list devices` shows them all; a file of your own works with --device FILE";
  return fail(ErrorCode::kUsage, fmt::format("no device is named '{}'", name), std::move(hint));
}

Result<Device> load_device(const std::string& path) {
  FORETRACE_TRY(const std::string text, read_file(path, kLargestToml));
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

}  // namespace foretrace::hardware
