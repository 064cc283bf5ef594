// What the library says about measured operations: tools/fit_operations.py writes them as a trace and compares.
//
//   operation_figures TRACE [DEVICE]
//
// One line for each described operation of the first step: the number of its event in the file, whether the models know it,
// measured us, predicted us, sigma, FLOP, bytes, the measured time rescaled to TF32, FP16, BF16, the other layout, twice and half
// the batch, and how many copies into another layout the library is said to make for it, with their time.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/work/work.hpp"
#include "hardware/cost.hpp"
#include "hardware/layout_changes.hpp"

namespace {

using namespace foretrace;  // NOLINT(google-build-using-namespace): a program, not a header
using work::Dtype;
using work::Work;

int fail(const Error& error) {
  fmt::print(stderr, "{}\n", error.to_string());
  return 3;
}

void print_row(const Work& w, double measured_ns, const hardware::Device& device) {
  const hardware::Cost cost = hardware::predict(w, device);
  fmt::print("{},{},{},{},{},{},{},{}", w.op_event, work::to_string(w.family), cost.known ? 1 : 0, measured_ns / 1e3,
             cost.ns / 1e3, cost.sigma, w.flops, w.bytes());
  const Work others[] = {work::with_dtype(w, Dtype::kTf32),
                         work::with_dtype(w, Dtype::kFp16),
                         work::with_dtype(w, Dtype::kBf16),
                         work::with_layout(w, true),
                         work::with_batch(w, 2),
                         work::with_batch(w, 0.5)};
  for (const Work& other : others) {
    const hardware::Cost moved = hardware::rescale(measured_ns, w, other, device);
    fmt::print(",{}", moved.known ? moved.ns / 1e3 : 0.0);
  }
  const auto copies = hardware::layout_changes(w);
  double copies_ns = 0;
  for (const hardware::LayoutChange& c : copies) {
    copies_ns += hardware::predict(work::relayout_work(c.elements, w.dtype), device).ns;
  }
  fmt::print(",{},{}\n", copies.size(), copies_ns / 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: operation_figures TRACE [DEVICE]\n");
    return 2;
  }
  const Result<hardware::Device> device = hardware::device_or_file(argc > 2 ? argv[2] : "H200-SXM");
  if (!device) return fail(device.error());
  const Result<trace::Trace> trace = trace::load(argv[1]);
  if (!trace) return fail(trace.error());
  const trace::Steps steps = trace::find_steps(*trace);
  const graph::GraphBuilder builder(*trace, steps);
  const Result<graph::Graph> graph = builder.build(0);
  if (!graph) return fail(graph.error());
  const work::Works works = work::describe(*trace, *graph);
  std::vector<double> measured(works.size(), 0.0);
  for (std::size_t t = 0; t < graph->size(); ++t) {
    const std::uint32_t row = works.row_of(t);
    if (row < measured.size()) measured[row] += static_cast<double>(graph->cost[t]);
  }
  fmt::print(
      "event,family,known,measured_us,predicted_us,sigma,flops,bytes,tf32,fp16,bf16,nhwc,x2,xh,copies,copies_us\n");
  for (std::size_t row = 0; row < works.size(); ++row) print_row(works[row], measured[row], *device);
  return 0;
}
