// The CPU's side of an Nsight file: calls, NVTX ranges of all domains, overheads, calls of libraries.

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.hpp"
#include "trace/importers/json_text.hpp"
#include "trace/importers/nsight.hpp"
#include "trace/importers/nvtx_payload.hpp"
#include "trace/importers/nvtx_text.hpp"

namespace foretrace::trace {

namespace {

// "cudaLaunchKernel_ptsz_v7000" is cudaLaunchKernel: the version of the interface and the per-thread stream are no part of
// what a call does. "cuLaunchKernel_v2" of the driver keeps its own.
std::string_view call_name(std::string_view name) {
  const std::size_t mark = name.rfind("_v");
  if (name.starts_with("cuda") && mark != std::string_view::npos && mark + 5 <= name.size() &&
      name.find_first_not_of("0123456789", mark + 2) == std::string_view::npos) {
    name = name.substr(0, mark);
  }
  if (name.ends_with("_ptsz") || name.ends_with("_ptds")) name.remove_suffix(5);
  return name;
}

class CpuTables {
 public:
  explicit CpuTables(NsightRead& in) : in_(in), t_(in.trace) {}

  Status run() {
    FORETRACE_TRY_VOID(calls());
    FORETRACE_TRY_VOID(payload_schemas());
    FORETRACE_TRY_VOID(ranges());
    FORETRACE_TRY_VOID(named_times("CUPTI_ACTIVITY_KIND_OVERHEAD", "overhead", EventKind::kOverhead));
    FORETRACE_TRY_VOID(named_times("PROFILER_OVERHEAD", "profiler_overhead", EventKind::kOverhead));
    FORETRACE_TRY_VOID(named_times("CUDNN_EVENTS", "cudnn", EventKind::kOther));
    FORETRACE_TRY_VOID(named_times("CUBLAS_EVENTS", "cublas", EventKind::kOther));
    return complaints();
  }

 private:
  LaneId thread(std::int64_t global) {
    return in_.rows.lane(LaneKind::kCpuThread, nsight_pid(global), nsight_tid(global));
  }

  Status calls() {
    const std::uint16_t runtime = in_.rows.category("cuda_runtime", EventKind::kRuntime);
    const std::uint16_t driver = in_.rows.category("cuda_driver", EventKind::kRuntime);
    struct Name {
      StringId id;
      std::uint16_t category = 0;
    };
    std::unordered_map<std::int64_t, Name> names;  // calls have few
    return in_.timed_table(kNsightCalls, "globalTid", "nameId", [&](const TableRow& row, EventRow& e) {
      Name& name = names[row.integer(4)];
      if (!name.id.valid()) {
        const std::string text(t_.strings[in_.string(row.integer(4))]);
        name.id = t_.strings.intern(call_name(text));
        name.category = text.starts_with("cu") && !text.starts_with("cuda") ? driver : runtime;
      }
      e.name = name.id;
      e.category = name.category;
      e.lane = thread(row.integer(2));
      in_.rows.add(e);
    });
  }

  Status payload_schemas() {
    return in_.table("NVTX_PAYLOAD_SCHEMA_ENTRIES", "domainId schemaId type name offset", [&](const TableRow& row) {
      payloads_.add_field(row.integer(0), row.integer(1),
                          {std::string(row.text(3)), row.integer(2), row.integer(4, 0)});
    });
  }

  // NCCL's own ranges say what each of its calls moved, where the export holds their payloads.
  void nccl_call(const TableRow& row, const EventRow& e, std::string_view text) {
    if (!text.starts_with("nccl")) return;
    const std::string_view json =
        row.null(8) ? std::string_view(row.null(9) ? "" : t_.strings[in_.string(row.integer(9))]) : row.text(8);
    in_.nccl.add({e.lane, e.start, e.start + e.duration}, text, payloads_.values(row.blob(7), json));
  }

  // Event types: 34 mark, 59 push and pop, 60 start and end; 33, 39, 75 and others name categories, threads and domains.
  Status ranges() {
    enum : std::uint8_t { kMark = 34, kPushPop = 59, kStartEnd = 60 };
    const std::uint16_t op = in_.rows.category("cpu_op", EventKind::kOp);
    const std::uint16_t range = in_.rows.category("user_annotation", EventKind::kAnnotation);
    const std::uint16_t across = in_.rows.category("nvtx_range", EventKind::kOther);
    const std::uint16_t mark = in_.rows.category("nvtx_mark", EventKind::kInstant);
    const std::uint16_t about = in_.rows.category("nvtx_name", EventKind::kMetadata);
    return in_.table(
        "NVTX_EVENTS", "start end eventType globalTid endGlobalTid text textId binaryData jsonText jsonTextId",
        [&](const TableRow& row) {
          const std::int64_t thread_id = row.integer(3);
          if (!in_.ours(nsight_pid(thread_id))) return;
          const std::int64_t type = row.integer(2);
          EventRow e;
          if (row.null(0)) {
            (void)in_.times(row, 0, 1, e);  // counts it
            return;
          }
          e.lane = thread(thread_id);
          const bool is_range = type == kPushPop || type == kStartEnd;
          if (!is_range || row.null(1)) {
            const bool names_something = !is_range && type != kMark;
            e.start = row.integer(0);
            e.name = name_of(row);
            e.category = names_something ? about : mark;
            e.ph = names_something ? 'M' : 'i';
            in_.rows.add(e);
            if (is_range) {
              t_.diagnostics.add("open_range", Severity::kInfo,
                                 "an NVTX range was never closed; it is kept as the moment it began",
                                 t_.strings[e.name]);
            }
            return;
          }
          if (!in_.times(row, 0, 1, e)) return;
          // A range that ends on another thread is part of neither's nesting.
          if (type == kStartEnd && !row.null(4) && row.integer(4) != thread_id) {
            e.name = name_of(row);
            e.category = across;
            in_.rows.add(e);
            return;
          }
          const std::string_view text = row.null(5) ? t_.strings[in_.string(row.integer(6))] : row.text(5);
          nccl_call(row, e, text);
          const NvtxText parsed = parse_nvtx(text);
          if (!parsed.sizes.empty()) {
            tuple_.assign(R"({"Input Dims":)").append(parsed.sizes).append("}");
            e.args = t_.args.intern(tuple_);
          }
          OpIds ids;
          ids.sequence_number = parsed.sequence;
          ids.record_function_id = parsed.operation;
          e.name = row.null(5) && parsed.name.size() == text.size() ? in_.string(row.integer(6)) : clean(parsed.name);
          e.category = parsed.op ? op : range;
          e.side = EventRows::side(t_.op_ids, ids);
          in_.rows.add(e);
        });
  }

  StringId name_of(const TableRow& row) {
    return row.null(5) ? (row.null(6) ? t_.strings.intern("") : in_.string(row.integer(6))) : clean(row.text(5));
  }

  StringId clean(std::string_view text) {
    if (is_ascii(text)) {
      name_ = text;  // the text may be in the table it goes to
      return t_.strings.intern(name_);
    }
    return t_.strings.intern(make_valid_utf8(text));
  }

  // Times of threads by name: what the profiler itself cost, and calls of libraries. Those are inside operations and around
  // launches, so they are of no kind that could hide the operation that says what is computed.
  Status named_times(const char* table, std::string_view category_name, EventKind kind) {
    if (!in_.file.has(table)) return {};
    const std::uint16_t category = in_.rows.category(category_name, kind);
    return in_.timed_table(table, "globalTid", "nameId", [&](const TableRow& row, EventRow& e) {
      e.name = in_.string(row.integer(4));
      e.lane = thread(row.integer(2));
      e.category = category;
      in_.rows.add(e);
    });
  }

  // What the profiler itself says went wrong: "Not all CUDA events might have been collected."
  Status complaints() {
    enum : std::uint8_t { kWarning = 2, kError = 3 };  // ENUM_DIAGNOSTIC_SEVERITY_LEVEL
    return in_.table("DIAGNOSTIC_EVENT", "severity text", [&](const TableRow& row) {
      if (row.integer(0) != kWarning && row.integer(0) != kError) return;
      t_.diagnostics.add("profiler_warning", Severity::kInfo, "the profiler warned while it recorded",
                         make_valid_utf8(row.text(1)));
    });
  }

  NsightRead& in_;
  Trace& t_;
  NvtxPayloads payloads_;
  std::string tuple_, name_;
};

}  // namespace

Status read_nsight_cpu(NsightRead& in) { return CpuTables(in).run(); }

}  // namespace foretrace::trace
