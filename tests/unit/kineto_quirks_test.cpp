// What real files hold that the format does not promise.

#include "compress.hpp"
#include "kineto_helpers.hpp"

namespace foretrace::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using trace::EventKind;
using trace::Trace;

TEST(KinetoQuirks, MetadataInAnyOrder) {
  const Trace t = must_load(
      "{\"traceEvents\": [" + op("a", "1", "1") +
      "], \"deviceProperties\": [{\"id\": 1, \"name\": \"NVIDIA H200\", \"numSms\": 132}], \"distributedInfo\": "
      "{\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8, \"nccl_version\": \"2.28.9\"}, \"with_stack\": 1, "
      "\"x\": {\"y\": [1, \"]\"]}}");
  EXPECT_THAT(problem_names(t), IsEmpty());
  ASSERT_EQ(t.devices.size(), 1u);
  EXPECT_EQ(t.devices[0].id, 1);
  EXPECT_EQ(t.devices[0].name, "NVIDIA H200");
  EXPECT_EQ(t.devices[0].sm_count, 132);
  EXPECT_EQ(t.devices[0].warp_size, trace::kAbsent);
  EXPECT_TRUE(t.distributed.present);
  EXPECT_EQ(t.distributed.rank, 3);
  EXPECT_EQ(t.distributed.world_size, 8);
  EXPECT_EQ(t.distributed.backend, "nccl");
  EXPECT_EQ(t.metadata_value("with_stack"), "1");
  EXPECT_EQ(t.metadata_value("x"), "{\"y\": [1, \"]\"]}");
}

TEST(KinetoQuirks, KeysOfAnEventInAnyOrder) {
  const Trace t = must_load(wrap(
      R"({"args": {"stream": 7, "correlation": 9}, "dur": 2.5, "ts": 1.25, "tid": 7, "pid": 0, "name": "k", "cat": "kernel", "ph": "X"})"));
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t.kind(0), EventKind::kKernel);
  EXPECT_EQ(t.events.start[0], 1250);
  EXPECT_EQ(t.events.duration[0], 2500);
  EXPECT_EQ(t.events.correlation[0], 9);
  EXPECT_EQ(t.lane_label(t.events.lane[0]), "GPU 0 stream 7");
}

TEST(KinetoQuirks, BareArray) {
  const Trace t = must_load("[" + op("a", "1", "1") + "," + op("b", "2", "1") + "]");
  EXPECT_EQ(t.size(), 2u);
  EXPECT_EQ(t.diagnostics.lost_records(), 0u);
}

TEST(KinetoQuirks, BareArrayMayStayOpen) {
  const Trace t = must_load("[" + op("a", "1", "1") + ",\n" + op("b", "2", "1") + ",\n");
  EXPECT_EQ(t.size(), 2u);
  EXPECT_EQ(t.diagnostics.lost_records(), 0u);
}

TEST(KinetoQuirks, ByteOrderMarkAndWhiteSpace) {
  EXPECT_EQ(must_load("\xEF\xBB\xBF" + wrap(op("a", "1", "1"))).size(), 1u);
  EXPECT_EQ(must_load("\r\n\t " + wrap("\n" + op("a", "1", "1") + "\r\n") + "\n\n").size(), 1u);
}

TEST(KinetoQuirks, TrailingCommas) {
  const Trace t = must_load(
      R"({"a": 1, "traceEvents": [{"ph": "X", "name": "k", "cat": "kernel", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"device": 0, "stream": 7,},},],})");
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t.diagnostics.lost_records(), 0u) << testing::PrintToString(problem_names(t));
  ASSERT_NE(t.launch(0), nullptr);
  EXPECT_EQ(t.launch(0)->stream, 7);
}

TEST(KinetoQuirks, NoEvents) {
  EXPECT_EQ(must_load(wrap("")).size(), 0u);
  EXPECT_EQ(must_load("[]").size(), 0u);
  EXPECT_EQ(must_load("[\n]").size(), 0u);
}

TEST(KinetoQuirks, EmptyRecordIsCountedAndNotLost) {
  const Trace t = must_load(wrap("{}, { }," + op("a", "1", "1") + ",{}"));
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(problem_count(t, "empty_record"), 3u);
  EXPECT_EQ(t.diagnostics.lost_records(), 0u);
}

TEST(KinetoQuirks, StringsForProcessAndThread) {
  const Trace t = must_load(wrap(
      R"json({"ph": "X", "cat": "Trace", "ts": 1, "dur": 5, "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
         {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 6},
         {"ph": "X", "cat": "cpu_op", "name": "a", "pid": "12", "tid": "-7", "ts": 1, "dur": 1})json"));
  ASSERT_EQ(t.size(), 3u);
  EXPECT_EQ(t.kind(0), EventKind::kSpan);
  EXPECT_EQ(t.kind(1), EventKind::kInstant);
  const trace::Lane& spans = t.lanes[t.events.lane[0].index()];
  EXPECT_EQ(t.strings[spans.pid], "Spans");
  EXPECT_EQ(t.strings[spans.tid], "PyTorch Profiler");
  EXPECT_EQ(spans.pid_number, trace::kAbsent);
  EXPECT_EQ(t.strings[t.lanes[t.events.lane[1].index()].pid], "");
  const trace::Lane& thread = t.lanes[t.events.lane[2].index()];
  EXPECT_EQ(thread.pid_number, 12);
  EXPECT_EQ(thread.tid_number, -7);
}

TEST(KinetoQuirks, SamePidAndTidOnCpuAndGpuAreTwoLanes) {
  const Trace t = must_load(wrap(
      R"({"ph": "X", "cat": "cpu_op", "name": "a", "pid": 0, "tid": 7, "ts": 1, "dur": 1},
         {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1})"));
  ASSERT_EQ(t.size(), 2u);
  EXPECT_NE(t.events.lane[0], t.events.lane[1]);
}

TEST(KinetoQuirks, NamesOfThreadsAndProcesses) {
  const Trace t = must_load(wrap(
      R"json({"name": "process_name", "ph": "M", "ts": 0, "pid": 1, "tid": 0, "args": {"name": "python3"}},
         {"name": "process_labels", "ph": "M", "ts": 0, "pid": 1, "tid": 0, "args": {"labels": "CPU"}},
         {"name": "thread_name", "ph": "M", "ts": 0, "pid": 1, "tid": 2, "args": {"name": "thread 2 (pt_autograd_0)"}},
         {"name": "thread_sort_index", "ph": "M", "ts": 0, "pid": 1, "tid": 2, "args": {"sort_index": 17}},)json" +
      op("a", "1", "1")));
  ASSERT_EQ(t.size(), 5u);
  const trace::Lane& lane = t.lanes[t.events.lane[4].index()];
  EXPECT_EQ(t.strings[lane.name], "thread 2 (pt_autograd_0)");
  EXPECT_EQ(t.strings[lane.process_name], "python3");
  EXPECT_EQ(t.strings[lane.process_labels], "CPU");
  EXPECT_EQ(lane.sort_index, 17);
  EXPECT_EQ(lane.kind, trace::LaneKind::kCpuThread);
}

TEST(KinetoQuirks, OldSchema) {
  const Trace t = must_load(wrap(
      R"json({"ph": "X", "cat": "Operator", "name": "aten::add", "pid": 1, "tid": "1", "ts": 1621401187223005, "dur": 10, "args": {"Device": 1, "External id": 2, "Trace name": "PyTorch Profiler", "Trace iteration": 0}},
         {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": "5", "ts": 1621401187223006, "dur": 2, "args": {"cbid": 211, "correlation": 77, "external id": 2, "external ts": 1621401187223006}},
         {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7", "ts": 1621401187223010, "dur": 3, "args": {"queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": 77, "external id": 2, "registers per thread": 32, "shared memory": 0, "blocks per SM": 0.5, "warps per SM": 2, "grid": [1, 2, 3], "block": [128, 1, 1], "est. achieved occupancy %": 31}},
         {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": "stream 7", "ts": 1621401187223020, "dur": 3, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 78, "external id": 3, "bytes": 4096, "memory bandwidth (GB/s)": 1.3}},
         {"ph": "s", "id": 77, "pid": 1, "tid": "5", "ts": 1621401187223006, "cat": "async", "name": "launch"},
         {"ph": "f", "id": 77, "pid": 0, "tid": "stream 7", "ts": 1621401187223010, "cat": "async", "name": "launch", "bp": "e"})json"));
  ASSERT_EQ(t.size(), 6u);
  EXPECT_THAT(problem_names(t), IsEmpty());
  EXPECT_EQ(t.kind(0), EventKind::kOp);
  EXPECT_EQ(t.kind(1), EventKind::kRuntime);
  EXPECT_EQ(t.kind(2), EventKind::kKernel);
  EXPECT_EQ(t.kind(3), EventKind::kMemcpy);
  EXPECT_EQ(t.kind(4), EventKind::kFlowStart);
  EXPECT_EQ(t.kind(5), EventKind::kFlowEnd);
  EXPECT_EQ(t.category_name(0), "Operator");
  EXPECT_EQ(t.events.start[0], 1'621'401'187'223'005'000);
  EXPECT_EQ(t.events.external_id[1], 2);
  EXPECT_EQ(t.events.correlation[2], 77);
  EXPECT_EQ(t.events.correlation[4], 77);
  ASSERT_NE(t.launch(2), nullptr);
  EXPECT_THAT(t.launch(2)->grid, ElementsAre(1, 2, 3));
  ASSERT_NE(t.copy(3), nullptr);
  EXPECT_EQ(t.copy(3)->bytes, 4096);
}

TEST(KinetoQuirks, RocmStreamsInHexadecimal) {
  const Trace t = must_load(wrap(
      R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 2, "tid": 0, "ts": 1, "dur": 1, "args": {"device": 2, "stream": "0x1f", "correlation": 5, "kind": "Dispatch Kernel", "grid": [4, 1, 1], "block": [64, 1, 1]}},
         {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 9, "tid": 9, "ts": 0, "dur": 1, "args": {"cid": 99, "correlation": 5, "kernel": "k", "ptr": "0x7f", "size": "64"}})"));
  ASSERT_EQ(t.size(), 2u);
  ASSERT_NE(t.launch(0), nullptr);
  EXPECT_EQ(t.launch(0)->stream, 0x1f);
  EXPECT_EQ(t.launch(0)->registers_per_thread, trace::kAbsent);
  EXPECT_EQ(t.args.find(t.events.args[1], "ptr"), "\"0x7f\"");
  EXPECT_EQ(t.diagnostics.lost_records(), 0u);
}

TEST(KinetoQuirks, BeginAndEndBecomeOneCompleteEvent) {
  const Trace t = must_load(wrap(
      R"({"ph": "B", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 2, "ts": 1},
         {"ph": "B", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 2, "ts": 2},
         {"ph": "B", "cat": "cpu_op", "name": "elsewhere", "pid": 1, "tid": 3, "ts": 2.5},
         {"ph": "E", "pid": 1, "tid": 2, "ts": 3},
         {"ph": "E", "pid": 1, "tid": 2, "ts": 5.001},
         {"ph": "E", "pid": 1, "tid": 3, "ts": 6})"));
  std::vector<std::pair<std::string_view, Ns>> complete;
  for (std::size_t e = 0; e < t.size(); ++e) {
    if (t.events.ph[e] == 'X') complete.emplace_back(t.name(e), t.events.duration[e]);
  }
  EXPECT_THAT(complete, ElementsAre(testing::Pair("outer", 4001), testing::Pair("inner", 1000),
                                    testing::Pair("elsewhere", 3500)));
  EXPECT_EQ(t.diagnostics.lost_records(), 0u) << testing::PrintToString(problem_names(t));
}

TEST(KinetoQuirks, BeginWithoutEndIsCounted) {
  const Trace t = must_load(wrap(R"({"ph": "B", "cat": "cpu_op", "name": "open", "pid": 1, "tid": 2, "ts": 1},
                                    {"ph": "E", "pid": 7, "tid": 7, "ts": 2})"));
  EXPECT_EQ(problem_count(t, "unmatched_begin_end"), 2u);
}

TEST(KinetoQuirks, EscapesInNames) {
  const Trace t = must_load(wrap(op(R"(a\"b\\c\/d\n\t\u00e9\ud83d\ude00)", "1", "1") + "," + op(R"(\u0041)", "2", "1") +
                                 "," + op("A", "3", "1")));
  ASSERT_EQ(t.size(), 3u);
  EXPECT_EQ(t.name(0), "a\"b\\c/d\n\t\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(t.name(1), "A");
  EXPECT_EQ(t.events.name[1], t.events.name[2]) << "spelled differently, equal all the same";
  EXPECT_THAT(problem_names(t), IsEmpty());
}

TEST(KinetoQuirks, UnescapedQuotesOfOldTracesAreRepaired) {
  const Trace t =
      must_load(wrap(op("before", "1", "1") + "," + op(R"(torch.ops.load_library("x.so"): init)", "2", "1") + "," +
                     op("after", "3", "1")));
  ASSERT_EQ(t.size(), 3u);
  EXPECT_EQ(t.name(0), "before");
  EXPECT_EQ(t.name(1), "torch.ops.load_library(\"x.so\"): init");
  EXPECT_EQ(t.name(2), "after");
  EXPECT_EQ(problem_count(t, "unescaped_quotes"), 1u);
  EXPECT_EQ(t.diagnostics.lost_records(), 0u);
}

TEST(KinetoQuirks, UnescapedQuotesNextToCommasAreRepaired) {
  const Trace t = must_load(wrap(op("before", "1", "1") + "," +
                                 op(R"json(<lambda>("a", "b", {"c": 1}))json", "2", "1",
                                    R"({"Input type": ["float", "long "quoted" int"], "Ev Idx": 7})") +
                                 "," + op("after", "3", "1")));
  ASSERT_EQ(t.size(), 3u);
  EXPECT_EQ(t.name(1), R"json(<lambda>("a", "b", {"c": 1}))json");
  EXPECT_EQ(t.op(1)->event_index, 7);
  EXPECT_EQ(t.diagnostics.lost_records(), 0u);
}

TEST(KinetoQuirks, TextThatLooksLikeBoundariesIsNone) {
  const Trace t =
      must_load(wrap(op("x }, { y", "1", "1", R"({"Call stack": "},\n{\"ph\": \"X\""})") + "," + op("b", "2", "1")));
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t.name(0), "x }, { y");
  EXPECT_THAT(problem_names(t), IsEmpty());
}

TEST(KinetoQuirks, NestedObjectsInArguments) {
  const Trace t = must_load(wrap(
      op("a", "1", "1",
         R"({"occupancy": {"limitingFactors": [{"name": "regs"}, {"name": "warps"}], "blockLimitRegs": 4}, "Ev Idx": 8})") +
      "," + op("b", "2", "1")));
  ASSERT_EQ(t.size(), 2u);
  EXPECT_THAT(problem_names(t), IsEmpty());
  EXPECT_EQ(t.op(0)->event_index, 8);
  EXPECT_EQ(t.args.find(t.events.args[0], "occupancy"),
            R"({"limitingFactors":[{"name":"regs"},{"name":"warps"}],"blockLimitRegs":4})");
}

TEST(KinetoQuirks, CompressedInputs) {
  const std::string a = "{\"traceEvents\": [" + op("a", "1", "1") + ",";
  const std::string b = op("b", "2", "1") + "]}";
  for (const std::string& packed : {gzip(a + b), gzip(a) + gzip(b), gzip(a) + gzip("") + gzip(b),
                                    gzip(a + b) + std::string(512, '\0'), zstd(a + b), zstd(a) + zstd(b)}) {
    const Trace t = must_load(packed);
    ASSERT_EQ(t.size(), 2u);
    EXPECT_EQ(t.input_bytes, a.size() + b.size());
    EXPECT_THAT(problem_names(t), IsEmpty());
  }
}

TEST(KinetoQuirks, DuplicateCorrelationsAndDisorderAreRead) {
  // Merged ranks repeat ids, rounding makes rows overlap, writers sort by thread: the importer keeps rows as they are.
  const Trace t = must_load(wrap(op("late", "100", "50", R"({"correlation": 1})") + "," +
                                 op("early", "10", "95", R"({"correlation": 1})") + "," +
                                 op("same", "10", "95", R"({"correlation": 1})")));
  ASSERT_EQ(t.size(), 3u);
  EXPECT_EQ(t.name(0), "late");
  EXPECT_EQ(t.events.start[1], 10'000);
  EXPECT_EQ(t.events.correlation[2], 1);
  EXPECT_EQ(t.diagnostics.lost_records(), 0u);
}

TEST(KinetoQuirks, UnknownPhasesAndCategoriesAreKept) {
  const Trace t = must_load(wrap(
      R"({"ph": "X", "cat": "quantum_op", "name": "q", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"qubits": 3}},
         {"ph": "C", "name": "power", "pid": 1, "tid": 1, "ts": 1, "args": {"W": 512.5}},
         {"ph": "N", "name": "object", "id": "0xfe", "pid": 1, "tid": 1, "ts": 1},
         {"ph": "X", "name": "without category", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "tts": 5, "cname": "red"})"));
  ASSERT_EQ(t.size(), 4u);
  EXPECT_EQ(t.kind(0), EventKind::kOther);
  EXPECT_EQ(t.category_name(0), "quantum_op");
  EXPECT_EQ(t.kind(1), EventKind::kCounter);
  EXPECT_EQ(t.args.find(t.events.args[1], "W"), "512.5");
  EXPECT_EQ(t.events.ph[2], 'N');
  EXPECT_EQ(t.args.find(t.events.args[2], "event.id"), "\"0xfe\"");
  EXPECT_EQ(t.args.find(t.events.args[3], "event.tts"), "5");
  EXPECT_EQ(t.args.find(t.events.args[3], "event.cname"), "\"red\"");
}

}  // namespace
}  // namespace foretrace::test
