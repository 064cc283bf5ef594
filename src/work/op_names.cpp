#include "work/op_names.hpp"

#include <array>
#include <string>
#include <unordered_map>

#include "base/text.hpp"
#include "trace/communication.hpp"

namespace foretrace::work {

namespace {

struct Row {
  OpClass what;
  std::string_view names;  // separated by spaces, without "aten::" and the trailing "_" of in-place forms
};

constexpr OpClass cls(Family family, Form form = Form::kNone, bool backward = false) {
  return {family, form, backward};
}

// Elementwise operations are by far the longest list; the rest is grouped by how arguments are read.
constexpr std::array kRows = {
    Row{cls(Family::kGemm, Form::kMm), "mm matmul mv dot _int_mm _scaled_mm"},
    Row{cls(Family::kGemm, Form::kAddmm), "addmm addmv _addmm_activation"},
    Row{cls(Family::kGemm, Form::kBmm), "bmm"},
    Row{cls(Family::kGemm, Form::kBaddbmm), "baddbmm addbmm"},
    Row{cls(Family::kGemm, Form::kLinear), "linear"},
    Row{cls(Family::kConvForward, Form::kConvCudnn),
        "cudnn_convolution miopen_convolution cudnn_convolution_transpose miopen_convolution_transpose"},
    Row{cls(Family::kConvForward, Form::kConvGeneric),
        "convolution _convolution cudnn_convolution_relu conv2d conv1d conv3d conv_transpose2d thnn_conv2d "
        "_slow_conv2d_forward slow_conv3d_forward slow_conv_dilated2d"},
    Row{cls(Family::kConvForward, Form::kConvDepthwise), "_conv_depthwise2d conv_depthwise3d"},
    Row{cls(Family::kConvWeightGrad, Form::kConvBackward, true),
        "convolution_backward cudnn_convolution_backward miopen_convolution_backward"},
    Row{cls(Family::kConvDataGrad, Form::kNone, true),
        "cudnn_convolution_backward_input cudnn_convolution_transpose_backward_input"},
    Row{cls(Family::kConvWeightGrad, Form::kNone, true), "cudnn_convolution_backward_weight _slow_conv2d_backward"},
    Row{cls(Family::kAttention, Form::kAttention),
        "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention "
        "_scaled_dot_product_cudnn_attention _flash_attention_forward _efficient_attention_forward "
        "_cudnn_attention_forward scaled_dot_product_attention _scaled_dot_product_attention_math "
        "_scaled_dot_product_fused_attention_overrideable"},
    Row{cls(Family::kAttention, Form::kAttentionGrad, true),
        "_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward "
        "_scaled_dot_product_cudnn_attention_backward _flash_attention_backward _efficient_attention_backward "
        "_cudnn_attention_backward"},
    Row{cls(Family::kBatchNorm, Form::kBatchNorm),
        "cudnn_batch_norm native_batch_norm miopen_batch_norm batch_norm _batch_norm_impl_index "
        "_native_batch_norm_legit _batch_norm_with_update batch_norm_stats batch_norm_elemt "
        "batch_norm_gather_stats_with_counts"},
    Row{cls(Family::kBatchNorm, Form::kBatchNormGrad, true),
        "cudnn_batch_norm_backward native_batch_norm_backward miopen_batch_norm_backward batch_norm_backward "
        "batch_norm_backward_reduce batch_norm_backward_elemt"},
    Row{cls(Family::kLayerNorm, Form::kLayerNorm),
        "native_layer_norm layer_norm native_group_norm group_norm rms_norm _fused_rms_norm instance_norm"},
    Row{cls(Family::kLayerNorm, Form::kLayerNormGrad, true),
        "native_layer_norm_backward native_group_norm_backward _fused_rms_norm_backward"},
    Row{cls(Family::kSoftmax, Form::kSoftmax),
        "_softmax softmax _log_softmax log_softmax _masked_softmax _safe_softmax"},
    Row{cls(Family::kSoftmax, Form::kSoftmaxGrad, true),
        "_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward"},
    Row{cls(Family::kElementwise, Form::kElementwise),
        "add sub rsub mul div true_divide floor_divide remainder fmod pow sqrt rsqrt exp exp2 expm1 log log2 log10 "
        "log1p neg abs sign reciprocal square sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid erf erfc erfinv "
        "relu relu6 leaky_relu elu selu celu silu gelu mish hardswish hardsigmoid hardtanh softplus prelu "
        "_prelu_kernel threshold clamp clamp_min clamp_max maximum minimum lerp addcmul addcdiv where masked_fill ceil "
        "floor round trunc frac nan_to_num log_sigmoid_forward glu bitwise_and bitwise_or bitwise_xor bitwise_not "
        "logaddexp hypot complex polar view_as_complex view_as_real angle real imag conj_physical heaviside copysign "
        "sinc tril triu logit xlogy _conj sgn isfinite polygamma digamma lgamma special_entr xlog1py "
        "bitwise_left_shift bitwise_right_shift __and__ __or__ __lshift__ __rshift__"},
    Row{cls(Family::kElementwise, Form::kElementwise, true),
        "threshold_backward gelu_backward silu_backward sigmoid_backward tanh_backward elu_backward "
        "leaky_relu_backward hardtanh_backward hardswish_backward hardsigmoid_backward softplus_backward mish_backward "
        "glu_backward native_dropout_backward _prelu_kernel_backward log_sigmoid_backward logit_backward "
        "_masked_scale"},
    Row{cls(Family::kElementwise, Form::kCompare),
        "eq ne lt le gt ge isnan isinf logical_and logical_or logical_not logical_xor isneginf isposinf"},
    Row{cls(Family::kElementwise, Form::kFill),
        "fill zero zeros ones full arange linspace bernoulli uniform normal random exponential rand randn randint "
        "ones_like zeros_like full_like eye randperm new_zeros new_full tril_indices triu_indices empty_like"},
    Row{cls(Family::kElementwise, Form::kDropout), "native_dropout _fused_dropout dropout feature_dropout"},
    Row{cls(Family::kReduction, Form::kReduction),
        "sum mean prod max min amax amin argmax argmin any all norm linalg_vector_norm var std var_mean std_mean "
        "logsumexp _logcumsumexp nansum count_nonzero aminmax nuclear_norm std_mean frobenius_norm median mode"},
    Row{cls(Family::kReduction, Form::kAlong),
        "cumsum cumprod cummax cummin logcumsumexp _cummax_helper _cummin_helper sort topk argsort kthvalue _fft_r2c "
        "_fft_c2r _fft_c2c"},
    Row{cls(Family::kReduction, Form::kElementwise),
        "unique _unique2 searchsorted bucketize histc bincount unique_consecutive"},
    Row{cls(Family::kCopy, Form::kCopy), "copy"},
    Row{cls(Family::kCopy, Form::kElementwise),
        "clone contiguous _to_copy to permute_copy transpose_copy roll flip repeat constant_pad_nd pad tile "
        "expand_copy _pin_memory channel_shuffle pixel_shuffle pixel_unshuffle rot90 repeat_interleave "
        "_reshape_alias_copy reflection_pad2d replication_pad2d reflection_pad1d im2col col2im unfold_backward "
        "slice_backward select_backward constant_pad_nd_backward diagonal_backward reshape"},
    Row{cls(Family::kCopy, Form::kCat), "cat _cat stack concat split_with_sizes_copy"},
    Row{cls(Family::kEmbedding, Form::kEmbedding), "embedding embedding_bag _embedding_bag embedding_renorm"},
    Row{cls(Family::kEmbedding, Form::kEmbeddingGrad, true),
        "embedding_dense_backward embedding_backward _embedding_bag_dense_backward _embedding_bag_backward"},
    Row{cls(Family::kEmbedding, Form::kGather),
        "index_select index gather scatter scatter_add index_add index_put _index_put_impl masked_select take "
        "take_along_dim put nonzero index_copy index_fill scatter_reduce masked_scatter _unsafe_index one_hot "
        "grid_sampler_2d grid_sampler_2d_backward segment_reduce"},
    Row{cls(Family::kPooling, Form::kPooling),
        "max_pool2d_with_indices max_pool2d avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool2d "
        "max_pool3d_with_indices avg_pool3d adaptive_max_pool2d max_pool1d avg_pool1d adaptive_avg_pool1d "
        "upsample_nearest2d upsample_bilinear2d upsample_bicubic2d _adaptive_avg_pool3d upsample_nearest1d "
        "upsample_linear1d upsample_nearest3d _upsample_bilinear2d_aa"},
    Row{cls(Family::kPooling, Form::kPoolingGrad, true),
        "max_pool2d_with_indices_backward avg_pool2d_backward _adaptive_avg_pool2d_backward "
        "max_pool3d_with_indices_backward avg_pool3d_backward adaptive_max_pool2d_backward upsample_nearest2d_backward "
        "upsample_bilinear2d_backward upsample_bicubic2d_backward _adaptive_avg_pool3d_backward"},
    Row{cls(Family::kLoss, Form::kLoss),
        "nll_loss_forward nll_loss nll_loss2d_forward cross_entropy_loss mse_loss smooth_l1_loss l1_loss huber_loss "
        "binary_cross_entropy binary_cross_entropy_with_logits kl_div _ctc_loss margin_ranking_loss soft_margin_loss"},
    Row{cls(Family::kLoss, Form::kLossGrad, true),
        "nll_loss_backward nll_loss2d_backward mse_loss_backward smooth_l1_loss_backward huber_loss_backward "
        "binary_cross_entropy_backward _ctc_loss_backward soft_margin_loss_backward"},
    Row{cls(Family::kRnn, Form::kRnn),
        "_cudnn_rnn miopen_rnn lstm gru rnn_tanh rnn_relu _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell "
        "gru_cell _cudnn_rnn_flatten_weight"},
    Row{cls(Family::kRnn, Form::kRnn, true),
        "_cudnn_rnn_backward miopen_rnn_backward _thnn_fused_lstm_cell_backward_impl _thnn_fused_lstm_cell_backward "
        "_thnn_fused_gru_cell_backward"},
    Row{cls(Family::kOptimizer, Form::kForeach),
        "_fused_adam _fused_adamw _fused_sgd _fused_adagrad _amp_foreach_non_finite_check_and_unscale "
        "_amp_update_scale"},
    Row{cls(Family::kMemory), "_local_scalar_dense item is_nonzero"},
};

const std::unordered_map<std::string_view, OpClass>& table() {
  static const std::unordered_map<std::string_view, OpClass> kTable = [] {
    std::unordered_map<std::string_view, OpClass> map;
    for (const Row& row : kRows) {
      std::string_view rest = row.names;
      while (!rest.empty()) {
        const std::size_t space = rest.find(' ');
        map.emplace(rest.substr(0, space), row.what);
        rest = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
      }
    }
    return map;
  }();
  return kTable;
}

}  // namespace

OpClass classify_op(std::string_view name) {
  if (trace::is_communication_range(name)) return cls(Family::kCommunication);
  if (contains_any(name, {"flash_attn", "FlashAttn", "fmha"})) {
    const bool backward = contains_any(name, {"backward", "Backward", "bwd"});
    return cls(Family::kAttention, Form::kNone, backward);
  }
  if (name.starts_with("fbgemm::")) {
    return contains_any(name, {"lookup", "embedding", "permute", "bounds_check"}) ? cls(Family::kEmbedding) : OpClass{};
  }
  if (!name.starts_with("aten::")) return {};
  name.remove_prefix(6);
  if (name.starts_with("_foreach_")) return cls(Family::kOptimizer, Form::kForeach);
  const auto& map = table();
  if (const auto it = map.find(name); it != map.end()) return it->second;
  if (name.ends_with('_')) {
    if (const auto it = map.find(name.substr(0, name.size() - 1)); it != map.end()) {
      OpClass what = it->second;
      if (what.form == Form::kElementwise) what.form = Form::kInPlace;
      return what;
    }
  }
  return {};
}

namespace {

// What AMD's libraries (MIOpen, Composable Kernel) call their convolutions: "igemm_wrw_gtcx3_nhwc_fp16", "naive_conv_ab_nonpacked_bwd_nchw",
// "ck::…::kernel_grouped_conv_fwd_xdl", "miopenSp3AsmConv…_fp32_stride1", "gfx9_f3x2_…". kOther: not one of theirs.
Family amd_convolution(std::string_view k) {
  if (!contains_any(k, {"igemm_", "naive_conv", "miopenSp3", "MIOpenConv", "gridwise_convolution", "grouped_conv",
                        "DeviceConv", "DeviceGroupedConv", "conv_bwd_", "gcnAsmConv"})) {
    return Family::kOther;
  }
  if (contains_any(k, {"wrw", "WrW", "Wrw", "bwd_weight", "BwdWeight", "backward_weight"}))
    return Family::kConvWeightGrad;
  if (contains_any(k, {"bwd", "Bwd", "backward"})) return Family::kConvDataGrad;
  return Family::kConvForward;
}

}  // namespace

Family family_of_kernel(std::string_view k) {
  // Order matters: names of fused kernels carry several of these words.
  if (trace::is_communication_kernel(k)) return Family::kCommunication;
  if (k.starts_with("Memcpy") || k.starts_with("Memset")) return Family::kMemory;
  if (contains_any(k, {"flash_fwd",
                       "flash_bwd",
                       "fmha_",
                       "_sdpa_",
                       "attention_kernel",
                       "flash_attn",
                       "FlashAttn",
                       "compute_dot_do_o",
                       "convert_dq",
                       "FmhaFwd",
                       "FmhaBwd",
                       "attn_fwd",
                       "bwd_kernel_dk_dv",
                       "bwd_kernel_dq",
                       "bwd_preprocess",
                       "paged_attention",
                       "unified_attention",
                       "decode_attention",
                       "BatchDecodeWith",
                       "BatchPrefillWith",
                       "mmha",
                       "flash_mla",
                       "multihead_attention"})) {
    return Family::kAttention;
  }
  if (const Family part = amd_convolution(k); part != Family::kOther) return part;
  if (contains_any(k, {"lstm", "LSTM", "RNN_", "persistRNN", "GRU", "elemWiseRNN", "GENERIC_elementWise_bp"}))
    return Family::kRnn;
  if (contains_any(k, {"multi_tensor_apply", "FusedOptimizer", "addcmul", "addcdiv", "lerp_", "fused_adam", "FusedAdam",
                       "amp_update_scale"})) {
    return Family::kOptimizer;
  }
  if (contains_any(k, {"dgrad", "bprop_data", "winogradBwdData"})) return Family::kConvDataGrad;
  if (contains_any(k, {"wgrad", "Wgrad", "bprop_filter"})) return Family::kConvWeightGrad;
  if (contains_any(k, {"fprop",          "implicit_convolve", "convolve",      "fft2d",
                       "flip_filter",    "winograd",          "conv2d",        "Conv2d",
                       "conv_depthwise", "nchwToNhwc",        "nhwcToNchw",    "scalePackedTensor",
                       "nchwAddPadding", "foldedNchw",        "FoldedNchw",    "kern_precompute_indices",
                       "computeOffsets", "cudnn::cnn",        "implicit_gemm", "im2col",
                       "col2im"})) {
    return Family::kConvForward;
  }
  if (contains_any(k, {"gemm", "GEMM", "nvjet", "gemv", "cutlass", "splitKreduce", "Cijk_", "dot_kernel", "triton_tem",
                       "cublas", "magma_", "DeviceGemm", "Custom_Cijk", "hipblaslt", "_matmul_", "fused_moe"})) {
    return Family::kGemm;
  }
  if (contains_any(k, {"batch_norm", "batchnorm", "bn_fw", "bn_bw", "BatchNorm", "MIOpenBatchNorm"}))
    return Family::kBatchNorm;
  if (contains_any(k, {"layer_norm", "LayerNorm", "GammaBetaBackward", "group_norm", "GroupNorm", "rms_norm", "RMSNorm",
                       "RowwiseMoments", "ComputeGradientFused", "ln_fwd", "ln_bwd"})) {
    return Family::kLayerNorm;
  }
  if (contains_any(k, {"softmax", "SoftMax", "Softmax"})) return Family::kSoftmax;
  if (contains_any(k, {"nll_loss", "cross_entropy", "ctc_loss"})) return Family::kLoss;
  if (contains_any(k, {"max_pool", "avg_pool", "MaxPool", "AvgPool", "adaptive_", "upsample", "mloPooling"}))
    return Family::kPooling;
  if (contains_any(k, {"embedding", "index_elementwise", "gather", "scatter", "indexSelect", "index_put",
                       "indexing_backward", "krn_partial", "compute_grad_weight", "sum_and_scatter", "RadixSort",
                       "DeviceScan", "thrust", "cub::", "write_num_of_segments", "indexFunc", "split_embedding"})) {
    return Family::kEmbedding;
  }
  if (contains_any(k, {"reduce_kernel", "triton_red", "triton_per", "ReduceOp", "reduction", "row_reduc",
                       "column_reduc", "input_reduce_fusion", "DeviceReduce", "cumsum", "tensor_kernel_scan"})) {
    return Family::kReduction;
  }
  if (contains_any(k, {"direct_copy_kernel", "copy_kernel", "CatArray", "chunk_cat", "copy_device_to_device",
                       "transpose", "input_concatenate", "wrapped_transpose"})) {
    return Family::kCopy;
  }
  if (contains_any(k, {"elementwise", "Elementwise", "triton_poi", "dropout", "pointwise", "loop_", "_fusion",
                       "FillFunctor", "distribution_", "threefry", "tril_triu", "arange"})) {
    return Family::kElementwise;
  }
  return Family::kOther;
}

Family conv_part_of_kernel(std::string_view k) {
  if (contains(k, "reduce_wgrad")) return Family::kReduction;  // follows a product whose own name says nothing
  if (const Family part = amd_convolution(k); part == Family::kConvDataGrad || part == Family::kConvWeightGrad)
    return part;
  if (contains(k, "depthwise2d_grad_weight")) return Family::kConvWeightGrad;
  if (contains(k, "depthwise2d_backward")) return Family::kConvDataGrad;
  if (contains_any(k, {"dgrad", "bprop_data", "winogradBwdData"})) return Family::kConvDataGrad;
  if (contains_any(k, {"wgrad", "Wgrad", "bprop_filter"})) return Family::kConvWeightGrad;
  if (contains_any(k, {"nchwToNhwc", "nchwToFolded", "scalePackedTensor", "nchwAddPadding", "Memset", "fft2d_r2c",
                       "fft1d_r2c", "flip_filter", "kern_precompute_indices", "computeOffsets", "DataTransform",
                       "InputTransform", "generateWinograd", "FilterTransform", "init_device_workspace", "im2col"})) {
    return Family::kCopy;
  }
  if (contains_any(k, {"nhwcToNchw", "foldedNchwToNchw", "fft2d_c2r", "fft1d_c2r", "OutputTransform", "splitKreduce",
                       "split_k", "col2im"})) {
    return Family::kReduction;
  }
  return Family::kOther;
}

bool is_generated_kernel(std::string_view kernel) { return kernel.starts_with("triton_"); }

bool is_tf32_kernel(std::string_view k) {
  if (contains_any(k, {"ffma", "simt", "sgemm_", "f32f32_f32f32"})) return false;
  // tfloat32_t: CUTLASS's own word, in names that come mangled.
  return contains_any(
      k, {"tf32", "TF32", "tfloat32", "s1688", "s16816", "tensorop_s", "nvjet_sm90_sss", "nvjet_sm100_sss", "nvjet_"});
}

Dtype dtype_of_kernel(std::string_view k) {
  if (contains(k, "Cijk_")) {  // Tensile and hipBLASLt: element types of the operands and of the sum, one letter each
    if (contains_any(k, {"_BBS_", "_BSS_", "_BB_", "_BBH_"})) return Dtype::kBf16;
    if (contains_any(k, {"_HHS_", "_HSS_", "_HB_", "_HH_"})) return Dtype::kFp16;
    return contains_any(k, {"_SX_", "_XSS_", "XF32"}) ? Dtype::kTf32 : Dtype::kFp32;
  }
  if (contains_any(k, {"bf16", "BFloat16", "nv_bfloat", "_tst_", "_tss_"})) return Dtype::kBf16;
  if (contains_any(k,
                   {"f16f16", "__half", "c10::Half", "_f16_", "hgemm", "_hsh_", "_hss_", "h16816", "h1688", "fp16"})) {
    return Dtype::kFp16;
  }
  if (contains_any(k, {"tf32", "TF32", "tfloat32", "tensorop_s1688gemm", "tensorop_s16816gemm_tf32", "nvjet_sm90_sss"}))
    return Dtype::kTf32;
  if (contains_any(k, {"double", "dgemm", "f64"})) return Dtype::kFp64;
  if (contains_any(k, {"float", "f32", "sgemm"})) return Dtype::kFp32;
  return Dtype::kOther;
}

}  // namespace foretrace::work
