#include "whatif/rewrite/fp8_layers.hpp"

#include "whatif/dataflow/layer_regions.hpp"

namespace foretrace::whatif {

namespace {

using work::Gemm;
using work::OpView;
using work::Work;

constexpr std::int64_t kMultiple = 16;  // what torch._scaled_mm asks of the sizes of both operands

// A module called "…out_proj" inside nn.MultiheadAttention hands its weight over and is never called itself: its product is
// made under the name of the attention.
bool of_packed_attention(const Graph& g, std::uint32_t task) {
  if (!g.layer[task].valid()) return false;
  const graph::Layer& layer = g.layers[g.layer[task].index()];
  return !layer.synthetic && g.strings[layer.type] == "MultiheadAttention";
}

bool multiplied(const Gemm& g) { return g.m > 0 && g.n > 0 && g.k > 0; }

}  // namespace

Result<std::vector<Fp8Layer>> find_fp8_layers(const Model& m, const std::vector<Row>& rows, const Dataflow& flow,
                                              const std::vector<std::string>& layers) {
  LayerRegions regions;
  const bool everywhere = layers.empty() || (layers.size() == 1 && layers.front() == "*");
  if (!everywhere) {
    FORETRACE_TRY(regions, choose_regions(m, flow, layers));
  }
  std::vector<Fp8Layer> by_unit(flow.units.size());
  for (const Row& row : rows) {
    const Work& work = m.works[row.work];
    if (work.op_event == kNone || (row.phase != Phase::kForward && row.phase != Phase::kBackward)) continue;
    std::uint32_t unit = flow.unit_of(work.op_event);
    const bool forward = unit != kNone && row.phase == Phase::kForward;
    if (!forward) {
      const Dataflow::Backward back = flow.backward_of(work.op_event);
      if (back.unit == kNone || back.sums) continue;
      unit = back.unit;
    }
    if (flow.units[unit].name != "aten::linear") continue;
    Fp8Layer& layer = by_unit[unit];
    const auto* gemm = std::get_if<Gemm>(&work.kind);
    if (gemm != nullptr && multiplied(*gemm)) {
      (forward ? layer.forward : gemm->weight_grad ? layer.weight_grad : layer.data_grad) = &row;
    } else if (forward && work.family == work::Family::kCopy && work.dtype != work.out_dtype) {
      const OpView op(*m.trace, m.trace->events.args[flow.units[unit].event]);
      if (op.tensor(1, 2) && op[1].elements() == work.elements) layer.weight_cast = &row;
    }
  }
  std::vector<Fp8Layer> found;
  std::size_t linear = 0;
  for (std::uint32_t u = 0; u < by_unit.size(); ++u) {
    Fp8Layer& layer = by_unit[u];
    if (layer.forward == nullptr || of_packed_attention(m.graph, layer.forward->tasks.front())) continue;
    ++linear;
    const Work& work = m.works[layer.forward->work];
    const Gemm& gemm = std::get<Gemm>(work.kind);
    layer.unit = u;
    layer.rows = gemm.m;
    layer.inputs = gemm.k;
    layer.outputs = gemm.n;
    layer.dtype = is_half(work.dtype) ? work.dtype : work::Dtype::kFp32;
    const OpView op(*m.trace, m.trace->events.args[flow.units[u].event]);
    layer.weight_dtype = op.tensor(1) ? work::parse_dtype(op[1].type) : layer.dtype;
    layer.bias = op.tensor(2, 1);
    const bool whole = layer.rows % kMultiple == 0 && layer.inputs % kMultiple == 0 && layer.outputs % kMultiple == 0;
    if (whole && (everywhere || regions.of_unit[u] != kNone)) found.push_back(layer);
  }
  if (linear == 0) return fail(ErrorCode::kDeclined, "the step has no linear layer");
  if (found.empty()) {
    return fail(ErrorCode::kDeclined,
                "no linear layer has rows, inputs and outputs that are multiples of 16, as FP8 products need");
  }
  return found;
}

}  // namespace foretrace::whatif
