#include "hardware/tables.hpp"

#include <fmt/format.h>

#include "hardware/spreads.hpp"

namespace foretrace::hardware {

namespace {

DeviceTables read_tables(const Device& device, const DataFiles& files, const Tables& all) {
  const auto table = [&](std::string_view folder) { return files.measured(folder, device.name); };
  DeviceTables out;
  out.clocks = parse_clocks(table("hardware/clocks").text);
  out.figures = parse_figures(table("hardware/figures").text);
  out.latencies = trace::parse_latencies(table("trace/latencies").text);
  out.algorithms = ConvChoices(table("hardware/algorithms").text);
  out.own_kernel = parse_own_kernel(files.measured("hardware/spreads", device.name, "kernels").text);
  const DataFile convolutions = table("hardware/convolutions");
  out.convolutions = parse_convolutions(convolutions.text);
  out.convolutions_on = all.device(convolutions.device());
  for (const DataFile& file : files.in("hardware/kernels")) {
    const std::string operation(KernelTables::operation_of(file));
    out.kernels_on[operation] = files.measured("hardware/kernels", device.name, operation).device();
  }
  return out;
}

}  // namespace

Tables::Tables(DataFiles files)
    : files_(std::move(files)),
      products_(TransferWeights::read(files_)),
      laws_(Laws::read(files_)),
      kernels_(files_, *this) {}

const Tables& Tables::shipped() {
  static const Tables kShipped(DataFiles::shipped());
  return kShipped;
}

const DeviceTables& Tables::of(const Device& device) const {
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(device.name);
  if (it != devices_.end()) return it->second;
  return devices_.emplace(device.name, read_tables(device, files_, *this)).first->second;
}

Device Tables::device(std::string_view name) const {
  const DataFile& file = files_.at(fmt::format("hardware/devices/{}.toml", name));
  Result<Device> found = parse_device(file.text, std::string(name), std::string(file.path));
  FORETRACE_CHECK(found.has_value());  // tables are named after devices, whose files a test reads
  return *found;
}

const MeasuredCategory* Tables::category(const std::string& name, const Device& device) const {
  const DeviceTables& tables = of(device);
  const auto on = tables.kernels_on.find(std::string_view(name).substr(0, name.find(' ')));
  return on == tables.kernels_on.end() ? nullptr : kernels_.find(name, on->second);
}

}  // namespace foretrace::hardware
