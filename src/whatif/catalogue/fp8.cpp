#include <fmt/format.h>

#include <algorithm>

#include "hardware/cost.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/rewrite/fp8_layers.hpp"
#include "whatif/rewrite/precision_memory.hpp"

namespace foretrace::whatif {
namespace {

using work::Access;
using work::Dtype;
using work::Family;
using work::Gemm;
using work::Work;

hardware::Cost product_cost(std::int64_t m, std::int64_t n, std::int64_t k, Dtype out, const hardware::Device& device) {
  Work w = work::gemm_work(1, m, n, k, Dtype::kFp8);
  w.bytes_written = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(work::bytes_of(out));
  return predict(w, device);
}

Work product_work(std::int64_t m, std::int64_t n, std::int64_t k, const Work& like) {
  Work w = like;
  Gemm g = std::get<Gemm>(like.kind);
  g.m = m, g.n = n, g.k = k;
  w.kind = g;
  w.dtype = Dtype::kFp8;
  refresh(w);
  return w;
}

/// One kernel of the conversion.
struct Step {
  const char* name;
  Work work;  ///< without sizes: one of a number, not of a tensor
};

Work number_work() { return work::elementwise_work(1, 1, 1, Dtype::kFp32); }

Work reduction_work(std::int64_t elements, Dtype dtype) {
  Work w(Family::kReduction);
  w.dtype = w.out_dtype = dtype;
  w.elements = elements;
  w.kind = work::Rows{1, elements};
  w.bytes_read = static_cast<double>(elements * work::bytes_of(dtype));
  w.bytes_written = static_cast<double>(work::bytes_of(dtype));
  w.flops = static_cast<double>(elements);
  return w;
}

// Dynamic scaling of a whole tensor: its largest element makes the factor that brings it into FP8's range.
// Plain operations, one after another: abs, amax, five kernels for the factor and its inverse, times the factor, clamp, cast.
std::vector<Step> separate_cast(std::int64_t n, Dtype dtype) {
  const bool half = is_half(dtype);
  std::vector<Step> out;
  out.push_back({"fp8 abs", work::elementwise_work(n, 1, 1, dtype)});
  out.push_back({"fp8 amax, its counters", number_work()});
  out.push_back({"fp8 amax", reduction_work(n, dtype)});
  if (half) out.push_back({"fp8 scale", number_work()});
  for (int i = 0; i < 4; ++i) out.push_back({"fp8 scale", number_work()});
  if (half) out.push_back({"fp8 widen", work::cast_work(n, dtype, Dtype::kFp32)});
  // The factor is a tensor of one number: broadcast, so that no load is vectorised.
  Work times = work::elementwise_work(n, 1, 1, Dtype::kFp32);
  times.access = Access::kStrided;
  out.push_back({"fp8 times scale", times});
  out.push_back({"fp8 clamp", work::elementwise_work(n, 1, 1, Dtype::kFp32)});
  out.push_back({"fp8 cast", work::cast_work(n, Dtype::kFp32, Dtype::kFp8)});
  return out;
}

// What a compiler makes of it: one kernel finds the largest element (and a second adds up the blocks' results), one scales,
// clamps and casts.
std::vector<Step> fused_cast(std::int64_t n, Dtype dtype) {
  return {{"fp8 amax", reduction_work(n, dtype)},
          {"fp8 amax", number_work()},
          {"fp8 cast", work::cast_work(n, dtype, Dtype::kFp8)}};
}

// PyTorch's own copy goes through memory element by element; a compiler's writes tiles.
Work transpose_work(std::int64_t n, bool fused) {
  Work w = work::cast_work(n, Dtype::kFp8, Dtype::kFp8);
  if (!fused) w.access = Access::kTransposed;
  return w;
}

class Fp8 {
 public:
  Fp8(Model& m, Draft& draft, bool fused) : m_(m), draft_(draft), fused_(fused) {}

  Status run(const std::vector<std::string>& layers, bool paying) {
    for (const Work& w : m_.works.rows) {
      if (w.dtype == Dtype::kFp8 ||
          (w.op.valid() && m_.trace->strings[w.op].find("_scaled_mm") != std::string_view::npos))
        return fail(ErrorCode::kDeclined, "the step already multiplies in FP8");
    }
    const std::shared_ptr<const Dataflow> flow = shared_flow(m_);
    const std::vector<Row> rows = rows_of(m_, draft_);
    FORETRACE_TRY(std::vector<Fp8Layer> found, find_fp8_layers(m_, rows, *flow, layers));
    const std::size_t all = found.size();
    if (paying) std::erase_if(found, [&](const Fp8Layer& l) { return !pays(l); });
    if (found.empty()) {
      return fail(
          ErrorCode::kDeclined,
          fmt::format("none of the {} linear layers gains more by FP8 products than scaling and casting take", all));
    }
    for (const Fp8Layer& layer : found) convert(layer);
    if (m_.memory) fp8_memory(m_, *flow, found);
    const bool strict =
        std::any_of(found.begin(), found.end(), [](const Fp8Layer& l) { return l.dtype == Dtype::kFp32; });
    if (strict) m_.not_modelled.emplace_back("FP8 together with FP32 tensors: only FP8 with bfloat16 was measured");
    if (fused_ || strict) m_.validated = false;
    return {};
  }

 private:
  [[nodiscard]] std::vector<Step> cast(std::int64_t n, Dtype dtype) const {
    return fused_ ? fused_cast(n, dtype) : separate_cast(n, dtype);
  }

  [[nodiscard]] double time_of(const std::vector<Step>& steps) const {
    double ns = 0;
    for (const Step& s : steps) ns += predict(s.work, m_.device).ns;
    return ns;
  }

  [[nodiscard]] bool pays(const Fp8Layer& l) const {
    double now = l.weight_cast != nullptr ? static_cast<double>(l.weight_cast->time) : 0;
    double then = time_of(cast(l.rows * l.inputs, l.dtype)) + time_of(cast(l.inputs * l.outputs, l.weight_dtype));
    const auto product = [&](const Row* row, std::int64_t m, std::int64_t n, std::int64_t k) {
      if (row == nullptr) return;
      now += static_cast<double>(row->time);
      then += product_cost(m, n, k, l.dtype, m_.device).ns;
    };
    product(l.forward, l.rows, l.outputs, l.inputs);
    product(l.data_grad, l.rows, l.inputs, l.outputs);
    product(l.weight_grad, l.outputs, l.inputs, l.rows);
    if (l.data_grad != nullptr || l.weight_grad != nullptr) {
      then += time_of(cast(l.rows * l.outputs, l.dtype));
      for (const std::int64_t n : transposed(l)) then += predict(transpose_work(n, fused_), m_.device).ns;
    }
    return then < now;
  }

  // FP8 products read both operands along what they sum over: the backward ones need copies in the other order.
  [[nodiscard]] static std::vector<std::int64_t> transposed(const Fp8Layer& l) {
    std::vector<std::int64_t> out;
    if (l.data_grad != nullptr) out.push_back(l.inputs * l.outputs);
    if (l.weight_grad != nullptr) {
      out.push_back(l.rows * l.outputs);
      out.push_back(l.rows * l.inputs);
    }
    return out;
  }

  void convert(const Fp8Layer& l) {
    if (l.weight_cast != nullptr) {
      draft_.remove(l.weight_cast->tasks, Draft::kWithLaunch);
    }
    multiply(l.forward, l.rows, l.outputs, l.inputs, l);
    Place at = place_before(m_.graph, l.forward->tasks.front());
    put(at, cast(l.rows * l.inputs, l.dtype), Phase::kForward, false);
    put(at, cast(l.inputs * l.outputs, l.weight_dtype), Phase::kForward, true);
    add_layer_overhead(at, Phase::kForward);
    if (l.bias) {
      Place behind = place_behind(m_.graph, l.forward->tasks.back());
      Work add = work::elementwise_work(l.rows * l.outputs, 1, 1, l.dtype);
      add.access = Access::kStrided;
      put(behind, {{"fp8 bias", add}}, Phase::kForward, false);
    }
    const Row* first = l.data_grad != nullptr ? l.data_grad : l.weight_grad;
    if (first == nullptr) return;
    at = place_before(m_.graph, first->tasks.front());
    put(at, cast(l.rows * l.outputs, l.dtype), Phase::kBackward, false);
    add_layer_overhead(at, Phase::kBackward);
    if (l.data_grad != nullptr) {
      put(at, {{"fp8 transpose", transpose_work(l.inputs * l.outputs, fused_)}}, Phase::kBackward, true);
      multiply(l.data_grad, l.rows, l.inputs, l.outputs, l);
    }
    if (l.weight_grad != nullptr) {
      if (l.data_grad != nullptr) at = place_before(m_.graph, l.weight_grad->tasks.front());
      put(at,
          {{"fp8 transpose", transpose_work(l.rows * l.outputs, fused_)},
           {"fp8 transpose", transpose_work(l.rows * l.inputs, fused_)}},
          Phase::kBackward, false);
      multiply(l.weight_grad, l.outputs, l.inputs, l.rows, l);
    }
  }

  void multiply(const Row* row, std::int64_t m, std::int64_t n, std::int64_t k, const Fp8Layer& l) {
    hardware::Cost cost = product_cost(m, n, k, l.dtype, m_.device);
    if (!cost.known) return;
    cost.ns *= times_run(m_, *row);
    set_row(m_, draft_, *row, cost, product_work(m, n, k, m_.works[row->work]));
  }

  void put(Place& at, const std::vector<Step>& steps, Phase phase, bool of_parameters) {
    for (const Step& s : steps) {
      Work work = s.work;
      work.of_parameters = of_parameters;
      insert_work(m_, draft_, at, s.name, work, {.phase = phase, .cpu_cost = m_.cpu_time(m_.host.eager.op_us, phase)});
    }
  }

  // What the layer's own function costs the CPU in addition to its operations: views, leaving autocast, an autograd node in Python.
  void add_layer_overhead(Place& at, Phase phase) {
    if (at.cpu == kNone || fused_) return;
    const double calls = phase == Phase::kForward ? kForwardCalls : kBackwardCalls;
    at.cpu = draft_.insert_cpu(at.cpu, "fp8 layer", m_.cpu_time(calls * m_.host.eager.op_us, phase), phase);
  }

  // Calls of a layer that launch nothing, counted in tools/measure/float8.py, which does as torchao and PyTorch's float8 training do: forward asks for autocast and its type, reshapes, leaves and enters autocast, applies a
  // function, saves, transposes and views; backward takes what was saved and transposes thrice.
  static constexpr double kForwardCalls = 10;
  static constexpr double kBackwardCalls = 7;

  Model& m_;
  Draft& draft_;
  bool fused_;
};

Status apply_fp8(Model& m, Draft& draft, const Parameters& parameters) {
  if (!m.device.multiplies_fp8()) {
    return fail(ErrorCode::kDeclined,
                m.device.name.empty()
                    ? std::string("the GPU is unknown, and FP8 products need tensor cores that have them")
                    : fmt::format("{} has no tensor cores for FP8: NVIDIA's have from Ada and Hopper (H100) on, AMD's "
                                  "from MI300 on",
                                  m.device.name));
  }
  return Fp8(m, draft, parameters.text("casts") == "fused")
      .run(parameters.list("layers"), parameters.text("which") == "paying");
}

const Registered kRegistered(
    {.name = "fp8",
     .about = "linear layers multiply in FP8, every operand scaled by its largest element right before it is cast",
     .parameters = {{"casts",
                     "scaling and casting as separate operations, or fused by a compiler (fused is not measured)",
                     "separate",
                     {"separate", "fused"}},
                    {"which", "all linear layers that can, or those that gain by it", "all", {"all", "paying"}},
                    {"layers", "globs of modules that are converted, separated by |; all when not given"}},
     .assumes = "tensorwise dynamic scaling, e4m3 forward and e5m2 for gradients; nn.Linear modules whose sizes are "
                "multiples of 16; parameters, optimizer and the operations between the layers stay as they are",
     .source = "Micikevicius et al. 2022; torch._scaled_mm; torchao.float8",
     .not_modelled = "convergence; rowwise scaling; all-gathers in FP8",
     .needs = {Need::kShapes},
     .changes = Changes::kPrecision,
     .parts = {.memory = Part::kModelled},
     .code = "torchao.float8.convert_to_float8_training(model)",
     .inference_code = "torchao.quantization.quantize_(model, "
                       "torchao.quantization.Float8DynamicActivationFloat8WeightConfig())",
     .effort = Effort::kFewLines,
     .stage = Stage::kPrecision,
     .validated = true,
     .apply = apply_fp8,
     .whole_program =
         "in a compiled program FP8 is what the model computes in: float8 operands of jax.lax.dot_general"});

}  // namespace
}  // namespace foretrace::whatif
