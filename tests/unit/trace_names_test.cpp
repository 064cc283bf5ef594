// What names tell: communication of every library, roles of calls, ranges of old schemas, makers of GPUs.

#include <gtest/gtest.h>

#include "analysis/names.hpp"
#include "foretrace/hardware/device.hpp"
#include "graph/call_roles.hpp"
#include "trace/communication.hpp"
#include "trace/gpu.hpp"
#include "trace/ranges.hpp"
#include "trace_maker.hpp"
#include "work/op_names.hpp"

namespace foretrace::test {
namespace {

TEST(Communication, KernelsOfEveryLibraryCount) {
  for (const char* name :
       {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllGather_RING_LL_Sum_int8_t", "void deep_ep::internode_ll::dispatch<true, false>(void*, float*)",
        "nvshmemi_barrier_all_kernel", "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "void sglang::cross_device_reduce_2stage<__half, 4>(RankData*)",
        "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half, 8>, true>, __half>",
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true, false>",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1, __nv_bfloat16>",
        "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>",
        "multimem_all_reduce_kernel", "mscclKernel_Sum_half_Simple_false", "rccl_something"}) {
    EXPECT_TRUE(trace::is_communication_kernel(name)) << name;
    EXPECT_EQ(work::family_of_kernel(name), work::Family::kCommunication) << name;
    EXPECT_EQ(analysis::classify_name(name), analysis::NameClass::kCommunication) << name;
  }
  for (const char* name : {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
                           "ampere_sgemm_128x64_nn", "triton_red_fused_native_layer_norm_0", "splitKreduce_kernel",
                           "void at::native::vectorized_gather_kernel<16, long>(char*)"}) {
    EXPECT_FALSE(trace::is_communication_kernel(name)) << name;
  }
  EXPECT_TRUE(trace::is_communication_range("nccl:all_reduce"));
  EXPECT_TRUE(trace::is_communication_range("_c10d_functional::all_reduce"));
  EXPECT_FALSE(trace::is_communication_range("aten::all"));
}

TEST(Communication, ACustomAllReduceIsACollectiveOfTheGraph) {
  TraceMaker m;
  m.step(1, 0, 100'000).launch(1, {10'000, 12'000}, "vllm::cross_device_reduce_1stage<float, 8>", {20'000, 40'000});
  const Replay r(m);
  EXPECT_EQ(r.graph.kind[r.task("vllm::cross_device_reduce_1stage<float, 8>")], graph::TaskKind::kCollective);
}

TEST(CallRoles, CudaDriverAndHipShareTheirVerbs) {
  using graph::CallRole;
  for (const char* maker : {"cuda", "cu", "hip"}) {
    const auto kind = [&](const char* verb) { return graph::kind_of_call(std::string(maker) + verb); };
    EXPECT_EQ(kind("StreamSynchronize").role, CallRole::kStreamSync);
    EXPECT_EQ(kind("EventSynchronize").role, CallRole::kEventSync);
    EXPECT_EQ(kind("EventRecordWithFlags").role, CallRole::kRecord);
    EXPECT_EQ(kind("StreamWaitEvent").role, CallRole::kStreamWait);
    EXPECT_TRUE(kind("LaunchKernel").launches);
    EXPECT_TRUE(kind("GraphLaunch").graph);
    EXPECT_TRUE(kind("Memcpy").blocks);
    EXPECT_FALSE(kind("MemcpyAsync").blocks);
    EXPECT_TRUE(kind("MemcpyAsync").copies);
  }
  EXPECT_EQ(graph::kind_of_call("hipDeviceSynchronize").role, CallRole::kDeviceSync);
  EXPECT_EQ(graph::kind_of_call("cuCtxSynchronize").role, CallRole::kDeviceSync);
  for (const char* name :
       {"hipMemcpyWithStream", "hipMemcpyDtoH", "hipMemcpyHtoD", "cuMemcpyDtoH_v2", "cudaMemcpy2D"}) {
    EXPECT_TRUE(graph::waits_for_gpu(graph::kind_of_call(name))) << name;
  }
  for (const char* name : {"hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipExtLaunchKernel",
                           "cudaLaunchKernelExC", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel"}) {
    EXPECT_TRUE(graph::kind_of_call(name).launches) << name;
  }
  for (const char* name :
       {"hipMemcpyDtoHAsync", "cudaMalloc", "custom", "cublasCreate", "", "hip", "cudaLaunchHostFunc"}) {
    EXPECT_FALSE(graph::waits_for_gpu(graph::kind_of_call(name))) << name;
  }
}

// A HIP copy to the host blocks: what follows waits for the kernel in front of it, in a what-if too.
TEST(CallRoles, AHipCopyThatBlocksIsAWait) {
  for (const char* call : {"hipMemcpyWithStream", "hipMemcpyDtoH", "hipMemcpyAsync"}) {
    TraceMaker m;
    m.step(1, 0, 300'000);
    m.call("hipLaunchKernel", {10'000, 12'000}, 1).kernel(1, "long", {20'000, 220'000});
    m.call(call, {30'000, 230'000}, 2).copy(2, "Memcpy DtoH (Device -> Host)", {221'000, 225'000});
    m.op("aten::add", 235'000, 295'000);
    const Replay r(m);
    EXPECT_NEAR(static_cast<double>(r.step()), 300'000, 3'000) << call;
    EXPECT_LT(r.with("long", 20'000).step(), 140'000) << call;
  }
}

TEST(OldSchema, RangesAmongOperationsAreRanges) {
  TraceMaker m;
  m.event("Operator", "ProfilerStep#5", 1, 1, {0, 200'000}, "");
  m.event("Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 1, {1'000, 100'000}, "");
  m.event("Operator", "aten::empty", 1, 1, {2'000, 3'000}, "");
  m.event("Operator", "aten::stack", 1, 1, {90'000, 95'000}, "");
  m.event("Operator", "aten::conv2d", 1, 1, {110'000, 130'000}, "");
  m.event("Runtime", "cudaLaunchKernel", 1, 1, {115'000, 117'000}, "\"correlation\":1");
  m.event("Kernel", "conv", 0, 7, {120'000, 150'000}, "\"stream\":7,\"device\":0,\"correlation\":1");
  m.event("Operator", "CudnnConvolutionBackward", 1, 2, {135'000, 160'000}, "");
  m.event("Runtime", "cudaLaunchKernel", 1, 2, {140'000, 142'000}, "\"correlation\":2");
  m.event("Kernel", "dgrad", 0, 7, {150'000, 170'000}, "\"stream\":7,\"device\":0,\"correlation\":2");
  m.event("Operator", "Optimizer.step#SGD.step", 1, 1, {170'000, 190'000}, "");
  m.event("Operator", "aten::add_", 1, 1, {171'000, 172'000}, "");
  const trace::Trace t = m.load();
  std::size_t ranges = 0;
  for (std::size_t e = 0; e < t.size(); ++e) ranges += t.kind(e) == trace::EventKind::kAnnotation ? 1U : 0U;
  EXPECT_EQ(ranges, 3U);
  const Replay r(m);
  EXPECT_EQ(r.graph.phase[r.task("aten::stack")], graph::Phase::kData);
  EXPECT_EQ(r.graph.phase[r.task("aten::conv2d")], graph::Phase::kForward);
  EXPECT_EQ(r.graph.phase[r.task("dgrad")], graph::Phase::kBackward);
  EXPECT_EQ(r.graph.phase[r.task("aten::add_")], graph::Phase::kOptimizer);
  for (const graph::Layer& layer : r.graph.layers) {
    EXPECT_EQ(r.graph.strings[layer.name].find("ProfilerStep"), std::string_view::npos);
  }
  const simulate::Breakdown b = simulate::breakdown(r.graph, simulate::simulate(r.graph));
  EXPECT_GT(b.exposed_loading, 90'000);
  const simulate::Bottleneck bound = simulate::bottleneck(r.graph);
  EXPECT_GT(bound.loading, bound.cpu) << bound.sentence();
}

TEST(OldSchema, WithoutNodesBackwardIsFoundByItsThread) {
  TraceMaker m;
  m.step(1, 0, 300'000);
  m.op("aten::linear", 1'000, 40'000).launch(1, {10'000, 12'000}, "forward", {15'000, 60'000});
  m.thread(2).op("aten::mm", 60'000, 100'000).launch(2, {70'000, 72'000}, "backward", {80'000, 120'000});
  m.thread(1).range("Optimizer.step#SGD.step", 150'000, 200'000);
  m.op("aten::add_", 151'000, 199'000).launch(3, {160'000, 162'000}, "update", {165'000, 170'000});
  const Replay r(m);
  EXPECT_EQ(r.graph.phase[r.task("forward")], graph::Phase::kForward);
  EXPECT_EQ(r.graph.phase[r.task("backward")], graph::Phase::kBackward);
  EXPECT_EQ(r.graph.phase[r.task("update")], graph::Phase::kOptimizer);
}

TEST(OldSchema, AutogradNodesByTheirClass) {
  for (const char* name : {"autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward", "NllLossBackward0",
                           "torch::autograd::AccumulateGrad", "torch::autograd::CopyBackwards"}) {
    EXPECT_TRUE(trace::is_autograd_node(name)) << name;
  }
  for (const char* name : {"aten::nll_loss_backward", "aten::linear", "Backward pass", "mylib::FooBackward"}) {
    EXPECT_FALSE(trace::is_autograd_node(name)) << name;
  }
}

trace::Trace with_device(std::string_view properties, std::string_view metadata = "") {
  const std::string json = fmt::format(
      R"({{"schemaVersion":1,{}"deviceProperties":[{}],"traceEvents":[
{{"ph":"X","cat":"kernel","name":"k","pid":9,"tid":0,"ts":1,"dur":2,"args":{{"device":9,"stream":0}}}}]}})",
      metadata, properties);
  Result<trace::Trace> t = trace::load_bytes(json, "made.json", {});
  EXPECT_TRUE(t) << t.error().to_string();
  return std::move(*t);
}

constexpr std::string_view kCdna2 =
    R"({"id":0,"name":"","totalGlobalMem":85899345920,"computeMajor":9,"computeMinor":0,"warpSize":64,"numSms":114})";

TEST(GpuVendor, AnAmdTraceIsNeverTakenForNvidia) {
  // By its numbers this could be an H100-PCIe.
  const trace::Trace t = with_device(kCdna2, R"("hip_runtime_version":60443483,)");
  EXPECT_EQ(trace::gpu_vendor(t), trace::GpuVendor::kAmd);
  const auto match = hardware::device_of(t);
  if (match) {
    EXPECT_EQ(match->device.vendor, "amd") << match->how;
  }
  EXPECT_EQ(trace::gpu_vendor(with_device(kCdna2)), trace::GpuVendor::kAmd) << "waves of 64";
}

TEST(GpuVendor, ArchitecturesNameAmdDevices) {
  const trace::Trace t = with_device(
      R"({"id":0,"name":"gfx942:sramecc+:xnack-","totalGlobalMem":206141652992,"computeMajor":9,"computeMinor":4,"warpSize":64,"numSms":304})");
  const auto match = hardware::device_of(t);
  ASSERT_TRUE(match) << match.error().to_string();
  EXPECT_EQ(match->device.name, "MI300X");
  EXPECT_NE(match->how.find("architecture"), std::string::npos);
  // The only GPU the file describes, though it is numbered otherwise.
  EXPECT_NE(trace::properties_of(t, 9), nullptr);
}

TEST(GpuVendor, AnUnknownMinorVersionFallsBackWithinItsMajorOne) {
  const trace::Trace t = with_device(
      R"({"id":0,"name":"NVIDIA Something New","totalGlobalMem":50000000000,"computeMajor":8,"computeMinor":8,"warpSize":32,"numSms":84})");
  const auto match = hardware::device_of(t);
  ASSERT_TRUE(match) << match.error().to_string();
  EXPECT_EQ(match->device.compute_major, 8);
  EXPECT_EQ(match->device.sm_count, 84);
}

TEST(GpuVendor, NvidiaStaysNvidia) {
  const trace::Trace t = with_device(
      R"({"id":0,"name":"NVIDIA Something New","totalGlobalMem":85899345920,"computeMajor":9,"computeMinor":0,"warpSize":32,"numSms":114})");
  EXPECT_EQ(trace::gpu_vendor(t), trace::GpuVendor::kNvidia);
  const auto match = hardware::device_of(t);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->device.name, "H100-PCIe");
  EXPECT_EQ(trace::properties_of(t, 9), nullptr) << "CUPTI numbers GPUs as the file does";
}

}  // namespace
}  // namespace foretrace::test
