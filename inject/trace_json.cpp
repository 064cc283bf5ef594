#include "trace_json.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <unordered_map>

#include "operation_range.hpp"

namespace foretrace::inject {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;
constexpr const char* kSyncNames[] = {"Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
constexpr const char* kPlaceNames[] = {"Unknown", "Pageable", "Pinned", "Device", "Array", "Managed"};

const char* name_of(Place place) { return kPlaceNames[static_cast<int>(place)]; }
bool on_device(Place place) { return place >= Place::kDevice; }

/// Bytes of the UTF-8 character at the beginning of `text`, 0 when it is none.
std::size_t character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead < 0x80                   ? 1
                           : lead >= 0xc2 && lead < 0xe0 ? 2
                           : lead >= 0xe0 && lead < 0xf0 ? 3
                           : lead >= 0xf0 && lead < 0xf5 ? 4
                                                         : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0u) != 0x80u) return 0;
  }
  const auto next = size > 1 ? static_cast<unsigned char>(text[1]) : 0u;
  // Longer than need be, half of a pair of UTF-16, behind the last character there is.
  const bool wrong = (lead == 0xe0 && next < 0xa0) || (lead == 0xed && next >= 0xa0) || (lead == 0xf0 && next < 0x90) ||
                     (lead == 0xf4 && next >= 0x90);
  return wrong ? 0 : size;
}

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char c = text[0];
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t size = character(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", byte);
      out += code;
    } else if (size == 0) {
      out += '?';  // NVTX names may hold any bytes; those that are no UTF-8 would make the file unreadable
    } else {
      out.append(text.substr(0, size));
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text ? std::string(text.get()) : name;
}

/// A range of NVTX with both ends, or an API call: what lies in what decides which operation launched a kernel.
struct Span {
  const Record* record;
  std::uint64_t end;
  bool operation;
};

class Writer {
 public:
  Writer(const Activities& activities, const Surroundings& where, const std::function<bool(std::string_view)>& put)
      : all_(activities), where_(where), put_(put) {}

  bool write() {
    look_around();
    match_ranges();
    link_operations();
    head();
    std::vector<const Record*> order;
    order.reserve(all_.records.size());
    for (const Record& record : all_.records) order.push_back(&record);
    std::stable_sort(order.begin(), order.end(), [&](const Record* a, const Record* b) { return at(*a) < at(*b); });
    for (const Record* record : order) {
      event(*record);
      if (text_.size() >= kPieceBytes && !flush()) return false;
    }
    print("\n]}\n");
    return flush();
  }

 private:
  // -- what records say of each other

  /// The device of each context, the call of each correlation, the records of each event.
  void look_around() {
    base_ = UINT64_MAX;
    for (const Record& record : all_.records) {
      if (record.start > 0) base_ = std::min(base_, record.start);
      if (record.device != kNone && record.context != kNone) device_of_context_[record.context] = record.device;
      if (record.kind == Kind::kRuntime || record.kind == Kind::kDriver) {
        // A runtime call and the driver calls inside it share the id; the runtime's is the outer one.
        const Record*& call = call_of_[record.correlation];
        if (call == nullptr || record.kind == Kind::kRuntime) call = &record;
      }
      if (record.kind == Kind::kEvent) {
        if (record.event_record != 0) by_record_[record.event_record] = &record;
        by_event_[record.id].push_back(&record);
      }
    }
    if (base_ == UINT64_MAX) base_ = 0;
    for (auto& [id, records] : by_event_) {
      std::sort(records.begin(), records.end(),
                [](const Record* a, const Record* b) { return a->correlation < b->correlation; });
    }
  }

  void match_ranges() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, const Record*> open;
    std::vector<const Record*> ends;
    for (const Record& record : all_.records) {
      if (record.kind == Kind::kRangeBegin) open[{record.domain, record.id}] = &record;
      if (record.kind == Kind::kRangeEnd) ends.push_back(&record);
    }
    for (const Record* end : ends) {
      auto begin = open.find({end->domain, end->id});
      // The end of a range may not name its domain.
      if (begin == open.end()) {
        begin = std::find_if(open.begin(), open.end(), [&](const auto& o) { return o.first.second == end->id; });
      }
      if (begin != open.end() && end->start >= begin->second->start) range_end_[begin->second] = end->start;
    }
  }

  /// Gives each operation a number and each call and kernel the number of the innermost operation around it.
  void link_operations() {
    std::map<std::uint32_t, std::vector<Span>> threads;
    for (const Record& record : all_.records) {
      if (record.kind == Kind::kRangeBegin) {
        const auto end = range_end_.find(&record);
        if (end == range_end_.end()) continue;
        const bool operation = operation_range(all_.names.text(record.name)).has_value();
        threads[record.thread].push_back({&record, end->second, operation});
      } else if (record.kind == Kind::kRuntime || record.kind == Kind::kDriver) {
        threads[record.thread].push_back({&record, record.end, false});
      }
    }
    std::uint64_t number = 0;
    for (auto& [thread, spans] : threads) {
      std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
        return a.record->start != b.record->start ? a.record->start < b.record->start : a.end > b.end;
      });
      std::vector<Span> open;
      for (const Span& span : spans) {
        while (!open.empty() && open.back().end < span.record->start) open.pop_back();
        if (span.operation) {
          operation_of_[span.record] = ++number;
        } else if (span.record->kind != Kind::kRangeBegin) {
          const auto inner = std::find_if(open.rbegin(), open.rend(), [](const Span& s) { return s.operation; });
          if (inner != open.rend()) operation_of_[span.record] = operation_of_[inner->record];
        }
        if (span.record->kind == Kind::kRangeBegin) open.push_back(span);
      }
    }
  }

  std::uint64_t at(const Record& record) const {
    if (record.start > 0 || record.kind != Kind::kEvent) return std::max(record.start, base_);
    const auto call = call_of_.find(record.correlation);  // an event has no time of its own: that of its call
    return call == call_of_.end() ? base_ : std::max(call->second->start, base_);
  }

  std::uint64_t operation(const Record& record) const {
    auto found = operation_of_.find(&record);
    if (found == operation_of_.end()) {
      const auto call = call_of_.find(record.correlation);
      if (call == call_of_.end()) return 0;
      found = operation_of_.find(call->second);
    }
    return found == operation_of_.end() ? 0 : found->second;
  }

  // -- writing

  __attribute__((format(printf, 2, 3))) void print(const char* format, ...) {
    char small[1024];
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    const int size = std::vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (size >= 0 && static_cast<std::size_t>(size) < sizeof small) {
      text_.append(small, static_cast<std::size_t>(size));
    } else if (size > 0) {
      std::string large(static_cast<std::size_t>(size) + 1, '\0');
      std::vsnprintf(large.data(), large.size(), format, again);
      text_.append(large, 0, static_cast<std::size_t>(size));
    }
    va_end(again);
  }

  bool flush() {
    const bool good = put_(text_);
    text_.clear();
    return good;
  }

  void head() {
    print("{\n\"schemaVersion\": 1,\n\"deviceProperties\": [");
    bool first = true;
    for (const Device& d : all_.devices) {
      print("%s\n  {\"id\": %u, \"name\": \"%s\", \"totalGlobalMem\": %" PRIu64
            ", \"computeMajor\": %u, \"computeMinor\": %u, \"maxThreadsPerBlock\": %u, "
            "\"maxThreadsPerMultiprocessor\": %u, "
            "\"regsPerBlock\": %u, \"warpSize\": %u, \"sharedMemPerBlock\": %u, \"numSms\": %u, "
            "\"regsPerMultiprocessor\": %u, \"sharedMemPerMultiprocessor\": %u}",
            first ? "" : ",", d.id, escaped(d.name).c_str(), d.memory, d.major, d.minor, d.threads_per_block,
            d.threads_per_multiprocessor, d.registers_per_block, d.warp, d.shared_per_block, d.multiprocessors,
            d.registers_per_multiprocessor, d.shared_per_multiprocessor);
      first = false;
    }
    print("\n],\n\"cupti_version\": %u,\n", where_.cupti_version);
    if (where_.rank >= 0) {
      print("\"distributedInfo\": {\"rank\": %d, \"world_size\": %d},\n", where_.rank, where_.world_size);
    }
    print("\"foretrace_cuda\": {\"version\": 1, \"records\": %zu, \"dropped_full\": %" PRIu64
          ", \"dropped_cupti\": %" PRIu64 ", \"untimed\": %" PRIu64,
          all_.records.size(), all_.dropped_full, all_.dropped_cupti, all_.untimed);
    if (!where_.left_out.empty()) print(", \"left_out\": \"%s\"", escaped(where_.left_out).c_str());
    print("},\n");
    print("\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %" PRId64 ",\n\"traceName\": \"CUDA activities\",\n",
          static_cast<std::int64_t>(base_) + where_.epoch_offset_ns);
    print("\"traceEvents\": [\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %" PRIu64
          ", \"tid\": 0, \"args\": {\"name\": \"program\"}}",
          where_.process);
  }

  void begin(const char* category, const std::string& name, std::uint64_t pid, std::uint64_t tid, std::uint64_t start,
             std::uint64_t end) {
    const std::uint64_t from = start - base_, length = end > start ? end - start : 0;
    print(",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %" PRIu64 ", \"tid\": %" PRIu64
          ", \"ts\": %" PRIu64 ".%03u, \"dur\": %" PRIu64 ".%03u, \"args\": {",
          category, escaped(name).c_str(), pid, tid, from / 1000, static_cast<unsigned>(from % 1000), length / 1000,
          static_cast<unsigned>(length % 1000));
  }

  void link(const Record& record) {
    if (const std::uint64_t number = operation(record)) print("\"External id\": %" PRIu64 ", ", number);
  }

  void where_on_gpu(const Record& r) {
    print("\"device\": %u, \"context\": %u, \"stream\": %u, \"correlation\": %u", r.device, r.context, r.stream,
          r.correlation);
    if (r.graph != 0) print(", \"graph id\": %u, \"graph node id\": %" PRIu64, r.graph, r.graph_node);
  }

  void event(const Record& r) {
    switch (r.kind) {
      case Kind::kKernel:
        return kernel(r);
      case Kind::kMemcpy:
      case Kind::kMemset:
        return transfer(r);
      case Kind::kRuntime:
      case Kind::kDriver:
        return call(r);
      case Kind::kSync:
        return sync(r);
      case Kind::kEvent:
        return event_record(r);
      case Kind::kRangeBegin:
        return range(r);
      case Kind::kRangeEnd:
        return;
      case Kind::kMark:
        return mark(r);
      case Kind::kMemory:
        return memory(r);
    }
  }

  void kernel(const Record& r) {
    std::string& name = demangled_[r.name];
    if (name.empty()) name = demangled(all_.names.text(r.name));
    begin("kernel", name, r.device, r.stream, r.start, r.end);
    link(r);
    where_on_gpu(r);
    print(", \"registers per thread\": %u, \"shared memory\": %u, \"grid\": [%d, %d, %d], \"block\": [%d, %d, %d]}}",
          r.registers, r.shared_memory, r.grid[0], r.grid[1], r.grid[2], r.block[0], r.block[1], r.block[2]);
  }

  void transfer(const Record& r) {
    std::string name = "Memset (" + std::string(name_of(r.to)) + ")";
    if (r.kind == Kind::kMemcpy) {
      const bool peers = r.peer_from != kNone && r.peer_from != r.peer_to;
      const char* direction = peers ? "PtoP" : nullptr;
      if (direction == nullptr) {
        direction = on_device(r.from) ? (on_device(r.to) ? "DtoD" : "DtoH") : (on_device(r.to) ? "HtoD" : "HtoH");
      }
      name = std::string("Memcpy ") + direction + " (" + name_of(r.from) + " -> " + name_of(r.to) + ")";
    }
    begin(r.kind == Kind::kMemcpy ? "gpu_memcpy" : "gpu_memset", name, r.device, r.stream, r.start, r.end);
    link(r);
    where_on_gpu(r);
    const double ns = static_cast<double>(std::max<std::uint64_t>(r.end > r.start ? r.end - r.start : 1, 1));
    print(", \"bytes\": %" PRId64 ", \"memory bandwidth (GB/s)\": %.6g", r.bytes, static_cast<double>(r.bytes) / ns);
    if (r.peer_from != kNone) print(", \"fromDevice\": %u, \"toDevice\": %u", r.peer_from, r.peer_to);
    print("}}");
  }

  void call(const Record& r) {
    begin(r.kind == Kind::kRuntime ? "cuda_runtime" : "cuda_driver",
          std::string(plain_api_name(all_.names.text(r.name))), where_.process, r.thread, r.start, r.end);
    link(r);
    print("\"cbid\": %u, \"correlation\": %u}}", r.id, r.correlation);
  }

  /// The record of the event a wait is for: named by CUPTI, or the last one before the wait.
  const Record* awaited(const Record& r) const {
    if (const auto named = by_record_.find(r.event_record); r.event_record != 0 && named != by_record_.end()) {
      return named->second;
    }
    const auto records = by_event_.find(r.id);
    if (records == by_event_.end()) return nullptr;
    const Record* last = nullptr;
    for (const Record* record : records->second) {
      if (record->correlation >= r.correlation) break;
      last = record;
    }
    return last;
  }

  void sync(const Record& r) {
    const auto device = device_of_context_.find(r.context);
    const std::uint32_t gpu = r.device != kNone ? r.device : device == device_of_context_.end() ? 0 : device->second;
    const bool of_stream = r.stream != kNone;
    const char* name = kSyncNames[static_cast<int>(r.sync)];
    begin("cuda_sync", name, gpu, of_stream ? r.stream : 0, r.start, r.end);
    print("\"cuda_sync_kind\": \"%s\", \"stream\": %" PRId64 ", \"correlation\": %u, \"device\": %u, \"context\": %u",
          name, of_stream ? static_cast<std::int64_t>(r.stream) : -1, r.correlation, gpu, r.context);
    if (r.sync == Sync::kEvent || r.sync == Sync::kStreamWaitEvent) {
      const Record* record = awaited(r);
      const std::int64_t stream = record != nullptr ? static_cast<std::int64_t>(record->stream) : -1;
      print(", \"wait_on_stream\": %" PRId64 ", \"wait_on_cuda_event_id\": %u", stream, r.id);
      if (record != nullptr) print(", \"wait_on_cuda_event_record_corr_id\": %u", record->correlation);
    }
    print("}}");
  }

  void event_record(const Record& r) {
    const auto device = device_of_context_.find(r.context);
    const std::uint32_t gpu = r.device != kNone ? r.device : device == device_of_context_.end() ? 0 : device->second;
    begin("cuda_event", "cudaEventRecord", gpu, r.stream, at(r), at(r) + 1);
    print("\"event_id\": %u, \"stream\": %u, \"correlation\": %u, \"device\": %u, \"context\": %u}}", r.id, r.stream,
          r.correlation, gpu, r.context);
  }

  void range(const Record& r) {
    const auto end = range_end_.find(&r);
    if (end == range_end_.end()) return;  // begun, and never ended before the program did
    const std::string& text = all_.names.text(r.name);
    if (const auto op = operation_range(text)) {
      begin("cpu_op", std::string(op->name), where_.process, r.thread, r.start, end->second);
      print("\"External id\": %" PRIu64, operation(r));
      if (op->sequence) print(", \"Sequence number\": %" PRId64, *op->sequence);
      if (!op->sizes.empty()) print(", \"Input Dims\": %.*s", static_cast<int>(op->sizes.size()), op->sizes.data());
      print("}}");
      return;
    }
    begin("user_annotation", text, where_.process, r.thread, r.start, end->second);
    if (r.domain != 0) print("\"domain\": \"%s\"", escaped(all_.names.text(r.domain)).c_str());
    print("}}");
  }

  void mark(const Record& r) {
    const std::uint64_t from = r.start - base_;
    print(",\n{\"ph\": \"i\", \"s\": \"t\", \"name\": \"%s\", \"pid\": %" PRIu64 ", \"tid\": %u, \"ts\": %" PRIu64
          ".%03u}",
          escaped(all_.names.text(r.name)).c_str(), where_.process, r.thread, from / 1000,
          static_cast<unsigned>(from % 1000));
  }

  void memory(const Record& r) {
    std::int64_t& total = held_[r.device];
    total += r.bytes;
    const std::uint64_t from = r.start - base_;
    print(",\n{\"ph\": \"i\", \"s\": \"t\", \"cat\": \"cpu_instant_event\", \"name\": \"[memory]\", \"pid\": %" PRIu64
          ", \"tid\": %u, \"ts\": %" PRIu64 ".%03u, \"args\": {\"Addr\": %" PRIu64 ", \"Bytes\": %" PRId64
          ", \"Total Allocated\": %" PRId64 ", \"Total Reserved\": %" PRId64
          ", \"Device Type\": 1, \"Device Id\": %u}}",
          where_.process, r.thread, from / 1000, static_cast<unsigned>(from % 1000), r.address, r.bytes, total, total,
          r.device == kNone ? 0 : r.device);
  }

  const Activities& all_;
  const Surroundings& where_;
  const std::function<bool(std::string_view)>& put_;
  std::string text_;
  std::uint64_t base_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> device_of_context_;
  std::unordered_map<std::uint32_t, const Record*> call_of_;  // by correlation
  std::unordered_map<std::uint64_t, const Record*> by_record_;
  std::unordered_map<std::uint32_t, std::vector<const Record*>> by_event_;
  std::unordered_map<const Record*, std::uint64_t> range_end_;
  std::unordered_map<const Record*, std::uint64_t> operation_of_;
  std::unordered_map<std::uint32_t, std::string> demangled_;
  std::unordered_map<std::uint32_t, std::int64_t> held_;
};

}  // namespace

bool write_trace(const Activities& activities, const Surroundings& surroundings,
                 const std::function<bool(std::string_view)>& put) {
  return Writer(activities, surroundings, put).write();
}

std::string_view plain_api_name(std::string_view name) {
  const std::size_t at = name.rfind("_v");
  if (at == std::string_view::npos || at + 2 == name.size()) return name;
  const std::string_view version = name.substr(at + 2);
  const bool digits = std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && version.size() > 1 ? name.substr(0, at) : name;  // cuMemAlloc_v2 is another function's name
}

}  // namespace foretrace::inject
