// Every argument of the format keeps its value: ids in columns and side tables, the rest in interned tuples with typed
// rows. (tests/python/test_nothing_lost.py checks the same over whole real traces.)

#include "kineto_helpers.hpp"

namespace foretrace::test {
namespace {

using testing::ElementsAre;
using trace::kAbsent;
using trace::Trace;

std::string event(std::string_view cat, std::string_view args, std::string_view name = "n") {
  std::string s = "{\"ph\": \"X\", \"cat\": \"";
  s.append(cat).append("\", \"name\": \"").append(name);
  return s.append("\", \"pid\": 0, \"tid\": 7, \"ts\": 1, \"dur\": 2, \"args\": ").append(args).append("}");
}

TEST(KinetoArgs, Kernel) {
  const Trace t = must_load(wrap(event("kernel", R"({
      "External id": 15, "queued": 0, "device": 1, "context": 2, "stream": 7, "correlation": 63343,
      "registers per thread": 64, "shared memory": 2304, "blocks per SM": 380.121216, "warps per SM": 760.242432,
      "grid": [25088, 2, 1], "block": [8, 8, 1], "est. achieved occupancy %": 50, "graph id": 3, "graph node id": 99,
      "priority": -5, "channel": 4, "channel_type": "compute"})")));
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t.events.external_id[0], 15);
  EXPECT_EQ(t.events.correlation[0], 63343);
  const trace::KernelLaunch* k = t.launch(0);
  ASSERT_NE(k, nullptr);
  EXPECT_EQ(k->device, 1);
  EXPECT_EQ(k->context, 2);
  EXPECT_EQ(k->stream, 7);
  EXPECT_THAT(k->grid, ElementsAre(25088, 2, 1));
  EXPECT_THAT(k->block, ElementsAre(8, 8, 1));
  EXPECT_EQ(k->registers_per_thread, 64);
  EXPECT_EQ(k->shared_memory_bytes, 2304);
  EXPECT_EQ(k->blocks_per_sm, 380.121216);
  EXPECT_EQ(k->warps_per_sm, 760.242432);
  EXPECT_EQ(k->occupancy_pct, 50);
  EXPECT_EQ(k->graph_id, 3);
  EXPECT_EQ(k->graph_node_id, 99);
  EXPECT_EQ(k->priority, -5);
  EXPECT_EQ(t.args.find(t.events.args[0], "queued"), "0");
  EXPECT_EQ(t.args.find(t.events.args[0], "channel_type"), "\"compute\"");
  EXPECT_EQ(t.args.find(t.events.args[0], "no such key"), std::nullopt);
}

TEST(KinetoArgs, CopyAndFill) {
  const Trace t = must_load(wrap(
      event(
          "gpu_memcpy",
          R"json({"External id": 5, "device": 0, "context": 1, "stream": 7, "correlation": 63312, "bytes": 38535168, "memory bandwidth (GB/s)": 55.381898454746135, "fromDevice": 0, "toDevice": 1})json") +
      "," +
      event("gpu_memset",
            R"json({"device": 0, "stream": 7, "correlation": 8, "bytes": 4, "memory bandwidth (GB/s)": 0})json")));
  ASSERT_EQ(t.size(), 2u);
  ASSERT_NE(t.copy(0), nullptr);
  EXPECT_EQ(t.copy(0)->bytes, 38535168);
  EXPECT_EQ(t.copy(0)->gbytes_per_s, 55.381898454746135);
  EXPECT_EQ(t.args.find(t.events.args[0], "toDevice"), "1");
  ASSERT_NE(t.copy(1), nullptr);
  EXPECT_EQ(t.copy(1)->bytes, 4);
  EXPECT_EQ(t.op(1), nullptr) << "the wrong side table is never handed out";
}

TEST(KinetoArgs, Operation) {
  const Trace t = must_load(wrap(event(
      "cpu_op",
      R"({"External id": 1538, "Sequence number": 9844, "Fwd thread id": 1, "Record function id": 12, "Concrete Inputs": ["", "[2, 2]"], "Input type": ["float", "ScalarList"], "Input Strides": [[9, 3], []], "Input Dims": [[3, 3], []], "Ev Idx": 1, "Call stack": "a.py(1): f;b.py(2): g", "Module Hierarchy": "top.layer1"})")));
  ASSERT_EQ(t.size(), 1u);
  const trace::OpIds* op = t.op(0);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->sequence_number, 9844);
  EXPECT_EQ(op->record_function_id, 12);
  EXPECT_EQ(op->event_index, 1);
  EXPECT_EQ(t.events.external_id[0], 1538);
  const ArgsId args = t.events.args[0];
  EXPECT_EQ(t.args.fwd_thread(args), 1);
  const trace::OpInputs* inputs = t.args.inputs(args);
  ASSERT_NE(inputs, nullptr);
  EXPECT_THAT(trace::parse_shapes(t.strings[inputs->dims]), ElementsAre(ElementsAre(3, 3), testing::IsEmpty()));
  EXPECT_THAT(trace::parse_shapes(t.strings[inputs->strides]), ElementsAre(ElementsAre(9, 3), testing::IsEmpty()));
  EXPECT_THAT(trace::parse_strings(t.strings[inputs->types]), ElementsAre("float", "ScalarList"));
  EXPECT_THAT(trace::parse_strings(t.strings[inputs->concrete]), ElementsAre("", "[2, 2]"));
  EXPECT_EQ(t.args.find(args, "Call stack"), "\"a.py(1): f;b.py(2): g\"");
  EXPECT_EQ(t.args.find(args, "Module Hierarchy"), "\"top.layer1\"");
}

TEST(KinetoArgs, Memory) {
  const Trace t = must_load(wrap(
      R"({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 400, "tid": 442, "ts": 1.516, "args": {"Total Reserved": 6845104128, "Total Allocated": 5890819072, "Bytes": -512, "Device Id": 0, "Device Type": 1, "Addr": 139796605274624, "finished": false, "Ev Idx": 3148}})"));
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t.kind(0), trace::EventKind::kMemory);
  const trace::MemoryIds* m = t.memory(0);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->address, 139796605274624);
  EXPECT_EQ(m->bytes, -512);
  EXPECT_EQ(m->total_allocated, 5890819072);
  EXPECT_EQ(m->total_reserved, 6845104128);
  EXPECT_EQ(m->event_index, 3148);
  EXPECT_EQ(t.args.find(t.events.args[0], "finished"), "false");
  EXPECT_EQ(t.args.find(t.events.args[0], "Device Type"), "1");
  EXPECT_EQ(t.args.find(t.events.args[0], "event.s"), "\"t\"");
}

TEST(KinetoArgs, Synchronisation) {
  const Trace t = must_load(wrap(
      event(
          "cuda_sync",
          R"({"cuda_sync_kind": "Stream Wait Event", "stream": 20, "correlation": 31, "device": 0, "context": 1, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": -1, "wait_on_cuda_event_id": 55})") +
      "," + event("cuda_event", R"({"event_id": 55, "stream": 7, "correlation": 30, "device": 0, "context": 1})")));
  ASSERT_EQ(t.size(), 2u);
  ASSERT_NE(t.sync(0), nullptr);
  EXPECT_EQ(t.sync(0)->event_id, 55);
  EXPECT_EQ(t.sync(0)->record_correlation, -1);
  const trace::SyncInfo* info = t.args.sync(t.events.args[0]);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(t.strings[info->kind], "Stream Wait Event");
  EXPECT_EQ(info->stream, 20);
  EXPECT_EQ(info->wait_on_stream, 7);
  ASSERT_NE(t.sync(1), nullptr);
  EXPECT_EQ(t.sync(1)->event_id, 55);
  EXPECT_EQ(t.sync(1)->record_correlation, kAbsent);
}

TEST(KinetoArgs, Collective) {
  const Trace t = must_load(wrap(event(
      "kernel",
      R"({"Collective name": "allreduce", "In msg nelems": 25557032, "Out msg nelems": 25557032, "Group size": 4, "dtype": "Float", "In split size": "[]", "Out split size": "[]", "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3]", "Seq": 41, "Comms Id": 77, "stream": 27, "device": 0, "correlation": 9, "grid": [8, 1, 1], "block": [512, 1, 1]})",
      "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")));
  ASSERT_EQ(t.size(), 1u);
  const trace::CollectiveInfo* c = t.args.collective(t.events.args[0]);
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(t.strings[c->name], "allreduce");
  EXPECT_EQ(t.strings[c->dtype], "Float");
  EXPECT_EQ(t.strings[c->group], "0");
  EXPECT_EQ(t.strings[c->group_ranks], "[0, 1, 2, 3]");
  EXPECT_EQ(c->in_elements, 25557032);
  EXPECT_EQ(c->out_elements, 25557032);
  EXPECT_EQ(c->group_size, 4);
  EXPECT_EQ(c->sequence, 41);
  ASSERT_NE(t.launch(0), nullptr);
  EXPECT_EQ(t.args.find(t.events.args[0], "Comms Id"), "77");
}

TEST(KinetoArgs, PythonFrames) {
  const Trace t = must_load(
      wrap(event("python_function", R"({"Python parent id": null, "Python id": 1, "Ev Idx": 5})", "a.py(1): f") + "," +
           event("python_function", R"({"Python parent id": 1, "Python id": 2, "Ev Idx": 6, "Python module id": 3})",
                 "nn.Module: Conv2d_0")));
  ASSERT_EQ(t.size(), 2u);
  ASSERT_NE(t.python(0), nullptr);
  EXPECT_EQ(t.python(0)->id, 1);
  EXPECT_EQ(t.python(0)->parent_id, kAbsent);
  EXPECT_EQ(t.args.find(t.events.args[0], "Python parent id"), "null");
  EXPECT_EQ(t.python(1)->parent_id, 1);
  EXPECT_EQ(t.python(1)->event_index, 6);
  EXPECT_EQ(t.args.find(t.events.args[1], "Python module id"), "3");
}

TEST(KinetoArgs, RuntimeCallsShareTheirTuples) {
  const Trace t = must_load(wrap(event("cuda_runtime", R"({"External id": 5, "cbid": 211, "correlation": 1})") + "," +
                                 event("cuda_runtime", R"({"External id": 6, "cbid": 211, "correlation": 2})") + "," +
                                 event("cuda_runtime", R"({"cbid": 211, "correlation": 3})")));
  ASSERT_EQ(t.size(), 3u);
  EXPECT_EQ(t.events.args[0], t.events.args[1]);
  EXPECT_EQ(t.events.args[0], t.events.args[2]);
  EXPECT_EQ(t.args.find(t.events.args[0], "cbid"), "211");
  EXPECT_EQ(t.events.external_id[2], kAbsent);
  EXPECT_THAT(t.events.correlation, ElementsAre(1, 2, 3));
}

TEST(KinetoArgs, IdsOnKindsWithoutAColumnStayInTheTuple) {
  const Trace t = must_load(wrap(event("kernel", R"({"Ev Idx": 4, "Sequence number": 5, "stream": 7, "device": 0})")));
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t.args.find(t.events.args[0], "Ev Idx"), "4");
  EXPECT_EQ(t.args.find(t.events.args[0], "Sequence number"), "5");
}

TEST(KinetoArgs, IdsThatAreNoIntegersStayInTheTuple) {
  const Trace t =
      must_load(wrap(event("kernel", R"({"correlation": "abc", "External id": 1.5, "stream": 7, "device": 0})") + "," +
                     event("kernel", R"({"correlation": 99999999999999999999, "External id": null, "device": 0})")));
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t.events.correlation[0], kAbsent);
  EXPECT_EQ(t.args.find(t.events.args[0], "correlation"), "\"abc\"");
  EXPECT_EQ(t.args.find(t.events.args[0], "External id"), "1.5");
  EXPECT_EQ(t.events.correlation[1], kAbsent);
}

TEST(KinetoArgs, ArgumentsThatAreNotValidJsonAreKeptAsText) {
  const Trace t =
      must_load(wrap(event("kernel", R"json({"correlation": 3, "memory bandwidth (GB/s)": nan, "device": 0})json")));
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t.events.correlation[0], 3);
  EXPECT_THAT(std::string(t.args.text(t.events.args[0])), testing::HasSubstr("nan"));
}

TEST(KinetoArgs, Flows) {
  const Trace t = must_load(wrap(
      R"({"ph": "s", "id": 63312, "pid": 400, "tid": 400, "ts": 1, "cat": "ac2g", "name": "ac2g"},
         {"ph": "f", "id": 63312, "pid": 0, "tid": 7, "ts": 2, "cat": "ac2g", "name": "ac2g", "bp": "e"})"));
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t.kind(0), trace::EventKind::kFlowStart);
  EXPECT_EQ(t.kind(1), trace::EventKind::kFlowEnd);
  EXPECT_THAT(t.events.correlation, ElementsAre(63312, 63312));
  EXPECT_EQ(t.args.find(t.events.args[1], "event.bp"), "\"e\"");
}

TEST(KinetoArgs, ANumberThatContinuesTheOneBeforeItIsAnotherOne) {
  // The same name with nearly the same arguments, again and again: 16 must not be taken for the beginning of 161.
  std::string events;
  for (const int stream : {7, 16, 7, 161, 7, 1, 7, 16}) {
    if (!events.empty()) events += ",";
    events += event("kernel", R"({"correlation": 3, "stream": )" + std::to_string(stream) + R"(, "External id": 5})");
  }
  const Trace t = must_load(wrap(events));
  std::vector<std::string> streams;
  for (std::size_t e = 0; e < t.size(); ++e)
    streams.push_back(t.args.find(t.events.args[e], "stream").value_or("none"));
  EXPECT_THAT(streams, ElementsAre("7", "16", "7", "161", "7", "1", "7", "16"));
}

}  // namespace
}  // namespace foretrace::test
