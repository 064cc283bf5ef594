#pragma once
// Small traces written by hand, as Kineto JSON, and the graphs of their steps. Times are nanoseconds from the trace's start;
// the main thread is 1 of process 1, the GPU is device 0.
//
//   TraceMaker m;
//   m.step(3, 0, 100'000);
//   m.launch(1, {10'000, 15'000}, "gemm", {17'000, 40'000});        // call 10-15 us, kernel on stream 7 17-40 us
//   Replay r(m);                                                     // graph of the first step, simulated
//   r.start("gemm"), r.step()
//
// What a test changes is a cost: r.with("gemm", 5'000).start("next").

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::test {

struct Span {
  Ns begin, end;
};

/// Launch geometry that fills `waves` waves of blocks where an SM holds 2048 threads (32 blocks of 64).
struct Waves {
  double waves = 0;
};

class TraceMaker {
 public:
  int pid = 1;  ///< of CPU events written from here on
  int tid = 1;
  int device = 0;
  std::string properties;  ///< of GPUs, as an array's text; none unless given
  std::string head;        ///< of the file: more members in front of the events, each with a comma behind it

  TraceMaker& thread(int id) {
    tid = id;
    return *this;
  }
  TraceMaker& step(int number, Ns begin, Ns end) {
    return event("user_annotation", fmt::format("ProfilerStep#{}", number), pid, tid, {begin, end}, "");
  }
  TraceMaker& range(std::string_view name, Ns begin, Ns end) {
    return event("user_annotation", name, pid, tid, {begin, end}, "");
  }
  TraceMaker& frame(std::string_view name, Ns begin, Ns end) {
    return event("python_function", name, pid, tid, {begin, end}, "");
  }
  TraceMaker& op(std::string_view name, Ns begin, Ns end, int sequence = -1) {
    return event("cpu_op", name, pid, tid, {begin, end},
                 sequence < 0 ? "" : fmt::format("\"Sequence number\":{}", sequence));
  }
  TraceMaker& call(std::string_view name, Span s, int correlation = 0) {
    return event("cuda_runtime", name, pid, tid, s, fmt::format("\"correlation\":{}", correlation));
  }
  TraceMaker& kernel(int correlation, std::string_view name, Span s, int stream = 7, Waves w = {}) {
    std::string args = fmt::format("\"stream\":{},\"device\":{},\"correlation\":{}", stream, device, correlation);
    if (w.waves > 0) {
      args += fmt::format(",\"grid\":[1,1,1],\"block\":[64,1,1],\"blocks per SM\":{},\"est. achieved occupancy %\":100",
                          w.waves * 32);
    }
    return event("kernel", name, device, stream, s, args);
  }
  TraceMaker& copy(int correlation, std::string_view name, Span s, int stream = 7) {
    return event(
        "gpu_memcpy", name, device, stream, s,
        fmt::format("\"stream\":{},\"device\":{},\"correlation\":{},\"bytes\":4", stream, device, correlation));
  }
  /// A launch call and its kernel.
  TraceMaker& launch(int correlation, Span of_call, std::string_view name, Span of_kernel, int stream = 7,
                     Waves w = {}) {
    call("cudaLaunchKernel", of_call, correlation);
    return kernel(correlation, name, of_kernel, stream, w);
  }
  TraceMaker& queue_full(Ns begin, Ns end) { return event("overhead", "Command Buffer Full", -1, 0, {begin, end}, ""); }
  TraceMaker& record(Ns begin, int correlation) { return call("cudaEventRecord", {begin, begin + 1'000}, correlation); }
  /// A wait on `stream`; the row names the stream waited for and the record where they are given.
  TraceMaker& stream_wait(Ns begin, int correlation, int stream, int on_stream = -1, int on_record = -1) {
    call("cudaStreamWaitEvent", {begin, begin + 1'000}, correlation);
    return sync_row("Stream Wait Event", {begin, begin + 1'000}, correlation, stream, on_stream, on_record);
  }
  TraceMaker& sync_row(std::string_view kind, Span s, int correlation, int stream, int on_stream = -1,
                       int on_record = -1) {
    return event(
        "cuda_sync", kind, device, stream, s,
        fmt::format("\"cuda_sync_kind\":\"{}\",\"stream\":{},\"correlation\":{},\"device\":{},\"wait_on_stream\":{},"
                    "\"wait_on_cuda_event_record_corr_id\":{},\"wait_on_cuda_event_id\":1",
                    kind, stream, correlation, device, on_stream, on_record));
  }
  TraceMaker& event(std::string_view category, std::string_view name, int p, int t, Span s, std::string_view args) {
    if (!events_.empty()) events_ += ",\n";
    events_ += fmt::format(
        R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},"args":{{{}}}}})", category,
        name, p, t, s.begin / 1000, s.begin % 1000, (s.end - s.begin) / 1000, (s.end - s.begin) % 1000, args);
    return *this;
  }

  [[nodiscard]] std::string json() const {
    const std::string gpus = properties.empty() ? "" : fmt::format("\"deviceProperties\":{},", properties);
    return "{\"schemaVersion\":1," + head + gpus + "\"traceEvents\":[\n" + events_ + "\n]}\n";
  }
  [[nodiscard]] trace::Trace load() const {
    Result<trace::Trace> trace = trace::load_bytes(json(), "made.json", {});
    if (!trace) {
      ADD_FAILURE() << trace.error().to_string();
      return {};
    }
    EXPECT_EQ(trace->diagnostics.lost_records(), 0U);
    return std::move(*trace);
  }

 private:
  std::string events_;
};

/// A graph with its simulation, and answers by the name of a task.
class Replay {
 public:
  explicit Replay(graph::Graph made) : graph(std::move(made)) { run(); }
  explicit Replay(const TraceMaker& maker, std::size_t which = 0, const graph::BuildOptions& options = {}) {
    const trace::Trace trace = maker.load();
    const trace::Steps steps = trace::find_steps(trace);
    Result<graph::Graph> built = graph::GraphBuilder(trace, steps).build(which, options);
    if (!built) {
      ADD_FAILURE() << built.error().to_string();
      return;
    }
    graph = std::move(*built);
    run();
  }
  static Replay without(const TraceMaker& maker, graph::DependencyKind kind, std::size_t which = 0) {
    graph::BuildOptions options;
    options.without = {kind};
    return Replay(maker, which, options);
  }

  /// Task number `nth` of this name, in order of id.
  [[nodiscard]] std::uint32_t task(std::string_view name, std::size_t nth = 0) const {
    for (std::uint32_t t = 0; t < graph.size(); ++t) {
      if (graph.task_name(t) == name && nth-- == 0) return t;
    }
    ADD_FAILURE() << "no task " << name << " in\n" << graph::dump(graph);
    return 0;
  }
  [[nodiscard]] std::size_t count(std::string_view name) const {
    std::size_t n = 0;
    for (std::uint32_t t = 0; t < graph.size(); ++t) n += graph.task_name(t) == name ? 1U : 0U;
    return n;
  }
  [[nodiscard]] Ns start(std::string_view name, std::size_t nth = 0) const { return timeline.start[task(name, nth)]; }
  [[nodiscard]] Ns end(std::string_view name, std::size_t nth = 0) const { return timeline.end[task(name, nth)]; }
  [[nodiscard]] Ns cost(std::string_view name, std::size_t nth = 0) const { return graph.cost[task(name, nth)]; }
  [[nodiscard]] graph::DependencyKind why(std::string_view name, std::size_t nth = 0) const {
    return timeline.cause_kind[task(name, nth)];
  }
  [[nodiscard]] Ns step() const { return timeline.step; }
  /// When the first call of this name that may wait returns.
  [[nodiscard]] Ns released(std::string_view name) const {
    for (std::uint32_t t = 0; t < graph.size(); ++t) {
      if (graph.kind[t] == graph::TaskKind::kWait && graph.task_name(t) == name) return timeline.start[t];
    }
    ADD_FAILURE() << name << " does not wait in\n" << graph::dump(graph);
    return 0;
  }

  /// The same graph with another cost of one task.
  [[nodiscard]] Replay with(std::string_view name, Ns cost, std::size_t nth = 0) const {
    graph::Graph changed = graph;
    changed.cost[task(name, nth)] = cost;
    return Replay(std::move(changed));
  }
  [[nodiscard]] std::size_t dependencies(graph::DependencyKind kind) const {
    std::size_t n = 0;
    for (const graph::DependencyKind k : graph.dep_kind) n += k == kind ? 1U : 0U;
    return n;
  }

  graph::Graph graph;
  simulate::Timeline timeline;

 private:
  void run() {
    const Status sound = graph::verify(graph);
    if (!sound) {
      ADD_FAILURE() << sound.error().to_string();
      return;
    }
    timeline = simulate::simulate(graph);
  }
};

/// Every task starts where it was measured: the identity replay.
inline void expect_as_measured(const Replay& r) {
  for (std::uint32_t t = 0; t < r.graph.size(); ++t) {
    EXPECT_EQ(r.timeline.start[t], r.graph.measured[t]) << "task " << t << " " << r.graph.task_name(t) << " in\n"
                                                        << graph::dump(r.graph);
  }
  EXPECT_EQ(r.step(), r.graph.traced) << graph::dump(r.graph);
}

}  // namespace foretrace::test
