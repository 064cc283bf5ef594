#pragma once
// Jobs of several ranks written as scripts: each rank computes and communicates in the order given, and times follow from who waits
// for whom.
//
//   ScriptedJob m(2);
//   m.compute(0, "gemm", kNsPerMs);
//   m.batch(0, {{.to = 1, .elements = 1000}});          // batch_isend_irecv of rank 0: one send
//   m.batch(1, {{.from = 0, .elements = 1000}});
//   m.groups["tp"] = {0, 1};
//   m.collective(0, {.group = "tp", .name = "allreduce", .elements = 100});
//   ranks::Job job = m.job();

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "foretrace/ranks/job.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::test {

class ScriptedJob {
 public:
  explicit ScriptedJob(std::size_t ranks) : offset(ranks, 0), pair_group(ranks, "0"), script_(ranks), lines_(ranks) {
    for (std::size_t r = 0; r < ranks; ++r) groups["0"].push_back(static_cast<int>(r));
  }

  struct Message {
    int from = -1, to = -1;  ///< one of them; the other one is the rank itself
    int elements = 1'000'000;
  };
  struct Call {
    std::string group = "0";
    std::string name = "allreduce";
    int elements = 1'000'000;  ///< of the input
    int out_elements = 0;      ///< 0: as many
    std::string dtype = "Float";
    bool overlaps = false;  ///< what follows does not wait for it
    std::string dims = {};  ///< of the tensor, "[[[8, 1024, 64]]]"; empty: not recorded
  };

  std::vector<Ns> offset;  ///< per rank: what its clock is ahead
  Ns transfer = 200 * kNsPerUs;
  bool places = false;                              ///< partners are written by their place in the group
  bool buffered = false;                            ///< sends end without their receivers
  bool coalesced = true;                            ///< false: kernels of single sends and receives describe themselves
  std::vector<std::string> pair_group;              ///< per rank: the group its sends and receives are of
  std::map<std::string, std::vector<int>> groups;   ///< their ranks; "0" has all
  std::map<std::string, std::string> descriptions;  ///< of groups
  int world = 0;                                    ///< 0: as many as there are ranks

  /// On the CPU a forward operation, or a backward one of the autograd thread.
  void compute(std::size_t rank, std::string kernel, Ns takes, bool backward = false, std::string op = "aten::mm") {
    script_[rank].push_back({std::move(kernel), takes, backward, {}, {}, false, std::move(op)});
  }
  void batch(std::size_t rank, std::vector<Message> messages) {
    script_[rank].push_back({"", 0, false, std::move(messages), {}, false});
  }
  void collective(std::size_t rank, Call call, bool backward = false) {
    script_[rank].push_back({"", 0, backward, {}, std::move(call), true});
  }
  /// Ends a step on all ranks.
  void step() {
    run();
    for (std::size_t r = 0; r < script_.size(); ++r) {
      const Ns end = std::max({now_[r], gpu_[r], network_[r]}) + 3'000;
      put(r, "cuda_runtime", "cudaDeviceSynchronize", now_[r], end - now_[r], kMain,
          fmt::format("\"correlation\":{}", ++correlation_));
      put(r, "user_annotation", fmt::format("ProfilerStep#{}", step_), begin_[r], end + 2'000 - begin_[r], kMain, "");
      begin_[r] = now_[r] = gpu_[r] = network_[r] = end + 3'000;
    }
    ++step_;
  }

  std::vector<std::string> texts() {
    std::vector<std::string> out;
    for (std::size_t r = 0; r < lines_.size(); ++r) {
      std::string listed;
      for (const auto& [name, ranks] : groups) {
        if (std::find(ranks.begin(), ranks.end(), static_cast<int>(r)) == ranks.end()) continue;
        const auto described = descriptions.find(name);
        listed += fmt::format(
            R"({}{{"pg_name":"{}","pg_desc":"{}","pg_size":{},"ranks":[{}]}})", listed.empty() ? "" : ",", name,
            described == descriptions.end() ? "undefined" : described->second, ranks.size(), fmt::join(ranks, ","));
      }
      out.push_back(fmt::format(
          R"({{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{},"world_size":{},"pg_config":[{}]}},)"
          "\"traceEvents\":[\n{}\n]}}\n",
          r, world > 0 ? world : static_cast<int>(lines_.size()), listed, lines_[r]));
    }
    return out;
  }

  std::vector<trace::Trace> traces() {
    std::vector<trace::Trace> out;
    std::size_t r = 0;
    for (const std::string& text : texts()) {
      auto trace = trace::load_bytes(text, fmt::format("rank{}.json", r++), {});
      EXPECT_TRUE(trace) << trace.error().to_string();
      if (trace) out.push_back(std::move(*trace));
    }
    return out;
  }
  ranks::Job job() {
    auto made = ranks::assemble(traces());
    EXPECT_TRUE(made) << made.error().to_string();
    return std::move(*made);
  }

 private:
  static constexpr int kMain = 1, kAutograd = 2, kCompute = 7, kNetwork = 20;
  struct Act {
    std::string kernel;
    Ns takes = 0;
    bool backward = false;
    std::vector<Message> messages;
    Call call;
    bool collective = false;
    std::string op = "aten::mm";
  };
  /// An act whose ranks are not all there yet.
  struct Waiting {
    Act act;
    Ns arrived = 0, launched = 0;
    int correlation = 0;
  };

  void run() {
    const std::size_t n = script_.size();
    for (auto* times : {&begin_, &now_, &gpu_, &network_}) times->resize(n, 0);
    std::vector<std::deque<Waiting>> open(n);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < n; ++r) {
        while (open[r].empty() && !script_[r].empty()) {
          start(r, open[r]);
          moved = true;
        }
        if (!open[r].empty() && meet(r, open)) moved = true;
      }
    }
    for (std::size_t r = 0; r < n; ++r)
      EXPECT_TRUE(script_[r].empty() && open[r].empty()) << "the script hangs on " << r;
  }

  void start(std::size_t r, std::deque<Waiting>& open) {
    Act act = std::move(script_[r].front());
    script_[r].pop_front();
    const int thread = act.backward ? kAutograd : kMain;
    const Ns call = now_[r] + 2'000;
    const int id = ++correlation_;
    if (!act.collective && act.messages.empty()) {
      if (act.backward) {
        put(r, "cpu_op", "autograd::engine::evaluate_function: MmBackward0", now_[r] - 500, 10'000, thread,
            fmt::format("\"Sequence number\":{}", id));
      }
      put(r, "cpu_op", act.op, now_[r], 9'000, thread, fmt::format("\"Sequence number\":{}", id));
      launch(r, id, call, thread);
      gpu_[r] = std::max(gpu_[r], call + 6'500);
      kernel(r, act.kernel, gpu_[r], act.takes, kCompute, id, "");
      gpu_[r] += act.takes + 1'200;
    } else {
      if (act.collective) {
        record(r, act.call, now_[r], thread);
      } else {
        Ns at = now_[r] - 30'000;
        for (const Message& m : act.messages) record(r, m, at += 8'000, thread);
      }
      launch(r, id, call, thread);
      const Ns arrived = std::max({gpu_[r], network_[r], call + 6'500});
      open.push_back({std::move(act), arrived, call, id});
    }
    now_[r] += 40'000;
  }

  using End = std::tuple<int, int, bool>;  // from, to, the sending end
  static End end_of(std::size_t r, const Message& m) {
    const auto me = static_cast<int>(r);
    return m.to >= 0 ? End(me, m.to, true) : End(m.from, me, false);
  }

  // Lets the act of a rank go on once all it waits for are there.
  bool meet(std::size_t r, std::vector<std::deque<Waiting>>& open) {
    Waiting& mine = open[r].front();
    Ns met = mine.arrived;
    if (mine.act.collective) {
      for (const int q : members(mine.act.call)) {
        const auto& theirs = open[static_cast<std::size_t>(q)];
        if (theirs.empty() || !theirs.front().act.collective || theirs.front().act.call.group != mine.act.call.group)
          return false;
        met = std::max(met, theirs.front().arrived);
      }
      for (const int q : members(mine.act.call)) finish(static_cast<std::size_t>(q), met + transfer, open);
      return true;
    }
    // A message is there when its partner has come as far; sends of buffered jobs need nobody.
    for (const Message& m : mine.act.messages) {
      const std::pair noted(mine.correlation, end_of(r, m));
      if (!number_.contains(noted)) {
        number_[noted] = came_[noted.second].size();
        came_[noted.second].push_back(mine.arrived);
      }
    }
    for (const Message& m : mine.act.messages) {
      const auto [from, to, sends] = end_of(r, m);
      if (buffered && sends) continue;
      const std::vector<Ns>& theirs = came_[{from, to, !sends}];
      const std::size_t number = number_.at({mine.correlation, {from, to, sends}});
      if (theirs.size() <= number) return false;
      met = std::max(met, theirs[number]);
    }
    finish(r, met + transfer, open);
    return true;
  }

  void finish(std::size_t r, Ns end, std::vector<std::deque<Waiting>>& open) {
    const Waiting done = std::move(open[r].front());
    open[r].pop_front();
    const bool single = !done.act.collective && done.act.messages.size() == 1 && !coalesced;
    const std::string info = done.act.collective ? info_of(done.act.call)
                             : single            ? info_of(r, done.act.messages[0])
                                                 : std::string();
    const std::string name =
        !done.act.collective                                         ? "ncclDevKernel_SendRecv"
        : done.act.call.name.find("gather") != std::string::npos     ? "ncclDevKernel_AllGather_RING_LL"
        : done.act.call.name.find("scatter") != std::string::npos    ? "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"
        : done.act.call.name.find("all_to_all") != std::string::npos ? "ncclDevKernel_SendRecv"
                                                                     : "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    kernel(r, name, done.arrived, end - done.arrived, kNetwork, done.correlation, info);
    network_[r] = end + 1'200;
    if (!done.act.call.overlaps) gpu_[r] = std::max(gpu_[r], end + 1'200);
  }

  const std::vector<int>& members(const Call& call) { return groups.at(call.group); }

  std::string info_of(const Call& c) {
    const std::vector<int>& ranks = members(c);
    return fmt::format(R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":{},"dtype":"{}",)"
                       R"("Process Group Name":"{}","Process Group Ranks":"[{}]")",
                       c.name, c.elements, c.out_elements > 0 ? c.out_elements : c.elements, ranks.size(), c.dtype,
                       c.group, fmt::join(ranks, ", "));
  }
  std::string info_of(std::size_t r, const Message& m) {
    const std::vector<int>& ranks = groups.at(pair_group[r]);
    const bool sends = m.to >= 0;
    int partner = sends ? m.to : m.from;
    if (places) partner = static_cast<int>(std::find(ranks.begin(), ranks.end(), partner) - ranks.begin());
    return fmt::format(
        R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":{},"dtype":"Float",)"
        R"("Process Group Name":"{}","Process Group Ranks":"[{}]","{}":{})",
        sends ? "send" : "recv", m.elements, m.elements, ranks.size(), pair_group[r], fmt::join(ranks, ", "),
        sends ? "Dst Rank" : "Src Rank", partner);
  }

  void record(std::size_t r, const Call& c, Ns at, int thread) {
    const std::string dims =
        c.dims.empty() ? "" : fmt::format(R"(,"Input Dims":{},"Input type":["TensorList"])", c.dims);
    put(r, "cpu_op", "record_param_comms", at, 25'000, thread, info_of(c).substr(1) + dims);
  }
  void record(std::size_t r, const Message& m, Ns at, int thread) {
    put(r, "cpu_op", "record_param_comms", at, 5'000, thread, info_of(r, m).substr(1));
  }
  void launch(std::size_t r, int id, Ns at, int thread) {
    put(r, "cuda_runtime", "cudaLaunchKernel", at, 5'000, thread, fmt::format("\"correlation\":{}", id));
  }
  void kernel(std::size_t r, const std::string& name, Ns at, Ns takes, int stream, int id, const std::string& info) {
    put(r, "kernel", name, at, takes, stream,
        fmt::format("\"stream\":{},\"device\":0,\"correlation\":{}{}", stream, id, info), 0);
  }
  void put(std::size_t r, std::string_view category, std::string_view what, Ns at, Ns takes, int tid,
           const std::string& args, int pid = 1) {
    const Ns shown = at + kNsPerSecond + offset[r];
    lines_[r] += fmt::format(
        R"({}{{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},"args":{{{}}}}})",
        lines_[r].empty() ? "" : ",\n", category, what, pid, tid, shown / 1000, shown % 1000, takes / 1000,
        takes % 1000, args);
  }

  std::vector<std::deque<Act>> script_;
  std::vector<std::string> lines_;
  std::vector<Ns> begin_, now_, gpu_, network_;
  std::map<End, std::vector<Ns>> came_;
  std::map<std::pair<int, End>, std::size_t> number_;  // of a kernel's message among those of its pair
  int correlation_ = 0, step_ = 3;
};

}  // namespace foretrace::test
