#include "work/conv_unsaid.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace foretrace::work {

namespace {

/// What an operation says of its input and weight.
using Operands = std::array<std::int64_t, 8>;

Operands operands_of(const Convolution& c) {
  return {c.input[0], c.input[1], c.input[2], c.input[3], c.out_channels, c.kernel_h, c.kernel_w, c.groups};
}

const trace::OpInputs* inputs_of(const trace::Trace& trace, const Work& work) {
  return work.op_event == kNone ? nullptr : trace.args.inputs(trace.events.args[work.op_event]);
}

bool only_tensors(const trace::Trace& trace, const Work& work) {
  const trace::OpInputs* inputs = inputs_of(trace, work);
  return inputs != nullptr && inputs->dims.valid() && !inputs->concrete.valid();
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::int64_t stride_between(std::int64_t in, std::int64_t out, std::int64_t reach) {
  if (in <= 0 || out <= 0 || reach <= 0) return 1;
  // With more padding the result only grows: `out` is between those of no padding and of half the kernel.
  const auto fits = [&](std::int64_t stride) {
    const std::int64_t least = (in - reach) / stride + 1, most = (in + 2 * (reach / 2) - reach) / stride + 1;
    return least <= out && out <= most;
  };
  if (in % out == 0 && fits(in / out)) return in / out;  // sizes that divide are meant to
  for (std::int64_t stride = 1; stride <= in / out + 1; ++stride) {
    if (fits(stride)) return stride;
  }
  return 1;
}

void take_sizes_from_gradients(Works& works, const trace::Trace& trace) {
  struct Gradient {
    std::uint32_t op_event;
    const Convolution* sizes;
  };
  std::map<Operands, std::vector<Gradient>> gradients;
  std::vector<Work*> forward;
  for (Work& work : works.rows) {
    auto* c = std::get_if<Convolution>(&work.kind);
    if (c == nullptr || c->input[0] <= 0 || !only_tensors(trace, work)) continue;
    if (work.family == Family::kConvForward && !work.backward) {
      forward.push_back(&work);
      continue;
    }
    std::vector<Gradient>& found = gradients[operands_of(*c)];
    if (found.empty() || found.back().op_event != work.op_event) found.push_back({work.op_event, c});
  }
  std::stable_sort(forward.begin(), forward.end(),
                   [](const Work* a, const Work* b) { return a->op_event < b->op_event; });
  std::map<Operands, std::size_t> taken;
  for (auto& [operands, found] : gradients) {
    std::stable_sort(found.begin(), found.end(),
                     [](const Gradient& a, const Gradient& b) { return a.op_event > b.op_event; });
  }
  for (Work* work : forward) {
    auto& c = std::get<Convolution>(work->kind);
    const Operands operands = operands_of(c);
    const auto it = gradients.find(operands);
    if (it == gradients.end()) continue;
    const Convolution& recorded = *it->second[taken[operands]++ % it->second.size()].sizes;
    c.out_h = recorded.out_h;
    c.out_w = recorded.out_w;
    c.stride = recorded.stride;
    refresh(*work);
  }
}

void find_layout(Works& works, const trace::Trace& trace, const graph::Graph& graph) {
  std::vector<bool> unsaid(works.rows.size());
  bool any = false;
  for (std::size_t row = 0; row < works.rows.size(); ++row) {
    const trace::OpInputs* inputs = inputs_of(trace, works.rows[row]);
    unsaid[row] = inputs != nullptr && inputs->dims.valid() && !inputs->strides.valid();
    any = any || (unsaid[row] && std::holds_alternative<Convolution>(works.rows[row].kind));
  }
  if (!any) return;
  // The copies of an operation's data and weight gradient belong to one or the other: the operation is asked, not the row.
  struct Seen {
    bool last = false, copied = false;
  };
  std::map<std::uint32_t, Seen> operations;
  for (std::size_t t = 0; t < works.of_task.size(); ++t) {
    const std::uint32_t row = works.of_task[t];
    if (row == kNone || !unsaid[row] || !std::holds_alternative<Convolution>(works.rows[row].kind)) continue;
    const std::string_view name = graph.task_name(t);
    Seen& seen = operations[works.rows[row].op_event];
    seen.last = seen.last || has(name, "nhwc");
    seen.copied = seen.copied || has(name, "nchw") || has(name, "Nchw");
  }
  std::size_t last = 0, first = 0;
  for (const auto& [operation, seen] : operations) (seen.copied ? first : last) += seen.copied || seen.last ? 1 : 0;
  if (last <= first) return;
  for (std::size_t row = 0; row < works.rows.size(); ++row) {
    if (unsaid[row]) works.rows[row] = with_layout(works.rows[row], true);
  }
}

}  // namespace foretrace::work
