// What an Nsight file says about itself: GPUs, names of threads and processes, versions, options of the recording, ranks.
// META_DATA_CAPTURE also holds the command line and the environment of the program, which may be secret: of those only the
// numbers that identify ranks are read, and nothing else is kept.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/decimal.hpp"
#include "base/text.hpp"
#include "trace/importers/json_text.hpp"
#include "trace/importers/nsight.hpp"

namespace foretrace::trace {

namespace {

// The schemas foretrace was written for; those between were not all seen, but columns are asked for by name.
constexpr std::int64_t kMajor = 3;
constexpr std::int64_t kNewestMinor = 27;

class About {
 public:
  explicit About(NsightRead& in) : in_(in), t_(in.trace) {}

  Status run() {
    FORETRACE_TRY_VOID(version());
    FORETRACE_TRY_VOID(options());
    FORETRACE_TRY_VOID(clock());
    FORETRACE_TRY_VOID(gpus());
    return names();
  }

 private:
  Status version() {
    return in_.table("META_DATA_EXPORT", "name value", [&](const TableRow& row) {
      const std::string_view name = row.text(0);
      const std::string value(row.text(1));
      if (name == "EXPORT_PRODUCT_VERSION") t_.metadata.emplace_back("nsight_version", quoted_json(value));
      if (name != "EXPORT_SCHEMA_VERSION") return;
      t_.metadata.emplace_back("nsight_schema", quoted_json(value));
      const std::size_t dot = value.find('.');
      const auto major = parse_int64(value.substr(0, dot));
      const auto minor = dot == std::string::npos
                             ? std::nullopt
                             : parse_int64(value.substr(dot + 1, value.find('.', dot + 1) - dot - 1));
      if (major && (*major > kMajor || (*major == kMajor && minor && *minor > kNewestMinor))) {
        t_.diagnostics.add("newer_schema", Severity::kInfo,
                           "the file is of a newer schema than foretrace knows (3.16 to 3.27); what it knows was read",
                           value);
      }
    });
  }

  Status options() {
    std::optional<std::int64_t> rank, world;
    FORETRACE_TRY_VOID(in_.table("META_DATA_CAPTURE", "name value", [&](const TableRow& row) {
      const std::string_view name = row.text(0);
      const std::string value(row.text(1));
      if (name == "CUDA_GRAPH_TRACE_OPTIONS:MODE") t_.metadata.emplace_back("nsight_graph_trace", quoted_json(value));
      if (name == "COLLECT_GPU_MEMORY_USAGE") t_.metadata.emplace_back("nsight_memory_usage", quoted_json(value));
      if (!contains(name, "ENVIRONMENT_VARIABLE")) return;
      const std::size_t equals = value.find('=');
      if (equals == std::string::npos) return;
      const std::string_view key = std::string_view(value).substr(0, equals);
      constexpr std::array<std::string_view, 4> kRank = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
      constexpr std::array<std::string_view, 4> kWorld = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                                          "SLURM_NTASKS"};
      const auto is = [&](const auto& list) { return std::find(list.begin(), list.end(), key) != list.end(); };
      if (is(kRank) && !rank) rank = parse_int64(std::string_view(value).substr(equals + 1));
      if (is(kWorld) && !world) world = parse_int64(std::string_view(value).substr(equals + 1));
    }));
    // One file per rank: the profiler was started by the launcher, and its environment shows which rank it is.
    if (t_.distributed.present || !rank || !world || *world < 2 || *rank < 0 || *rank >= *world) return {};
    t_.distributed.present = true;
    t_.distributed.rank = *rank;
    t_.distributed.world_size = *world;
    return {};
  }

  // The time of day at a reading of the clock that events are stamped with; older files stamp from the session's start.
  Status clock() {
    return in_.table("TARGET_INFO_SESSION_START_TIME", "utcEpochNs systemClockNs", [&](const TableRow& row) {
      Ns base = 0;
      if (!__builtin_sub_overflow(row.integer(0), row.integer(1, 0), &base) && base > 0) t_.base_time_ns = base;
    });
  }

  Status gpus() {
    // CUDA's number of a GPU in this process, where the file distinguishes it from the machine's.
    std::map<std::int64_t, std::int64_t> cuda_number;
    FORETRACE_TRY_VOID(in_.table("TARGET_INFO_CUDA_DEVICE", "gpuId cudaId pid", [&](const TableRow& row) {
      if (in_.ours(row.integer(2))) cuda_number[row.integer(0)] = row.integer(1);
    }));
    return in_.table(
        "TARGET_INFO_GPU",
        "id name totalMemory computeMajor computeMinor smCount threadsPerWarp maxWarpsPerSm maxRegistersPerSm "
        "maxRegistersPerBlock maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxThreadsPerBlock",
        [&](const TableRow& row) {
          DeviceProperties d;
          const auto number = cuda_number.find(row.integer(0));
          d.id = number == cuda_number.end() ? row.integer(0) : number->second;
          d.name = make_valid_utf8(row.text(1));
          d.total_memory_bytes = row.integer(2, kAbsent);
          d.compute_major = row.integer(3, kAbsent);
          d.compute_minor = row.integer(4, kAbsent);
          d.sm_count = row.integer(5, kAbsent);
          d.warp_size = row.integer(6, 32);
          if (const std::int64_t warps = row.integer(7, 0); warps > 0 && warps <= 1024) {
            d.max_threads_per_sm = warps * 32;
          }
          d.registers_per_sm = row.integer(8, kAbsent);
          d.registers_per_block = row.integer(9, kAbsent);
          d.shared_memory_per_block = row.integer(10, kAbsent);
          d.shared_memory_per_block_optin = row.integer(11, kAbsent);
          d.shared_memory_per_sm = row.integer(12, kAbsent);
          d.max_threads_per_block = row.integer(13, kAbsent);
          t_.devices.push_back(std::move(d));
        });
  }

  Status names() {
    std::map<std::int64_t, StringId> process;
    FORETRACE_TRY_VOID(in_.table("PROCESSES", "pid name", [&](const TableRow& row) {
      if (in_.ours(row.integer(0))) process[row.integer(0)] = t_.strings.intern(make_valid_utf8(row.text(1)));
    }));
    std::map<std::pair<std::int64_t, std::int64_t>, StringId> thread;
    FORETRACE_TRY_VOID(in_.table("ThreadNames", "nameId globalTid", [&](const TableRow& row) {
      const std::int64_t id = row.integer(1);
      if (in_.ours(nsight_pid(id))) thread[{nsight_pid(id), nsight_tid(id)}] = in_.string(row.integer(0));
    }));
    for (Lane& lane : t_.lanes) {
      if (lane.kind != LaneKind::kCpuThread) continue;
      if (const auto it = process.find(lane.pid_number); it != process.end()) lane.process_name = it->second;
      const auto it = thread.find({lane.pid_number, lane.tid_number});
      if (it != thread.end()) lane.name = it->second;
    }
    return {};
  }

  NsightRead& in_;
  Trace& t_;
};

}  // namespace

Status read_nsight_about(NsightRead& in) { return About(in).run(); }

}  // namespace foretrace::trace
