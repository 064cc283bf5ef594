// The GPU's side of an Nsight file: kernels, copies, fills, whole graphs, synchronisation, CUDA events, memory.

#include <fmt/format.h>

#include <array>
#include <vector>

#include "trace/importers/nsight.hpp"

namespace foretrace::trace {

namespace {

void append(std::string& out, std::string_view key, std::int64_t value) {
  if (value != kAbsent) fmt::format_to(std::back_inserter(out), ",\"{}\":{}", key, value);
}

// "Memcpy HtoD (Pinned -> Device)", as Kineto writes it. Codes are those of ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND.
std::string copy_name(std::int64_t kind, std::int64_t from, std::int64_t to) {
  constexpr std::array<std::string_view, 14> kKinds = {"Unknown", "HtoD",     "DtoH",     "HtoA",    "AtoH",
                                                       "AtoA",    "AtoD",     "DtoA",     "DtoD",    "HtoH",
                                                       "PtoP",    "UVM HtoD", "UVM DtoH", "UVM DtoD"};
  constexpr std::array<std::string_view, 8> kPlaces = {"Pageable", "Pinned",        "Device",         "Array",
                                                       "Managed",  "Device Static", "Managed Static", "Unknown"};
  const auto of = [](const auto& table, std::int64_t i) {
    return i >= 0 && i < static_cast<std::int64_t>(table.size()) ? table[static_cast<std::size_t>(i)]
                                                                 : std::string_view("Unknown");
  };
  return fmt::format("Memcpy {} ({} -> {})", of(kKinds, kind), of(kPlaces, from), of(kPlaces, to));
}

class GpuTables {
 public:
  explicit GpuTables(NsightRead& in) : in_(in), t_(in.trace) {}

  Status run() {
    FORETRACE_TRY_VOID(priorities());
    FORETRACE_TRY_VOID(kernels());
    FORETRACE_TRY_VOID(copies());
    FORETRACE_TRY_VOID(fills());
    FORETRACE_TRY_VOID(graphs());
    FORETRACE_TRY_VOID(events());
    FORETRACE_TRY_VOID(syncs());
    return memory();
  }

 private:
  LaneId stream(std::int64_t device, std::int64_t id) { return in_.rows.lane(LaneKind::kGpuStream, device, id); }

  // Stream priorities are in a table of their own, by process and context.
  Status priorities() {
    return in_.table("TARGET_INFO_CUDA_STREAM", "processId contextId streamId priority", [&](const TableRow& row) {
      if (in_.ours(row.integer(0))) priority_[{row.integer(1), row.integer(2)}] = row.integer(3);
    });
  }
  [[nodiscard]] std::int64_t priority_of(std::int64_t context, std::int64_t stream) const {
    const auto it = priority_.find({context, stream});
    return it == priority_.end() ? kAbsent : it->second;
  }

  // A table of work on streams. Device, context and stream are columns 4 to 6, those of `columns` follow them.
  template <class F>
  Status work(const char* table, std::uint16_t category, std::string_view columns, F describe) {
    const std::string all = fmt::format("deviceId contextId streamId {}", columns);
    return in_.timed_table(table, "globalPid", all, [&](const TableRow& row, EventRow& e) {
      in_.device_of_context.try_emplace(row.integer(5), row.integer(4));
      e.lane = stream(row.integer(4), row.integer(6));
      e.category = category;
      describe(row, e);
      in_.rows.add(e);
    });
  }

  Status kernels() {
    ArgumentTuples<14> tuples;
    return work(kNsightKernels, in_.rows.category("kernel", EventKind::kKernel),
                "registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory "
                "graphId graphNodeId demangledName shortName",
                [&](const TableRow& row, EventRow& e) {
                  e.name = in_.string(row.null(18) ? row.integer(19) : row.integer(18));
                  ArgumentTuples<14>::Key key{};
                  for (int i = 0; i < 12; ++i) key[static_cast<std::size_t>(i)] = row.integer(4 + i);
                  key[12] = row.integer(16, kAbsent);
                  key[13] = row.integer(17, kAbsent);
                  e.args = tuples.find(t_.args, key, [&](const auto& k) { return kernel_arguments(k); });
                });
  }

  [[nodiscard]] std::string kernel_arguments(const ArgumentTuples<14>::Key& key) const {
    const auto& [device, context, stream, registers, gx, gy, gz, bx, by, bz, fixed, dynamic, graph, node] = key;
    std::string json = fmt::format(
        R"({{"device":{},"context":{},"stream":{},"registers per thread":{},"shared memory":{},"grid":[{},{},{}],"block":[{},{},{}])",
        device, context, stream, registers, fixed + dynamic, gx, gy, gz, bx, by, bz);
    append(json, "graph id", graph);
    append(json, "graph node id", node);
    append(json, "priority", priority_of(context, stream));
    return json + '}';
  }

  // Where copies, fills and whole graphs ran.
  ArgsId placed(std::int64_t device, std::int64_t context, std::int64_t stream, std::int64_t graph, std::int64_t node) {
    return placed_.find(t_.args, {device, context, stream, graph, node}, [](const auto& k) {
      std::string json = fmt::format(R"({{"device":{},"context":{},"stream":{})", k[0], k[1], k[2]);
      append(json, "graph id", k[3]);
      append(json, "graph node id", k[4]);
      return json + '}';
    });
  }

  // Copies and fills: how many bytes, and at which rate.
  void moved_bytes(const TableRow& row, EventRow& e) {
    e.args = placed(row.integer(4), row.integer(5), row.integer(6), kAbsent, row.integer(7, kAbsent));
    CopyIds copy;
    copy.bytes = row.integer(8, kAbsent);
    if (copy.bytes > 0 && e.duration > 0) {
      copy.gbytes_per_s = static_cast<double>(copy.bytes) / static_cast<double>(e.duration);
    }
    e.side = EventRows::side(t_.copy_ids, copy);
  }

  Status copies() {
    std::unordered_map<std::int64_t, StringId> names;
    return work(kNsightCopies, in_.rows.category("gpu_memcpy", EventKind::kMemcpy),
                "graphNodeId bytes copyKind srcKind dstKind", [&](const TableRow& row, EventRow& e) {
                  const std::int64_t kind = row.integer(9, -1);
                  const std::int64_t from = row.integer(10, -1);
                  const std::int64_t to = row.integer(11, -1);
                  StringId& name =
                      names.try_emplace((kind & 0xFF) << 16 | (from & 0xFF) << 8 | (to & 0xFF)).first->second;
                  if (!name.valid()) name = t_.strings.intern(copy_name(kind, from, to));
                  e.name = name;
                  moved_bytes(row, e);
                });
  }

  Status fills() {
    const StringId name = t_.strings.intern("Memset (Device)");
    return work(kNsightFills, in_.rows.category("gpu_memset", EventKind::kMemset), "graphNodeId bytes",
                [&](const TableRow& row, EventRow& e) {
                  e.name = name;
                  moved_bytes(row, e);
                });
  }

  // --cuda-graph-trace=graph: a launch of a graph is one piece of work, its nodes are not recorded.
  Status graphs() {
    if (!in_.file.has(kNsightGraphs)) return {};
    return work(kNsightGraphs, in_.rows.category("cuda_graph", EventKind::kKernel), "graphId graphExecId",
                [&](const TableRow& row, EventRow& e) {
                  const std::int64_t graph = row.null(7) ? row.integer(8, kAbsent) : row.integer(7);
                  e.name = t_.strings.intern(graph == kAbsent ? "CUDA graph" : fmt::format("CUDA graph {}", graph));
                  e.args = placed(row.integer(4), row.integer(5), row.integer(6), graph, kAbsent);
                });
  }

  struct Record {
    std::int64_t correlation = kAbsent;
    std::int64_t stream = kAbsent;
  };

  // A stamp of 0 is one that was not collected: the row still says which record a wait is for.
  Status events() {
    const std::uint16_t category = in_.rows.category("cuda_event", EventKind::kCudaEvent);
    const StringId name = t_.strings.intern("CUDA event");
    return in_.table(kNsightEvents, "timestamp globalPid correlationId deviceId contextId streamId eventId eventSyncId",
                     [&](const TableRow& row) {
                       if (!in_.ours(nsight_pid(row.integer(1)))) return;
                       const Record record{row.integer(2, kAbsent), row.integer(5, kAbsent)};
                       if (row.integer(7, 0) != 0) by_sync_[row.integer(7)] = record;
                       by_event_[row.integer(6)].push_back(record);
                       EventRow e;
                       e.start = row.integer(0);
                       e.name = name;
                       e.lane = stream(device(row.integer(3), row.integer(4)), row.integer(5));
                       e.args = placed(device(row.integer(3), row.integer(4)), row.integer(4), row.integer(5), kAbsent,
                                       kAbsent);
                       e.correlation = record.correlation;
                       e.category = category;
                       e.ph = e.start > 0 ? 'X' : 'M';
                       e.side = EventRows::side(t_.sync_ids, SyncIds{row.integer(6, kAbsent), kAbsent});
                       in_.rows.add(e);
                     });
  }

  // Some versions leave the device of a synchronisation at 0; its context knows better.
  [[nodiscard]] std::int64_t device(std::int64_t recorded, std::int64_t context) const {
    const auto it = in_.device_of_context.find(context);
    return it == in_.device_of_context.end() ? recorded : it->second;
  }

  // The record a wait is for: by the id of the pair, else the last record of the event that was called before the wait.
  [[nodiscard]] Record record_of(std::int64_t event, std::int64_t sync, std::int64_t correlation) const {
    if (const auto it = by_sync_.find(sync); sync != 0 && it != by_sync_.end()) return it->second;
    const auto it = by_event_.find(event);
    if (it == by_event_.end()) return {};
    Record last;
    for (const Record& r : it->second) {
      if (r.correlation < correlation && (last.correlation == kAbsent || r.correlation > last.correlation)) last = r;
    }
    return last;
  }

  Status syncs() {
    const std::uint16_t category = in_.rows.category("cuda_sync", EventKind::kSync);
    constexpr std::array<std::string_view, 5> kNames = {"Unknown Sync", "Event Sync", "Stream Wait Event",
                                                        "Stream Sync", "Context Sync"};
    ArgumentTuples<5> tuples;
    constexpr std::int64_t kNoStream = 0xFFFF'FFFF;
    return in_.timed_table(
        kNsightSyncs, "globalPid", "deviceId contextId streamId syncType eventId eventSyncId deprecatedSyncType",
        [&](const TableRow& row, EventRow& e) {
          std::int64_t type = row.null(7) ? row.integer(10, 0) : row.integer(7);
          if (type < 0 || type >= static_cast<std::int64_t>(kNames.size())) type = 0;
          const std::string_view name = kNames[static_cast<std::size_t>(type)];
          const bool of_event = type == 1 || type == 2;
          const std::int64_t gpu = device(row.integer(4), row.integer(5));
          std::int64_t on = row.integer(6, -1);
          if (on == kNoStream) on = -1;
          SyncIds ids;
          Record record;
          if (of_event) {
            ids.event_id = row.integer(8, kAbsent);
            record = record_of(ids.event_id, row.integer(9, 0), row.integer(3, kAbsent));
            ids.record_correlation = record.correlation == kAbsent ? -1 : record.correlation;
          }
          e.name = t_.strings.intern(name);
          e.lane = on < 0 ? in_.rows.lane(LaneKind::kOther, gpu, -1) : stream(gpu, on);
          e.args = tuples.find(t_.args, {type, gpu, row.integer(5), on, record.stream}, [&](const auto& k) {
            std::string json =
                fmt::format(R"({{"cuda_sync_kind":"{}","device":{},"context":{},"stream":{})", name, k[1], k[2], k[3]);
            append(json, "wait_on_stream", k[4]);
            return json + '}';
          });
          e.category = category;
          e.side = EventRows::side(t_.sync_ids, ids);
          in_.rows.add(e);
        });
  }

  // What the driver gave out and took back. A caching allocator asks seldom, so this is what is reserved, not what lives.
  Status memory() {
    constexpr const char* kTable = "CUDA_GPU_MEMORY_USAGE_EVENTS";
    if (!in_.file.has(kTable)) return {};
    const std::uint16_t category = in_.rows.category("cuda_memory", EventKind::kMemory);
    const StringId name = t_.strings.intern("[memory]");
    std::unordered_map<std::int64_t, std::int64_t> reserved;  // by GPU
    ArgumentTuples<1> tuples;
    return in_.table(kTable, "start globalPid deviceId address bytes memoryOperationType memKind correlationId",
                     [&](const TableRow& row) {
                       if (!in_.ours(nsight_pid(row.integer(1))) || row.null(0)) return;
                       const bool on_device = row.integer(6, 2) == 2 || row.integer(6, 2) == 5;
                       MemoryIds ids;
                       ids.address = row.integer(3, kAbsent);
                       ids.bytes = row.integer(5) == 1 ? -row.integer(4) : row.integer(4);
                       if (on_device) {
                         std::int64_t& sum = reserved[row.integer(2)];
                         if (__builtin_add_overflow(sum, ids.bytes, &sum)) sum = 0;
                         ids.total_reserved = sum;
                       }
                       EventRow e;
                       e.start = row.integer(0);
                       e.name = name;
                       e.lane = in_.rows.lane(LaneKind::kOther, row.integer(2), -2);
                       e.args = tuples.find(t_.args, {row.integer(2)}, [&](const auto& k) {
                         return fmt::format(R"({{"Device Type":{},"Device Id":{}}})", on_device ? 1 : 0, k[0]);
                       });
                       e.correlation = row.integer(7, kAbsent);
                       e.category = category;
                       e.ph = 'i';
                       e.side = EventRows::side(t_.memory_ids, ids);
                       in_.rows.add(e);
                     });
  }

  NsightRead& in_;
  Trace& t_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> priority_;  // context, stream
  ArgumentTuples<5> placed_;
  std::unordered_map<std::int64_t, Record> by_sync_;
  std::unordered_map<std::int64_t, std::vector<Record>> by_event_;
};

}  // namespace

Status read_nsight_gpu(NsightRead& in) { return GpuTables(in).run(); }

}  // namespace foretrace::trace
