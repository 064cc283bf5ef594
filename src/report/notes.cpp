#include "report/notes.hpp"

#include <fmt/format.h>

#include "base/readable.hpp"

namespace foretrace::report {

using graph::Graph;

std::vector<std::string> sentences(const Graph::Notes& n) {
  std::vector<std::string> out;
  if (n.waited > 0) {
    out.push_back(fmt::format("the step waited {} ms for GPU work that is not in the file; that time is left out",
                              format_ms(n.waited)));
  }
  if (n.startup.time() > 0) {
    out.push_back(fmt::format("{} ms of start-up work are taken out of the step", format_ms(n.startup.time())));
  }
  if (n.unexplained_lags > 0) {
    out.push_back(
        fmt::format("{} started over 20 us late without a known cause, {} ms in all; these delays stay as "
                    "measured, so that no what-if shortens them",
                    plural(n.unexplained_lags, "GPU task"), format_ms(n.unexplained_time)));
  }
  if (n.refuted_waits > 0) {
    out.push_back(fmt::format("{} inferred from the order of calls and contradicted by the measured times: left out",
                              plural(n.refuted_waits, "stream wait was", "stream waits were")));
  }
  if (n.dropped_soft > 0) {
    out.push_back(fmt::format("{} about which task made room on the GPU contradicted the program's order: left out",
                              plural(n.dropped_soft, "inference")));
  }
  if (n.border_tasks > 0) {
    out.push_back(
        fmt::format("{} launched before the step, or without a recorded launch, ran in it: kept at the measured "
                    "time",
                    plural(n.border_tasks, "GPU task")));
  }
  if (n.orphans > 0) {
    out.push_back(fmt::format("{} in the trace without a recorded launch: no operation, layer or phase",
                              plural(n.orphans, "GPU task")));
  }
  if (n.inferred_launches > 0) {
    out.push_back(fmt::format("{} without a recorded launch waited for the CPU, judging by the times",
                              plural(n.inferred_launches, "GPU task")));
  }
  if (n.unrecorded_tasks > 0) {
    out.push_back(
        fmt::format("{} of GPU time inside CUDA graphs whose nodes were not recorded: the GPU counts as "
                    "busy there",
                    plural(n.unrecorded_tasks, "stretch", "stretches")));
  }
  if (n.early_kernels > 0) {
    out.push_back(fmt::format("{} before the launch call did: the clocks of CPU and GPU disagree",
                              plural(n.early_kernels, "GPU task starts", "GPU tasks start")));
  }
  if (n.foreign_events > 0) {
    out.push_back(fmt::format("{} of other processes in the file: left out", plural(n.foreign_events, "event")));
  }
  return out;
}

void write_json(JsonWriter& json, const Graph::Notes& n) {
  json.begin_object().member("unexplained_lags", n.unexplained_lags);
  json.member_ms("unexplained_ms", n.unexplained_time).member("refuted_waits", n.refuted_waits);
  json.member("dropped_shares", n.dropped_soft).member("border_tasks", n.border_tasks).member("orphans", n.orphans);
  json.member("early_kernels", n.early_kernels).member("foreign_events", n.foreign_events);
  json.member("inferred_launches", n.inferred_launches).member("unrecorded_tasks", n.unrecorded_tasks);
  json.member("queue_depth_measured", n.queue_depth_measured).member_ms("waited_ms", n.waited);
  json.member_ms("startup_ms", n.startup.time()).member_ms("allocator_ms", n.allocator).end_object();
}

}  // namespace foretrace::report
