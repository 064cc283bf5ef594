#include "trace/importers/chrome_metadata.hpp"

#include <simdjson.h>

#include "base/decimal.hpp"

namespace foretrace::trace {

namespace {

using simdjson::dom::element;

std::int64_t integer(const simdjson::dom::object& object, const char* key) {
  std::int64_t value = 0;
  return object[key].get(value) == simdjson::SUCCESS ? value : kAbsent;
}

std::string text(const simdjson::dom::object& object, const char* key) {
  std::string_view value;
  if (object[key].get(value) == simdjson::SUCCESS) return std::string(value);
  return {};
}

DeviceProperties device_properties(const simdjson::dom::object& d) {
  DeviceProperties p;
  const std::int64_t id = integer(d, "id");
  p.id = id == kAbsent ? 0 : id;
  p.name = text(d, "name");
  p.total_memory_bytes = integer(d, "totalGlobalMem");
  p.compute_major = integer(d, "computeMajor");
  p.compute_minor = integer(d, "computeMinor");
  p.sm_count = integer(d, "numSms");
  p.warp_size = integer(d, "warpSize");
  p.max_threads_per_block = integer(d, "maxThreadsPerBlock");
  p.max_threads_per_sm = integer(d, "maxThreadsPerMultiprocessor");
  p.registers_per_sm = integer(d, "regsPerMultiprocessor");
  p.registers_per_block = integer(d, "regsPerBlock");
  p.shared_memory_per_block = integer(d, "sharedMemPerBlock");
  p.shared_memory_per_block_optin = integer(d, "sharedMemPerBlockOptin");
  p.shared_memory_per_sm = integer(d, "sharedMemPerMultiprocessor");
  if (p.shared_memory_per_sm == kAbsent) p.shared_memory_per_sm = integer(d, "maxSharedMemoryPerMultiProcessor");
  return p;
}

}  // namespace

void read_metadata(Trace& trace) {
  simdjson::dom::parser parser;
  for (const auto& [key, value] : trace.metadata) {
    if (key == "baseTimeNanoseconds") {
      if (const auto base = parse_int64(value)) trace.base_time_ns = *base;
      continue;
    }
    if (key != "deviceProperties" && key != "distributedInfo") continue;
    element root;
    if (parser.parse(value).get(root) != simdjson::SUCCESS) {
      trace.diagnostics.add("unreadable_metadata", Severity::kDataLoss, "a metadata value is not valid JSON", key);
      continue;
    }
    simdjson::dom::array devices;
    simdjson::dom::object info;
    if (key == "deviceProperties" && root.get(devices) == simdjson::SUCCESS) {
      for (const element d : devices) {
        simdjson::dom::object object;
        if (d.get(object) == simdjson::SUCCESS) trace.devices.push_back(device_properties(object));
      }
    } else if (key == "distributedInfo" && root.get(info) == simdjson::SUCCESS) {
      trace.distributed = {true, integer(info, "rank"), integer(info, "world_size"), text(info, "backend"),
                           text(info, "nccl_version")};
    }
  }
}

}  // namespace foretrace::trace
