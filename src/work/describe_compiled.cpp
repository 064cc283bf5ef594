#include "work/describe_compiled.hpp"

#include <algorithm>

namespace foretrace::work {

namespace {

Dtype dtype_of(std::string_view name) {
  if (name == "f32") return Dtype::kFp32;
  if (name == "tf32") return Dtype::kTf32;
  if (name == "f16") return Dtype::kFp16;
  if (name == "bf16") return Dtype::kBf16;
  if (name == "f64") return Dtype::kFp64;
  if (name.starts_with("s") || name.starts_with("u") || name == "pred") return Dtype::kInt;
  return Dtype::kOther;
}

Family family_of(const trace::CompiledOp& op) {
  const std::string_view f = op.family;
  if (op.phase == "optimizer" && (f == "elementwise" || f == "reduction")) return Family::kOptimizer;
  if (f == "gemm") return Family::kGemm;
  if (f == "convolution") return Family::kConvForward;
  if (f == "convolution-data") return Family::kConvDataGrad;
  if (f == "convolution-weight") return Family::kConvWeightGrad;
  if (f == "attention") return Family::kAttention;
  if (f == "reduction") return Family::kReduction;
  if (f == "gather") return Family::kEmbedding;
  if (f == "copy") return Family::kCopy;
  if (f == "elementwise") return Family::kElementwise;
  if (f == "collective") return Family::kCommunication;
  return Family::kOther;
}

}  // namespace

Work describe_compiled(const trace::CompiledOp& op) {
  Work w(family_of(op));
  w.dtype = dtype_of(op.dtype);
  w.out_dtype = dtype_of(op.out_dtype);
  w.backward = op.phase == "backward";
  w.of_parameters = op.of_parameters;
  w.elements = op.elements;
  w.flops = op.flops;
  w.bytes_read = op.bytes_read;
  w.bytes_written = op.bytes_written;
  w.fixed_read = op.fixed_read;
  w.fixed_written = op.fixed_written;
  w.weight_elements = op.weight;
  if (auto* gemm = std::get_if<Gemm>(&w.kind); gemm != nullptr && op.gemm[0] > 0) {
    gemm->batch = op.gemm[0];
    gemm->m = op.gemm[1];
    gemm->n = op.gemm[2];
    gemm->k = op.gemm[3];
    gemm->weight_grad = op.sums_samples;
    refresh(w);
  } else if (auto* conv = std::get_if<Convolution>(&w.kind); conv != nullptr && op.conv[0] > 0) {
    std::copy_n(op.conv.begin(), 4, conv->input.begin());
    conv->out_channels = op.conv[4];
    conv->out_h = op.conv[5];
    conv->out_w = op.conv[6];
    conv->kernel_h = op.conv[7];
    conv->kernel_w = op.conv[8];
    conv->stride = op.conv[9];
    conv->groups = op.conv[10];
    conv->channels_last = op.conv[11] != 0;
    conv->tuned = true;  // XLA times the library's algorithms on every convolution it compiles
    refresh(w);
  } else if (auto* rows = std::get_if<Rows>(&w.kind); rows != nullptr && op.rows > 0) {
    rows->rows = op.rows;
    rows->columns = std::max<std::int64_t>(1, op.elements / op.rows);
    if (op.sums_samples) w.access = Access::kStrided;
  } else if (auto* gather = std::get_if<Gather>(&w.kind); gather != nullptr && op.rows > 0) {
    gather->rows = op.rows;
    gather->columns = 1;
  }
  return w;
}

}  // namespace foretrace::work
