#include "trace/importers/xla_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace foretrace::trace {

namespace {

bool is_call(std::string_view name) {
  for (const std::string_view maker : {"cuda", "cu", "hip"}) {
    if (name.starts_with(maker) && name.size() > maker.size() && name[maker.size()] >= 'A' && name[maker.size()] <= 'Z')
      return true;
  }
  return false;
}

std::string_view value_of(std::string_view text, std::string_view key) {
  std::size_t at = 0;
  while ((at = text.find(key, at)) != std::string_view::npos) {
    const std::size_t behind = at + key.size();
    if ((at == 0 || text[at - 1] == ' ') && behind < text.size() && text[behind] == ':') {
      return text.substr(behind + 1, text.find(' ', behind) - behind - 1);
    }
    at = behind;
  }
  return {};
}

std::int64_t integer_of(std::string_view text, std::string_view key, std::int64_t otherwise) {
  const std::string_view value = value_of(text, key);
  std::int64_t number = otherwise;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

void triple(std::string_view value, std::array<std::int64_t, 3>& out) {
  const char* at = value.data();
  const char* end = at + value.size();
  for (std::int64_t& n : out) {
    std::int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{}) return;
    n = number;
    if (next == end || *next != ',') return;
    at = next + 1;
  }
}

}  // namespace

EventKind xla_host_kind(std::string_view name) {
  if (is_call(name)) return EventKind::kRuntime;
  if (name.starts_with('$')) return EventKind::kPython;
  if (name == "MemoryAllocation" || name == "MemoryDeallocation") return EventKind::kMemory;
  if (name == "BUFFER_FLUSH" || name == "<UNKNOWN>" || name == "CUPTI_OVERHEAD" || name == "LAZY_FUNCTION_LOADING" ||
      name == "COMMAND_BUFFER_FULL" || name == "DRIVER_COMPILER" || name == "INSTRUMENTATION" || name == "RESOURCE") {
    return EventKind::kOverhead;
  }
  return EventKind::kOp;
}

std::string_view xla_launch_name(std::string_view launched) {
  if (launched.starts_with("Memcpy")) return "cuMemcpyAsync";
  return launched.starts_with("Memset") ? "cuMemsetAsync" : "cuLaunchKernel";
}

std::string_view xla_call_name(std::string_view name) { return name.substr(0, name.find(' ')); }

XlaKernelDetails parse_kernel_details(std::string_view text) {
  XlaKernelDetails out;
  out.registers = integer_of(text, "regs", 0);
  // NVIDIA's two kinds of shared memory; ROCm's one.
  out.shared_memory = std::clamp<std::int64_t>(integer_of(text, "static_shared", 0), 0, 1 << 30) +
                      std::clamp<std::int64_t>(integer_of(text, "dynamic_shared", 0), 0, 1 << 30) +
                      std::clamp<std::int64_t>(integer_of(text, "group_mem", 0), 0, 1 << 30);
  triple(value_of(text, "grid"), out.grid);
  triple(value_of(text, "block"), out.block);
  const std::string_view occupancy = value_of(text, "occ_pct");
  std::from_chars(occupancy.data(), occupancy.data() + occupancy.size(), out.occupancy);
  return out;
}

XlaCopyDetails parse_copy_details(std::string_view text) {
  XlaCopyDetails out;
  out.bytes = integer_of(text, "size", integer_of(text, "num_bytes", 0));
  out.from = value_of(text, "kind_src");
  out.to = value_of(text, "kind_dst");
  return out;
}

EventKind xla_gpu_kind(std::string_view name) {
  // "memcpy128" and its like are kernels that copy.
  if (name.starts_with("Memcpy")) return EventKind::kMemcpy;
  if (name.starts_with("Memset")) return EventKind::kMemset;
  return EventKind::kKernel;
}

std::string xla_copy_name(std::string_view name, const XlaCopyDetails& details) {
  if (name.starts_with("Memset")) return "Memset (Device)";
  if (!name.starts_with("Memcpy")) return std::string(name);
  std::string_view kind = "Unknown";
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>{"H2D", "HtoD"},
                                 {"D2H", "DtoH"},
                                 {"D2D", "DtoD"},
                                 {"P2P", "PtoP"},
                                 {"H2H", "HtoH"}}) {
    if (name.find(from) != std::string_view::npos) kind = to;
  }
  const auto place = [&](const std::string& spelled, bool host) {
    if (spelled == "pinned") return "Pinned";
    if (spelled == "pageable") return "Pageable";
    if (spelled == "device") return "Device";
    return host ? "Unknown" : "Device";
  };
  return fmt::format("Memcpy {} ({} -> {})", kind, place(details.from, kind.starts_with('H')),
                     place(details.to, kind.ends_with('H')));
}

std::optional<std::int64_t> xla_stream(std::string_view line) {
  constexpr std::string_view kStream = "Stream #";
  if (!line.starts_with(kStream)) return std::nullopt;
  return xla_number(line.substr(kStream.size()));
}

std::optional<std::int64_t> xla_gpu(std::string_view plane) {
  for (const std::string_view start : {"/device:GPU:", "/device:TPU:"}) {
    if (plane.starts_with(start) && plane.size() > start.size()) return xla_number(plane.substr(start.size()));
  }
  return std::nullopt;
}

std::int64_t xla_number(std::string_view text) {
  while (text.starts_with('$')) text.remove_prefix(1);
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace foretrace::trace
