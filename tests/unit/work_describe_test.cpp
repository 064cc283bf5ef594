// From operations, shapes and kernels to work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "foretrace/work/work.hpp"
#include "trace_maker.hpp"
#include "work/conv_parts.hpp"
#include "work/op_names.hpp"

namespace foretrace::work {
namespace {

using ::testing::ElementsAre;

// One operation on the main thread and the kernels it launches, one after the other.
struct Made {
  Works works;
  graph::Graph graph;

  [[nodiscard]] const Work& of(std::string_view kernel) const {
    for (std::uint32_t t = 0; t < graph.size(); ++t) {
      if (graph.task_name(t) == kernel && works.of(t) != nullptr) return *works.of(t);
    }
    ADD_FAILURE() << "no kernel " << kernel;
    static const Work kNone;
    return kNone;
  }
};

Gemm gemm(const Work& w) {
  const auto* found = std::get_if<Gemm>(&w.kind);
  EXPECT_NE(found, nullptr);
  return found == nullptr ? Gemm{} : *found;
}

TEST(KernelNames, OfAmdsLibraries) {
  const std::vector<std::pair<std::string, Family>> names = {
      {"Cijk_Ailk_Bljk_SB_MT64x32x32_MI16x16x4x1_SE_1LDSB0", Family::kGemm},
      {"Custom_Cijk_Alik_Bljk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64", Family::kGemm},
      {"igemm_fwd_gtcx3_nhwc_fp16_bx0_ex0_bt256x256x32_wt32x32x8_ws1x1", Family::kConvForward},
      {"igemm_bwd_gtcx3_nhwc_fp32_bx0_ex0_bt128x128x16", Family::kConvDataGrad},
      {"igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt256x256x32", Family::kConvWeightGrad},
      {"naive_conv_ab_nonpacked_wrw_nchw_float_double_float", Family::kConvWeightGrad},
      {"miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", Family::kConvForward},
      {"void ck::kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffle<ck::GridwiseGemm>", Family::kConvForward},
      {"ck::kernel_grouped_conv_bwd_weight_xdl_cshuffle_v3<float>", Family::kConvWeightGrad},
      {"MIOpenBatchNormFwdTrainSpatial", Family::kBatchNorm},
      {"mloPoolingG", Family::kPooling},
      {"ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipeline>>", Family::kAttention},
      {"attn_fwd", Family::kAttention},
      {"ck::kernel_gemm_xdl_cshuffle_v3<DeviceGemmXdl>", Family::kGemm}};
  for (const auto& [name, family] : names) EXPECT_EQ(family_of_kernel(name), family) << name;
  EXPECT_EQ(dtype_of_kernel("Cijk_Ailk_Bljk_SB_MT64x32x32_MI16x16x4x1"), Dtype::kFp32);
  EXPECT_EQ(dtype_of_kernel("Cijk_Alik_Bljk_HHS_BH_MT128x128x32"), Dtype::kFp16);
  EXPECT_EQ(dtype_of_kernel("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV"), Dtype::kBf16);
}

class OpMaker {
 public:
  OpMaker& op(std::string_view name, std::string_view args, const std::vector<std::string>& kernels) {
    const Ns begin = at_;
    for (const std::string& k : kernels) {
      at_ += 10'000;
      maker_.launch(++correlation_, {at_ - 8'000, at_ - 5'000}, k, {gpu_, gpu_ + 4'000});
      gpu_ += 20'000;
    }
    at_ += 2'000;
    maker_.event("cpu_op", name, 1, 1, {begin, at_}, args);
    at_ += 1'000;
    return *this;
  }
  [[nodiscard]] Made make() {
    maker_.step(1, 0, gpu_ + 1'000'000);
    const trace::Trace trace = maker_.load();
    const trace::Steps steps = trace::find_steps(trace);
    Result<graph::Graph> graph = graph::GraphBuilder(trace, steps).build(0);
    if (!graph) {
      ADD_FAILURE() << graph.error().to_string();
      return {};
    }
    Made made{{}, std::move(*graph)};
    made.works = describe(trace, made.graph);
    return made;
  }

 private:
  test::TraceMaker maker_;
  Ns at_ = 10'000;
  Ns gpu_ = 100'000;
  int correlation_ = 0;
};

std::string args(std::string_view dims, std::string_view types, std::string_view strides = "",
                 std::string_view values = "") {
  std::string out = fmt::format(R"("Input Dims":{},"Input type":{})", dims, types);
  if (!strides.empty()) out += fmt::format(R"(,"Input Strides":{})", strides);
  if (!values.empty()) out += fmt::format(R"(,"Concrete Inputs":{})", values);
  return out;
}

TEST(DescribeWork, KernelsOfOneOperationShareARow) {
  const Made m =
      OpMaker()
          .op("aten::addmm",
              args("[[3072],[4096,768],[768,3072],[],[]]", R"(["c10::Half","c10::Half","c10::Half","Scalar","Scalar"])",
                   "[[1],[768,1],[1,768],[],[]]"),
              {"nvjet_sm90_hsh_256x128", "splitKreduce_kernel"})
          .make();
  ASSERT_EQ(m.works.size(), 1U);
  const Work& w = m.works[0];
  EXPECT_EQ(w.family, Family::kGemm);
  EXPECT_EQ(w.dtype, Dtype::kFp16);
  EXPECT_EQ(w.kernels, 2U);
  const Gemm g = gemm(w);
  EXPECT_EQ(g.m, 4096);
  EXPECT_EQ(g.n, 3072);
  EXPECT_EQ(g.k, 768);
  EXPECT_DOUBLE_EQ(w.flops, 2.0 * 4096 * 3072 * 768);
  EXPECT_DOUBLE_EQ(w.bytes(), 2.0 * (4096 * 768 + 768 * 3072 + 4096 * 3072));
  EXPECT_TRUE(g.b_transposed);
  EXPECT_FALSE(g.a_transposed);
}

TEST(DescribeWork, Tf32IsSeenInTheKernelsName) {
  const std::string two = args("[[64,64],[64,64]]", R"(["float","float"])");
  const Made m = OpMaker()
                     .op("aten::mm", two, {"sm90_xmma_gemm_f32f32_tf32f32_f32_tn"})
                     .op("aten::mm", two, {"sm80_xmma_gemm_f32f32_f32f32_f32_nn_ffma"})
                     .make();
  EXPECT_EQ(m.of("sm90_xmma_gemm_f32f32_tf32f32_f32_tn").dtype, Dtype::kTf32);
  EXPECT_EQ(m.of("sm80_xmma_gemm_f32f32_f32f32_f32_nn_ffma").dtype, Dtype::kFp32);
}

TEST(DescribeWork, AlignmentIsOfTheContiguousDimensions) {
  EXPECT_GE((Gemm{.m = 4095, .n = 3072, .k = 768}.alignment()), 8);  // odd rows are harmless
  EXPECT_EQ((Gemm{.m = 4096, .n = 30522, .k = 768}.alignment()), 2);
  EXPECT_EQ((Gemm{.m = 4096, .n = 768, .k = 50257}.alignment()), 1);
  Gemm g{.m = 50257, .n = 768, .k = 4096};
  EXPECT_GE(g.alignment(), 8);
  g.a_transposed = true;  // a weight gradient reads its first operand along m
  EXPECT_EQ(g.alignment(), 1);
}

// CUTLASS's kernels come with mangled names, where the element type is spelt otherwise.
TEST(DescribeWork, MangledNamesSayTf32Too) {
  const std::string name =
      "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_"
      "11threadblock22ImplicitGemmMultistageINS_4gemm9"
      "GemmShapeILi128ELi128ELi16EEENS4_52Conv2dWgradOutputGradientTileAccessIteratorOptimizedINS_"
      "11MatrixShapeILi128ELi16EEE"
      "NS_10tfloat32_tE";
  const std::string types = R"(["float","float","float","ScalarList","ScalarList","ScalarList","ScalarList",)"
                            R"("Scalar","ScalarList","Scalar","ScalarList"])";
  const Made m =
      OpMaker()
          .op("aten::convolution_backward",
              args("[[2,256,28,28],[2,2048,28,28],[256,2048,3,3],[],[],[],[],[],[],[],[]]", types, "",
                   R"(["","","","","[1, 1]","[1, 1]","[1, 1]","False","[0, 0]","1","[False, True, False]"])"),
              {name})
          .make();
  EXPECT_EQ(m.of(name).dtype, Dtype::kTf32);
}

// cuDNN's transposed operation has its output padding where the others have their stride.
TEST(DescribeWork, TransposedConvolutionsGrowByTheirStride) {
  const std::string types =
      R"(["float","float","ScalarList","ScalarList","ScalarList","ScalarList","Scalar","Scalar","Scalar","Scalar"])";
  const Made m = OpMaker()
                     .op("aten::cudnn_convolution_transpose",
                         args("[[64,512,16,16],[512,256,4,4],[],[],[],[],[],[],[],[]]", types, "",
                              R"(["","","[1, 1]","[0, 0]","[2, 2]","[1, 1]","1","True","False","False"])"),
                         {"sm90_xmma_dgrad"})
                     .make();
  const Work& w = m.of("sm90_xmma_dgrad");
  const auto& c = std::get<Convolution>(w.kind);
  EXPECT_EQ(w.family, Family::kConvDataGrad);
  EXPECT_EQ(c.stride, 2);
  EXPECT_EQ(c.input, (std::array<std::int64_t, 4>{64, 256, 32, 32}));  // of the convolution it is the gradient of
  EXPECT_EQ(c.out_h, 16);
  EXPECT_DOUBLE_EQ(w.flops, 2.0 * 64 * 512 * 16 * 16 * 256 * 16);
}

// What reads the gradient of the larger result and writes that of the smaller input is the convolution itself.
TEST(DescribeWork, TheDataGradientOfATransposedConvolutionIsAForwardOne) {
  const std::string types = R"(["float","float","float","ScalarList","ScalarList","ScalarList","ScalarList",)"
                            R"("Scalar","ScalarList","Scalar","ScalarList"])";
  const Made m = OpMaker()
                     .op("aten::convolution_backward",
                         args("[[64,256,32,32],[64,512,16,16],[512,256,4,4],[],[],[],[],[],[],[],[]]", types, "",
                              R"(["","","","","[2, 2]","[1, 1]","[1, 1]","True","[0, 0]","1","[True, True, False]"])"),
                         {"sm90_xmma_fprop", "sm90_xmma_wgrad"})
                     .make();
  const Work& data = m.of("sm90_xmma_fprop");
  const auto& c = std::get<Convolution>(data.kind);
  EXPECT_EQ(data.family, Family::kConvForward);
  EXPECT_TRUE(data.backward);
  EXPECT_EQ(c.input, (std::array<std::int64_t, 4>{64, 256, 32, 32}));
  EXPECT_EQ(c.out_channels, 512);
  EXPECT_DOUBLE_EQ(data.bytes_written, 4.0 * 64 * 512 * 16 * 16);
  EXPECT_EQ(m.of("sm90_xmma_wgrad").family, Family::kConvWeightGrad);
}

TEST(DescribeWork, VolumesAreStridedInEveryDirection) {
  const std::string types = R"(["float","float","ScalarList","ScalarList","ScalarList","Scalar"])";
  const Made m = OpMaker()
                     .op("aten::cudnn_convolution",
                         args("[[2,64,16,56,56],[128,64,3,3,3],[],[],[],[]]", types, "",
                              R"(["","","[1, 1, 1]","[2, 2, 2]","[1, 1, 1]","1"])"),
                         {"sm80_xmma_fprop"})
                     .make();
  const Work& w = m.of("sm80_xmma_fprop");
  EXPECT_EQ(std::get<Convolution>(w.kind).out_h, 8 * 28);
  EXPECT_EQ(std::get<Convolution>(w.kind).out_w, 28);
  EXPECT_DOUBLE_EQ(w.flops, 2.0 * 2 * 128 * 8 * 28 * 28 * 64 * 27);
}

TEST(DescribeWork, ConvolutionAndItsGradients) {
  const std::string types = R"(["float","float","ScalarList","ScalarList","ScalarList","Scalar"])";
  const std::string backward_types = R"(["float","float","float","ScalarList","ScalarList","ScalarList","ScalarList",)"
                                     R"("Scalar","ScalarList","Scalar","ScalarList"])";
  const Made m =
      OpMaker()
          .op("aten::cudnn_convolution",
              args("[[64,128,56,56],[256,128,3,3],[],[],[],[]]", types, "",
                   R"(["","","[1, 1]","[2, 2]","[1, 1]","1"])"),
              {"sm80_xmma_fprop"})
          .op("aten::convolution_backward",
              args("[[64,256,28,28],[64,128,56,56],[256,128,3,3],[],[],[],[],[],[],[],[]]", backward_types, "",
                   R"(["","","","[0]","[2, 2]","[1, 1]","[1, 1]","False","[0, 0]","1","[True, True, False]"])"),
              {"nchwToNhwcKernel", "sm90_xmma_dgrad", "nhwcToNchwKernel", "nchwToNhwcKernel2", "sm90_xmma_wgrad"})
          .make();
  const Work& forward = m.of("sm80_xmma_fprop");
  EXPECT_EQ(forward.family, Family::kConvForward);
  EXPECT_EQ(std::get<Convolution>(forward.kind).out_h, 28);
  EXPECT_EQ(std::get<Convolution>(forward.kind).stride, 2);
  EXPECT_DOUBLE_EQ(forward.flops, 2.0 * 64 * 256 * 28 * 28 * 128 * 9);
  const Work& data = m.of("sm90_xmma_dgrad");
  const Work& weight = m.of("sm90_xmma_wgrad");
  EXPECT_EQ(data.family, Family::kConvDataGrad);
  EXPECT_EQ(weight.family, Family::kConvWeightGrad);
  EXPECT_EQ(data.kernels, 3U);
  EXPECT_EQ(weight.kernels, 2U);
  EXPECT_DOUBLE_EQ(data.flops, forward.flops);
  EXPECT_DOUBLE_EQ(weight.flops, forward.flops);
  EXPECT_DOUBLE_EQ(weight.bytes_written, 4.0 * 256 * 128 * 9);
}

// PyTorch makes an image of height 1 of a signal, and a permuted one contiguous: both passes are of one dimension, and not channels-last.
TEST(DescribeWork, SignalsAreContiguousInBothPasses) {
  const std::string types = R"(["float","float","ScalarList","ScalarList","ScalarList","Scalar"])";
  const std::string backward_types = R"(["float","float","float","ScalarList","ScalarList","ScalarList","ScalarList",)"
                                     R"("Scalar","ScalarList","Scalar","ScalarList"])";
  const Made m = OpMaker()
                     .op("aten::cudnn_convolution",
                         args("[[1,768,1,249],[768,48,1,128],[],[],[],[]]", types, "",
                              R"(["","","[0, 64]","[1, 1]","[1, 1]","16"])"),
                         {"sm80_xmma_fprop"})
                     .op("aten::convolution_backward",
                         args("[[1,768,250],[1,768,249],[768,48,128],[],[],[],[],[],[],[],[]]", backward_types,
                              "[[192000,1,768],[191232,1,768],[6144,128,1],[],[],[],[],[],[],[],[]]",
                              R"(["","","","[0]","[1]","[64]","[1]","False","[0]","16","[True, True, False]"])"),
                         {"sm90_xmma_dgrad", "sm90_xmma_wgrad"})
                     .make();
  for (const char* kernel : {"sm80_xmma_fprop", "sm90_xmma_dgrad", "sm90_xmma_wgrad"}) {
    const auto& c = std::get<Convolution>(m.of(kernel).kind);
    EXPECT_EQ(c.dimensions, 1) << kernel;
    EXPECT_FALSE(c.channels_last) << kernel;
    EXPECT_EQ(c.out_w, 250) << kernel;
  }
}

TEST(DescribeWork, ElementwiseByTheOrderOfItsTensors) {
  const auto access = [](std::string_view dims, std::string_view types, std::string_view strides) {
    return OpMaker().op("aten::add", args(dims, types, strides), {"k"}).make().of("k").access;
  };
  EXPECT_EQ(access("[[8,4],[8,4],[]]", R"(["float","float","Scalar"])", "[[4,1],[4,1],[]]"), Access::kContiguous);
  EXPECT_EQ(access("[[8,4],[8,4],[]]", R"(["float","float","Scalar"])", "[[1,8],[1,8],[]]"), Access::kContiguous);
  EXPECT_EQ(access("[[8,4],[8,4],[]]", R"(["c10::Half","float","Scalar"])", "[[4,1],[4,1],[]]"), Access::kMixed);
  EXPECT_EQ(access("[[8,4],[4],[]]", R"(["float","float","Scalar"])", "[[4,1],[1],[]]"), Access::kStrided);
  EXPECT_EQ(access("[[8,4],[1,4],[]]", R"(["c10::Half","float","Scalar"])", "[[4,1],[4,1],[]]"), Access::kMixedStrided);
  EXPECT_EQ(access("[[8,4],[8,4],[]]", R"(["float","float","Scalar"])", "[[4,1],[1,8],[]]"), Access::kTransposed);
  // A number wrapped as a tensor is neither an operand nor a type.
  EXPECT_EQ(access("[[8,4],[],[]]", R"(["c10::Half","double","Scalar"])", "[[4,1],[],[]]"), Access::kContiguous);
}

TEST(DescribeWork, BytesOfCommonOperations) {
  const Made m =
      OpMaker()
          .op("aten::add", args("[[1000],[1000],[]]", R"(["float","float","Scalar"])"), {"add"})
          .op("aten::native_dropout", args("[[1000],[],[]]", R"(["c10::Half","Scalar","Scalar"])"), {"dropout"})
          .op("aten::copy_", args("[[1000],[1000],[]]", R"(["float","c10::Half","Scalar"])"), {"cast"})
          .op("aten::addcmul_", args("[[1000],[1000],[1000],[]]", R"(["float","float","float","Scalar"])"), {"addcmul"})
          .op("aten::native_layer_norm",
              args("[[32,100],[],[100],[100],[]]", R"(["float","ScalarList","float","float","Scalar"])", "",
                   R"(["","[100]","","",""])"),
              {"norm"})
          .op("aten::_softmax",
              args("[[32,100],[],[]]", R"(["c10::Half","Scalar","Scalar"])", "", R"(["","-1","True"])"), {"softmax"})
          .make();
  EXPECT_DOUBLE_EQ(m.of("add").bytes(), 12'000);
  EXPECT_DOUBLE_EQ(m.of("dropout").bytes(), 5'000);  // output and a mask of one byte
  EXPECT_EQ(std::get<Pointwise>(m.of("dropout").kind).arithmetic, Arithmetic::kDropout);
  EXPECT_DOUBLE_EQ(m.of("cast").bytes(), 6'000);
  EXPECT_EQ(m.of("cast").dtype, Dtype::kFp16);
  EXPECT_EQ(m.of("cast").out_dtype, Dtype::kFp32);
  EXPECT_EQ(m.of("cast").access, Access::kMixed);
  EXPECT_DOUBLE_EQ(m.of("addcmul").bytes(), 16'000);
  EXPECT_EQ(std::get<Rows>(m.of("norm").kind), (Rows{32, 100}));
  EXPECT_EQ(m.of("softmax").out_dtype, Dtype::kFp32);  // reads half, writes float
  EXPECT_DOUBLE_EQ(m.of("softmax").bytes(), 3200 * 6);
}

TEST(DescribeWork, ReductionsByMemoryOrder) {
  const auto access = [](std::string_view strides, std::string_view dims) {
    return OpMaker()
        .op("aten::sum",
            args("[[8,16,4,4],[],[],[]]", R"(["float","ScalarList","Scalar",""])", strides,
                 fmt::format(R"(["","{}","False",""])", dims)),
            {"k"})
        .make()
        .of("k")
        .access;
  };
  const std::string_view first = "[[256,16,4,1],[],[],[]]";
  const std::string_view last = "[[256,1,64,16],[],[],[]]";
  EXPECT_EQ(access(first, "[2, 3]"), Access::kContiguous);
  EXPECT_EQ(access(first, "[0]"), Access::kStrided);
  EXPECT_EQ(access(first, "[0, 2, 3]"), Access::kTransposed);
  EXPECT_EQ(access(last, "[0, 2, 3]"), Access::kStrided);
}

TEST(DescribeWork, WithoutAnOperationTheKernelsNameTells) {
  test::TraceMaker maker;
  maker.step(1, 0, 1'000'000);
  maker.launch(1, {10'000, 15'000}, "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128>", {17'000, 40'000});
  maker.launch(2, {20'000, 25'000}, "my_handwritten_kernel", {50'000, 60'000});
  const trace::Trace trace = maker.load();
  const trace::Steps steps = trace::find_steps(trace);
  Result<graph::Graph> graph = graph::GraphBuilder(trace, steps).build(0);
  ASSERT_TRUE(graph);
  const Works works = describe(trace, *graph);
  ASSERT_EQ(works.size(), 2U);
  EXPECT_EQ(works[0].family, Family::kGemm);
  EXPECT_EQ(works[1].family, Family::kOther);
}

TEST(DescribeWork, WeightGradientsSumOverTheSamples) {
  const auto mm = [](std::string_view dims) { return args(dims, R"(["float","float"])"); };
  const Made m = OpMaker()
                     .op("aten::mm", mm("[[4096,768],[768,3072]]"), {"forward"})
                     .op("autograd::engine::evaluate_function: MmBackward0", "", {})
                     .make();
  EXPECT_FALSE(gemm(m.of("forward")).weight_grad);
  // The phase comes from the graph; here it is set by hand.
  test::TraceMaker maker;
  maker.step(1, 0, 1'000'000);
  maker.event("cpu_op", "aten::mm", 1, 1, {10'000, 20'000}, mm("[[4096,768],[768,3072]]"));
  maker.launch(1, {12'000, 15'000}, "forward", {30'000, 40'000});
  maker.event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 1, 1, {40'000, 90'000}, "");
  maker.event("cpu_op", "aten::mm", 1, 1, {50'000, 60'000}, mm("[[4096,3072],[3072,768]]"));
  maker.launch(2, {52'000, 55'000}, "samples", {60'000, 70'000});
  maker.event("cpu_op", "aten::mm", 1, 1, {65'000, 75'000}, mm("[[768,4096],[4096,3072]]"));
  maker.launch(3, {67'000, 70'000}, "weights", {80'000, 90'000});
  const trace::Trace trace = maker.load();
  const trace::Steps steps = trace::find_steps(trace);
  Result<graph::Graph> graph = graph::GraphBuilder(trace, steps).build(0);
  ASSERT_TRUE(graph);
  Made made{{}, std::move(*graph)};
  made.works = describe(trace, made.graph);
  EXPECT_FALSE(gemm(made.of("samples")).weight_grad);
  EXPECT_TRUE(gemm(made.of("weights")).weight_grad);
  EXPECT_EQ(gemm(with_batch(made.of("samples"), 2)).m, 8192);
  EXPECT_EQ(gemm(with_batch(made.of("weights"), 2)).k, 8192);
  EXPECT_EQ(gemm(with_batch(made.of("weights"), 2)).m, 768);
}

TEST(ConvParts, NamesDecideAndHelpersFollow) {
  using enum ConvPart;
  const auto parts = [](std::vector<std::string_view> names) { return conv_parts(names, true, true); };
  EXPECT_THAT(parts({"scalePackedTensor", "dgrad_engine", "Memset (Device)", "wgrad_alg0_engine"}),
              ElementsAre(kData, kData, kWeight, kWeight));
  EXPECT_THAT(parts({"nvjet_a", "nvjet_b", "reduce_wgrad_nchw_helper"}), ElementsAre(kData, kWeight, kWeight));
  EXPECT_THAT(parts({"fft2d_r2c_32x32", "fft2d_r2c_32x32", "gemm_cf32", "fft2d_c2r_32x32", "winogradWgradData4x4",
                     "gemm_f32", "winogradWgradOutput4x4"}),
              ElementsAre(kData, kData, kData, kData, kWeight, kWeight, kWeight));
  EXPECT_THAT(parts({"cutlass_gemm", "nchwToNhwc", "nchwToNhwc", "xmma_wgrad"}),
              ElementsAre(kData, kWeight, kWeight, kWeight));
  EXPECT_THAT(parts({"conv_depthwise2d_grad_weight_kernel", "conv_depthwise2d_backward_kernel"}),
              ElementsAre(kWeight, kData));
  EXPECT_THAT(conv_parts(std::vector<std::string_view>{"a", "b"}, false, true), ElementsAre(kWeight, kWeight));
  EXPECT_THAT(conv_parts(std::vector<std::string_view>{"a", "b"}, true, false), ElementsAre(kData, kData));
}

TEST(OpNames, InPlaceFormsAndStrangers) {
  EXPECT_EQ(classify_op("aten::add_").form, Form::kInPlace);
  EXPECT_EQ(classify_op("aten::_softmax_backward_data").family, Family::kSoftmax);
  EXPECT_TRUE(classify_op("aten::_softmax_backward_data").backward);
  EXPECT_EQ(classify_op("aten::_foreach_addcdiv_").family, Family::kOptimizer);
  EXPECT_EQ(classify_op("record_param_comms").family, Family::kCommunication);
  EXPECT_EQ(classify_op("my_module::my_op").family, Family::kOther);
  EXPECT_EQ(classify_op("aten::no_such_operation").family, Family::kOther);
}

TEST(ChangingWork, OtherTypesKeepIndicesAndMasks) {
  Work w = elementwise_work(1000, 2, 1, Dtype::kFp32);
  w.bytes_read += 1000;  // a mask
  w.fixed_read = 1000;
  const Work half = with_dtype(w, Dtype::kFp16);
  EXPECT_DOUBLE_EQ(half.bytes_read, 1000 + 4000);
  EXPECT_DOUBLE_EQ(half.bytes_written, 2000);
  const Work back = with_dtype(half, Dtype::kFp32);
  EXPECT_DOUBLE_EQ(back.bytes(), w.bytes());
  EXPECT_DOUBLE_EQ(with_dtype(gemm_work(1, 64, 64, 64, Dtype::kFp32), Dtype::kBf16).bytes(), 3.0 * 64 * 64 * 2);
}

TEST(ChangingWork, BatchMultipliesEveryFamily) {
  EXPECT_EQ(gemm(with_batch(gemm_work(96, 512, 64, 512, Dtype::kFp16), 2)).batch, 192);
  EXPECT_DOUBLE_EQ(with_batch(elementwise_work(1000, 1, 1, Dtype::kFp32), 3).bytes(), 24'000);
  EXPECT_DOUBLE_EQ(with_batch(attention_work(8, 12, 512, 512, 64, Dtype::kBf16, false), 0.5).flops,
                   attention_work(4, 12, 512, 512, 64, Dtype::kBf16, false).flops);
}

TEST(Kinds, EveryFamilyHasItsOwn) {
  for (std::size_t f = 0; f < kFamilies; ++f) {
    const auto family = static_cast<Family>(f);
    const Work w(family);
    EXPECT_EQ(w.kind.index(), kind_of(family).index()) << to_string(family);
    const bool multiplies = std::holds_alternative<Gemm>(w.kind) || std::holds_alternative<Convolution>(w.kind) ||
                            std::holds_alternative<Attention>(w.kind) || std::holds_alternative<Recurrent>(w.kind);
    EXPECT_EQ(is_product(w), multiplies) << to_string(family);
    EXPECT_FALSE(w.has_shape());
    // Nothing is known, and nothing is made of it.
    EXPECT_FALSE(with_batch(with_dtype(w, Dtype::kFp16), 2).has_shape()) << to_string(family);
  }
}

TEST(Kinds, AnotherFamilyKeepsWhatBothHave) {
  Work w = optimizer_work(1000, 4, 4, 7);
  w.become(Family::kElementwise);
  EXPECT_EQ(std::get<Pointwise>(w.kind).tensors, 7);
  w.become(Family::kReduction);
  EXPECT_EQ(std::get<Rows>(w.kind), Rows{});
  EXPECT_EQ(w.elements, 1000);
  EXPECT_DOUBLE_EQ(w.bytes(), 8000);
}

TEST(Kinds, LayoutBelongsToImages) {
  for (const Family f : {Family::kConvDataGrad, Family::kBatchNorm, Family::kPooling}) {
    EXPECT_FALSE(channels_last(Work(f)));
    EXPECT_TRUE(channels_last(with_layout(Work(f), true)));
  }
  EXPECT_FALSE(channels_last(with_layout(Work(Family::kReduction), true)));
}

TEST(Kinds, DepthwiseIsOneOrTwoChannelsToAGroup) {
  const auto depthwise = [](std::int64_t channels, std::int64_t groups) {
    Work w(Family::kConvForward);
    w.kind = Convolution{.input = {1, channels, 8, 8}, .groups = groups};
    return is_depthwise(w);
  };
  EXPECT_TRUE(depthwise(32, 32));
  EXPECT_TRUE(depthwise(32, 16));
  EXPECT_FALSE(depthwise(32, 8));
  EXPECT_FALSE(depthwise(1, 1)) << "a grey image is no group";
  EXPECT_FALSE(is_depthwise(Work(Family::kGemm)));
}

}  // namespace
}  // namespace foretrace::work
