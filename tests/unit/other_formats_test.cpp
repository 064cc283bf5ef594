// What is peculiar to Nsight's and XLA's files: texts of NVTX ranges, scopes and details as XLA spells them, protocol buffers,
// sources that are read here and there, the GPU's clock. Whole files are in tests/formats.

#include <gtest/gtest.h>

#include <random>

#include "base/seekable_source.hpp"
#include "compress.hpp"
#include "foretrace/trace/load.hpp"
#include "trace/compiled_op.hpp"
#include "trace/importers/device_clock.hpp"
#include "trace/importers/event_rows.hpp"
#include "trace/importers/hlo_match.hpp"
#include "trace/importers/nvtx_text.hpp"
#include "trace/importers/proto_wire.hpp"
#include "trace/importers/xla_names.hpp"
#include "trace/parts.hpp"
#include "work/describe_compiled.hpp"

namespace foretrace::trace {
namespace {

TEST(NvtxText, TellsOperationsFromRanges) {
  const NvtxText op = parse_nvtx(
      "aten::mm, seq = 45368, op_id = 990812, sizes = [[2048, 768], [768, 2304], []], input_op_ids = [(9,0)]");
  EXPECT_TRUE(op.op);
  EXPECT_EQ(op.name, "aten::mm");
  EXPECT_EQ(op.sequence, 45368);
  EXPECT_EQ(op.operation, 990812);
  EXPECT_EQ(op.sizes, "[[2048, 768], [768, 2304], []]");
  EXPECT_TRUE(parse_nvtx("AddmmBackward0, seq = 3").op);
  EXPECT_TRUE(parse_nvtx("autograd::engine::evaluate_function: AddmmBackward0, op_id = 4").op);
  for (const char* text : {"forward pass", "FSDP::pre_forward (blocks.9), op_id = 994208", "nccl:all_to_all, op_id = 3",
                           "step 12, op_id = 4", "Optimizer.step#SGD.step, op_id = 5", "layer:a|Linear"}) {
    EXPECT_FALSE(parse_nvtx(text).op) << text;
  }
  EXPECT_EQ(parse_nvtx("a, b, c").name, "a, b, c");
}

TEST(NvtxText, KeepsOnlySizesThatAreJson) {
  for (const char* sizes : {"[[1, 2]", "[[1,, 2]]", "[[1 2]]", "[[-1]]", "[1]]x", "[[1],]", "[[1]2]", "nonsense"}) {
    const std::string text = std::string("aten::mm, sizes = ") + sizes;
    const std::string_view kept = parse_nvtx(text).sizes;
    EXPECT_TRUE(kept.empty() || kept == "[1]") << sizes;
  }
}

TEST(XlaNames, ReadDetails) {
  const XlaKernelDetails d =
      parse_kernel_details("regs:21 static_shared:32 dynamic_shared:64 grid:512,2,1 block:256,1,1 occ_pct:62.5");
  EXPECT_EQ(d.registers, 21);
  EXPECT_EQ(d.shared_memory, 96);
  EXPECT_EQ(d.grid[1], 2);
  EXPECT_EQ(d.occupancy, 62.5);
  const XlaCopyDetails c = parse_copy_details("kind_src:pinned kind_dst:device size:4096 dest:0 async:1");
  EXPECT_EQ(c.bytes, 4096);
  EXPECT_EQ(xla_copy_name("MemcpyH2D", c), "Memcpy HtoD (Pinned -> Device)");
  EXPECT_EQ(xla_stream("Stream #14(Compute,Memset)"), 14);
  EXPECT_EQ(xla_stream("XLA Ops"), std::nullopt);
  EXPECT_EQ(xla_call_name("cuGraphLaunch (CudaGraph:251)"), "cuGraphLaunch");
  EXPECT_EQ(xla_number("$$12"), 12);
}

TEST(HloScopes, GiveLayerAndPhase) {
  const HloScope forward = parse_scope("jit(step)/jvp(block0)/jit(_var)/reduce_sum");
  EXPECT_EQ(forward.layer, "block0");
  EXPECT_TRUE(forward.forward);
  const HloScope backward = parse_scope("jit(step)/transpose(jvp(Model))/layer_3/attention/dot_general");
  EXPECT_EQ(backward.layer, "Model/layer_3/attention");
  EXPECT_TRUE(backward.backward);
  EXPECT_FALSE(backward.forward);
  const HloScope update = parse_scope("jit(step)/sub");
  EXPECT_TRUE(update.layer.empty() && !update.forward && !update.backward);
  EXPECT_TRUE(parse_scope("").layer.empty());
  EXPECT_TRUE(parse_scope(")))((/").layer.size() < 8);
}

TEST(ProtoWire, StopsAtWhatIsNoMessage) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 64, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    std::size_t fields = 0;
    ProtoWire w(bytes);
    while (w.next()) ++fields;
    EXPECT_LE(fields, bytes.size());
    auto source = memory_source(bytes);
    ASSERT_TRUE(source);
    auto seekable = make_seekable(**source);
    ASSERT_TRUE(seekable);
    ProtoFile file(**seekable);
    ProtoCursor c(file, 0, file.size());
    std::size_t same = 0;
    while (c.next()) ++same;
    // A cursor reports the field that is cut, a wire does not.
    EXPECT_LE(same, fields + 1);
    EXPECT_GE(same + 1, fields);
  }
}

TEST(SeekableSource, IsTheSameForAnyForm) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i);
  for (const std::string& form : {text, test::gzip(text)}) {
    auto source = memory_source(form);
    ASSERT_TRUE(source);
    auto seekable = make_seekable(**source);
    ASSERT_TRUE(seekable);
    EXPECT_EQ((*seekable)->size(), text.size());
    for (const std::size_t at : {std::size_t{0}, std::size_t{12'345}, text.size() - 3, text.size() + 9}) {
      std::string part(10, '\0');
      const auto got = (*seekable)->read_at(at, part.data(), part.size());
      ASSERT_TRUE(got);
      EXPECT_EQ(part.substr(0, *got), at < text.size() ? text.substr(at, 10) : "");
    }
  }
}

TEST(Parts, AreNamedBehindAHash) {
  EXPECT_EQ(part_of_file("run.sqlite#3").file, "run.sqlite");
  EXPECT_EQ(part_of_file("run.sqlite#3").part, 3U);
  EXPECT_FALSE(part_of_file("run.sqlite").part);
  EXPECT_FALSE(part_of_file("run#a").part);
  EXPECT_FALSE(part_of_file("#3").part);
  EXPECT_FALSE(part_of_file("run#12345678901234567890").part);
}

TEST(Parts, OfAFileThatHasOneAreRefused) {
  const auto trace = load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz#2");
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, ErrorCode::kUsage);
}

// Waits that return 4 us before the work they waited for ended: the GPU's clock is ahead.
TEST(DeviceClock, IsPutOnTheCpus) {
  for (const Ns ahead : {Ns{0}, Ns{5'000}}) {
    Trace trace;
    EventRows rows(trace);
    const auto call = rows.category("cuda_runtime", EventKind::kRuntime);
    const auto kernel = rows.category("kernel", EventKind::kKernel);
    const auto sync = rows.category("cuda_sync", EventKind::kSync);
    const LaneId thread = rows.lane(LaneKind::kCpuThread, 1, 1);
    const LaneId stream = rows.lane(LaneKind::kGpuStream, 0, 7);
    const auto add = [&](std::uint16_t category, LaneId lane, const char* name, Ns start, Ns end, std::int64_t id) {
      EventRow row;
      row.start = start;
      row.duration = end - start;
      row.name = trace.strings.intern(name);
      row.lane = lane;
      row.category = category;
      row.correlation = id;
      rows.add(row);
    };
    for (std::int64_t i = 0; i < 10; ++i) {
      const Ns t = i * 1'000'000;
      add(call, thread, "cudaLaunchKernel", t, t + 5'000, 2 * i);
      add(kernel, stream, "k", t + 9'000 + ahead, t + 209'000 + ahead, 2 * i);
      add(call, thread, "cudaStreamSynchronize", t + 6'000, t + 210'500, 2 * i + 1);
      add(sync, stream, "Stream Sync", t + 6'000, t + 210'000, 2 * i + 1);
    }
    trace.args.decode(trace.strings);
    align_device_clock(trace);
    EXPECT_EQ(trace.diagnostics.find("device_clock") != nullptr, ahead > 0);
    for (std::uint32_t e = 0; e < trace.size(); ++e) {
      if (trace.kind(e) != EventKind::kKernel) continue;
      EXPECT_LE(trace.end(e), trace.events.start[e] / 1'000'000 * 1'000'000 + 210'500);
      EXPECT_GE(trace.events.start[e] % 1'000'000, 0);
    }
  }
}

// Work that starts long before its call: a clock of its own where it is much of the work, rows that went wrong where it is little.
TEST(DeviceClock, AFewRowsThatWentWrongLeaveItAlone) {
  for (const std::int64_t early : {4, 20}) {
    Trace trace;
    EventRows rows(trace);
    const auto call = rows.category("cuda_runtime", EventKind::kRuntime);
    const auto kernel = rows.category("kernel", EventKind::kKernel);
    for (std::int64_t i = 0; i < 100; ++i) {
      const Ns t = (i + 1) * 1'000'000;
      EventRow row{.start = t, .duration = 5'000, .name = trace.strings.intern("cudaLaunchKernel")};
      row.lane = rows.lane(LaneKind::kCpuThread, 1, 1);
      row.category = call;
      row.correlation = i;
      rows.add(row);
      row.start = i < early ? t - 300'000 : t + 9'000;
      row.lane = rows.lane(LaneKind::kGpuStream, 0, 7);
      row.category = kernel;
      rows.add(row);
    }
    trace.args.decode(trace.strings);
    align_device_clock(trace);
    EXPECT_EQ(trace.diagnostics.find("clock_domains") != nullptr, early == 20);
  }
}

TEST(CompiledOp, GoesThroughArguments) {
  CompiledOp op;
  op.operation = "custom-call.81";
  op.layer = "block \"0\"\\";
  op.phase = "backward";
  op.family = "gemm";
  op.dtype = op.out_dtype = "bf16";
  op.part = 1;
  op.gemm = {1, 2048, 2304, 768};
  op.flops = 2.0 * 2048 * 2304 * 768;
  op.bytes_read = 1e6;
  op.elements = 2048 * 2304;
  Trace trace;
  const ArgsId args = trace.args.intern("{\"device\":0" + compiled_op_json(op) + "}");
  EXPECT_EQ(trace.args.decode(trace.strings), 0U);
  const auto read = compiled_op(trace, args);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->operation, op.operation);
  EXPECT_EQ(read->layer, op.layer);
  EXPECT_EQ(read->gemm, op.gemm);
  EXPECT_EQ(read->part, 1);
  const work::Work work = work::describe_compiled(*read);
  EXPECT_EQ(work.family, work::Family::kGemm);
  EXPECT_EQ(work.dtype, work::Dtype::kBf16);
  EXPECT_TRUE(work.backward);
  EXPECT_DOUBLE_EQ(work.flops, op.flops);
  EXPECT_FALSE(compiled_op(trace, trace.args.intern("{\"device\":0}")));
}

}  // namespace
}  // namespace foretrace::trace
