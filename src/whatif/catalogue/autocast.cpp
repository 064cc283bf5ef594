#include "whatif/catalogue/autocast.hpp"

#include <algorithm>
#include <unordered_map>

#include "hardware/op_view.hpp"

namespace foretrace::whatif {

namespace {

using hardware::Family;
using hardware::OpView;

bool half_family(Family f) {
  return f == Family::kGemm || f == Family::kConvForward || f == Family::kConvDataGrad ||
         f == Family::kConvWeightGrad || f == Family::kAttention || f == Family::kRnn;
}

// Operations autocast runs in FP32 (PyTorch's list, as far as training steps show them).
bool float_op(std::string_view op) {
  for (const std::string_view name : {"softmax", "layer_norm", "nll_loss", "cross_entropy", "mse_loss", "l1_loss",
                                      "binary_cross", "aten::pow", "aten::exp", "aten::log", "aten::norm",
                                      "linalg_vector_norm", "cumsum", "rsqrt", "cosine", "group_norm", "rms_norm"}) {
    if (op.find(name) != std::string_view::npos) return true;
  }
  return false;
}

class Autocast {
 public:
  Autocast(const Model& m, const std::vector<Row>& rows) : m_(m), rows_(rows) {}

  std::vector<AutocastRow> run() {
    std::vector<AutocastRow> out;
    out.reserve(rows_.size());
    for (const Row& row : rows_) out.push_back(one(row));
    return out;
  }

 private:
  bool half(std::int64_t elements) const {
    const auto it = half_.find(elements);
    return it != half_.end() && it->second;
  }

  AutocastRow one(const Row& row) {
    AutocastRow a;
    const hardware::Work& work = m_.works[row.work];
    if (row.phase == Phase::kOptimizer || row.phase == Phase::kCommunication || row.phase == Phase::kData) return a;
    const bool backward = row.phase == Phase::kBackward;
    const std::string_view op = work.op.valid() ? m_.trace->strings[work.op] : std::string_view();
    std::vector<hardware::Argument> tensors;
    if (work.op_event != 0xFFFF'FFFFu) {
      const OpView view(*m_.trace, m_.trace->events.args[work.op_event]);
      for (std::size_t i = 0; i < view.size(); ++i) {
        if (view.tensor(i) && view[i].type == "float") tensors.push_back(view[i]);
      }
    }
    if (half_family(work.family)) {
      a.precision = Precision::kHalf;
      if (!backward) find_casts(work, tensors, a);
      half_[work.elements] = true;
      return a;
    }
    if (float_op(op)) {
      if (!backward) {
        // A softmax reads half and writes FP32 in one kernel; the others are handed a cast copy.
        const bool reads_half = op.find("softmax") != std::string_view::npos;
        for (const auto& t : tensors) {
          if (t.elements() > 1 && half(t.elements()) && !reads_half) a.activation_casts.push_back(t.elements());
        }
        half_[work.elements] = false;
      }
      return a;
    }
    std::size_t halves = 0;
    std::size_t large = 0;
    for (const auto& t : tensors) {
      if (t.elements() <= 1) continue;
      ++large;
      halves += half(t.elements()) ? 1u : 0u;
    }
    if (large > 0 && halves == large) {
      a.precision = Precision::kHalf;
    } else if (halves > 0) {
      a.precision = Precision::kMixed;
    }
    if (!backward) half_[work.elements] = a.precision == Precision::kHalf;
    return a;
  }

  void find_casts(const hardware::Work& work, const std::vector<hardware::Argument>& tensors, AutocastRow& a) {
    const std::string_view op = work.op.valid() ? m_.trace->strings[work.op] : std::string_view();
    const bool conv = work.family == Family::kConvForward;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::int64_t n = tensors[i].elements();
      // addmm: bias, input, weight; mm and linear: input, weight; convolution: input, weight, bias.
      bool weight = conv || op.find("linear") != std::string_view::npos || op == "aten::mm" ? i >= 1 : false;
      if (op.find("addmm") != std::string_view::npos) weight = i != 1;
      if (work.family == Family::kRnn) weight = i >= 1 && tensors[i].shape().size() <= 2;
      if (op.find("bmm") != std::string_view::npos) weight = false;
      if (weight) {
        a.weight_casts.push_back(n);
      } else if (!half(n)) {
        a.activation_casts.push_back(n);
      }
    }
  }

  const Model& m_;
  const std::vector<Row>& rows_;
  std::unordered_map<std::int64_t, bool> half_;
};

}  // namespace

std::vector<AutocastRow> autocast(const Model& model, const std::vector<Row>& rows) {
  return Autocast(model, rows).run();
}

}  // namespace foretrace::whatif
