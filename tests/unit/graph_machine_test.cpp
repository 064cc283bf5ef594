// A machine of our own, simple enough to be right: it runs random programs and writes their traces. A graph built from such
// a trace must replay it exactly, and must give, with other costs, exactly what the machine does with those costs.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <optional>

#include "foretrace/simulate/simulate.hpp"
#include "trace/latencies.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

// What the builder assumes where a trace shows nothing else: the machine has just these, so that nothing is guessed.
const Ns kLatency = trace::default_latencies().launch_latency;
const Ns kGap = trace::default_latencies().kernel_gap;
constexpr Ns kNodeGap = 400;  // inside a CUDA graph
const Ns kSync = trace::default_latencies().sync_call;
constexpr Ns kHandOver = 40'000;
constexpr Ns kJoin = 12'000;

struct Action {
  enum Kind : std::uint8_t { kOp, kLaunch, kSyncStream, kSyncDevice, kWait, kHand, kBack, kGraph, kCopy } kind;
  int stream = 7;
  int other = 7;  ///< of kWait: the stream waited for
  Ns cost = 0;    ///< of the operation or call
  Ns kernel = 0;
};
using Program = std::vector<Action>;

struct Execution {
  TraceMaker trace;
  std::map<std::string, Ns> start;  ///< of kernels and operations by name
  Ns end = 0;
};

Execution execute(const Program& program) {
  Execution out;
  Ns main = 0;
  Ns helper = 0;
  bool handed = false;
  std::map<int, Ns> stream_end;  // end of the last kernel
  std::map<int, Ns> held_until;  // stream waits: earliest start of the next kernel
  int id = 0;
  // When a task of this stream that was launched by `at` starts.
  const auto starts = [&](int stream, Ns at) {
    Ns start = at;
    if (const auto it = stream_end.find(stream); it != stream_end.end()) start = std::max(start, it->second + kGap);
    if (const auto it = held_until.find(stream); it != held_until.end()) start = std::max(start, it->second);
    held_until.erase(stream);
    return start;
  };
  for (const Action& a : program) {
    ++id;
    Ns& cpu = handed ? helper : main;
    const Ns begin = cpu;
    out.trace.thread(handed ? 2 : 1);
    switch (a.kind) {
      case Action::kOp:
        cpu += a.cost;
        out.start[fmt::format("op{}", id)] = begin;
        out.trace.op(fmt::format("op{}", id), begin, cpu);
        break;
      case Action::kLaunch: {
        cpu += a.cost;
        const Ns start = starts(a.stream, cpu + kLatency);
        out.start[fmt::format("k{}", id)] = start;
        stream_end[a.stream] = start + a.kernel;
        out.trace.launch(id, {begin, cpu}, fmt::format("k{}", id), {start, start + a.kernel}, a.stream);
        break;
      }
      case Action::kSyncStream:
      case Action::kSyncDevice: {
        Ns until = begin + kSync;
        for (const auto& [stream, end] : stream_end) {
          if (a.kind == Action::kSyncDevice || stream == a.stream) until = std::max(until, end + kSync);
        }
        cpu = until;
        const bool all = a.kind == Action::kSyncDevice;
        out.trace.call(all ? "cudaDeviceSynchronize" : "cudaStreamSynchronize", {begin, cpu}, id);
        if (!all) out.trace.sync_row("Stream Sync", {begin, cpu}, id, a.stream);
        break;
      }
      case Action::kWait:
        cpu += 2'000;
        out.trace.record(begin, id * 1000).stream_wait(begin + 1'000, id * 1000 + 1, a.stream, a.other, id * 1000);
        if (const auto it = stream_end.find(a.other); it != stream_end.end() && a.other != a.stream) {
          held_until[a.stream] = std::max(held_until[a.stream], it->second + kGap);
        }
        break;
      case Action::kGraph: {
        cpu += a.cost;
        Ns at = starts(a.stream, cpu + kLatency);
        out.trace.call("cudaGraphLaunch", {begin, cpu}, id);
        for (int node = 0; node < 3; ++node) {
          out.trace.kernel(id, fmt::format("g{}.{}", id, node), {at, at + a.kernel}, a.stream);
          at += a.kernel + kNodeGap;
        }
        stream_end[a.stream] = at - kNodeGap;
        break;
      }
      case Action::kCopy: {  // its call lasts until the copy is done
        const Ns start = starts(a.stream, begin + a.cost);
        const Ns end = start + a.kernel / 10;
        cpu = end + kSync;
        out.trace.call("cudaMemcpyAsync", {begin, cpu}, id)
            .copy(id, "Memcpy DtoH (Device -> Pageable)", {start, end}, a.stream);
        stream_end[a.stream] = end;
        break;
      }
      case Action::kHand:
        helper = std::max(helper, main + kHandOver);
        handed = true;
        break;
      case Action::kBack:
        main = helper + kJoin;
        handed = false;
        break;
    }
  }
  out.end = main;
  out.trace.thread(1).step(1, 0, main);
  return out;
}

Program draw_program(bool with_waits) {
  // One call that waited, so that the trace shows how long after its work such a call returns.
  Program p = {{Action::kOp, 7, 7, 10'000, 0}, {Action::kLaunch, 7, 7, 5'000, 50'000}, {Action::kSyncDevice}};
  const auto cost = [](Ns high) { return *rc::gen::inRange<Ns>(1'000, high); };
  const auto add = [&](bool main) {
    const int kind = *rc::gen::inRange(0, main ? 10 : 7);
    Action a{Action::kOp};
    a.stream = *rc::gen::element(7, 8, 9);
    a.other = *rc::gen::element(7, 8, 9);
    a.cost = cost(30'000);
    a.kernel = cost(120'000);
    if (kind >= 3) a.kind = Action::kLaunch;
    if (kind == 6 && with_waits) a.kind = Action::kWait;
    if (kind == 7) a.kind = Action::kSyncStream;
    if (kind == 8) a.kind = Action::kSyncDevice;
    p.push_back(a);
  };
  const int parts = *rc::gen::inRange(1, 4);
  for (int part = 0; part < parts; ++part) {
    const int length = *rc::gen::inRange(1, 25);
    for (int i = 0; i < length; ++i) add(true);
    if (part + 1 == parts) break;
    // Another thread works while the main one waits; it launches something, or nobody would wait for it.
    p.push_back({Action::kOp, 7, 7, cost(20'000), 0});
    p.push_back({Action::kHand});
    p.push_back({Action::kOp, 7, 7, cost(20'000), 0});
    p.push_back({Action::kLaunch, 7, 7, cost(20'000), cost(100'000)});
    const int inner = *rc::gen::inRange(0, 12);
    for (int i = 0; i < inner; ++i) add(false);
    p.push_back({Action::kBack});
    p.push_back({Action::kOp, 7, 7, cost(20'000), 0});
  }
  p.push_back({Action::kSyncDevice});
  return p;
}

TEST(GraphMachine, TracesReplayExactly) {
  EXPECT_TRUE(rc::check("identity", [] {
    const Execution run = execute(draw_program(true));
    const Replay r(run.trace);
    RC_ASSERT(r.step() == run.end);
    RC_ASSERT(r.graph.notes.refuted_waits == 0U);
    for (const auto& [name, start] : run.start) RC_ASSERT(r.start(name) == start);
  }));
}

// Everything that can keep work waiting for long: a stream in front, other streams, graphs, copies that block, threads.
Program draw_waiting_program() {
  Program p = draw_program(true);
  const int more = *rc::gen::inRange(1, 20);
  for (int i = 0; i < more; ++i) {
    Action a{*rc::gen::element(Action::kGraph, Action::kCopy, Action::kLaunch, Action::kLaunch)};
    a.stream = *rc::gen::element(7, 8, 9);
    a.cost = *rc::gen::inRange<Ns>(2'000, 12'000);
    a.kernel = *rc::gen::inRange<Ns>(1'000, 900'000);
    p.push_back(a);
  }
  p.push_back({Action::kSyncDevice});
  return p;
}

TEST(GraphMachine, NoWaitBecomesADistance) {
  EXPECT_TRUE(rc::check("every lag of more than 50 us has a cause", [] {
    const Execution run = execute(draw_waiting_program());
    const Replay r(run.trace);
    RC_ASSERT(r.step() == run.end);
    RC_ASSERT(simulate::long_lags(r.graph).empty());
    // So that the step comes down to gaps, latencies and hand-overs when nothing costs anything.
    graph::Graph free = r.graph;
    for (Ns& cost : free.cost) cost = 0;
    const Ns per_task = kSync + kGap + kLatency;
    RC_ASSERT(Replay(free).step() <= static_cast<Ns>(free.size()) * per_task + 4 * (kHandOver + kJoin));
  }));
}

TEST(GraphMachine, OtherCostsGiveWhatTheMachineGives) {
  EXPECT_TRUE(rc::check("other costs", [] {
    const Program program = draw_program(false);
    const Replay r(execute(program).trace);
    Program changed = program;
    graph::Graph g = r.graph;
    for (std::size_t i = 0; i < changed.size(); ++i) {
      Action& a = changed[i];
      if (a.kind == Action::kOp) {
        a.cost = a.cost * *rc::gen::inRange(1, 30) / 10;
        g.cost[r.task(fmt::format("op{}", i + 1))] = a.cost;
      } else if (a.kind == Action::kLaunch) {
        a.kernel = a.kernel * *rc::gen::inRange(1, 30) / 10;
        a.cost = a.cost * *rc::gen::inRange(1, 30) / 10;
        const std::uint32_t kernel = r.task(fmt::format("k{}", i + 1));
        g.cost[kernel] = a.kernel;
        g.cost[g.launch[kernel].index()] = a.cost;
      }
    }
    const Execution expected = execute(changed);
    const Replay predicted(g);
    for (const auto& [name, start] : expected.start) RC_ASSERT(predicted.start(name) == start);
    RC_ASSERT(predicted.step() == expected.end);
  }));
}

}  // namespace
}  // namespace foretrace::test
