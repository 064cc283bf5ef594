#pragma once
// Jobs of several ranks written by hand: every rank computes, then meets the others in collectives. Times come out of a few
// rules (arrival = own compute, end = last arrival + transfer + own tail), so tests know every wait and transfer exactly.
//
//   JobMaker m(4);                       // four ranks, one group
//   m.compute[2] = 3 * kNsPerMs;         // rank 2 is slow
//   ranks::Job job = m.job();            // traces of all ranks, clocks as m.offset says
//   m.waited[0], m.transferred

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "foretrace/ranks/job.hpp"
#include "foretrace/trace/load.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::test {

class JobMaker {
 public:
  explicit JobMaker(std::size_t ranks)
      : compute(ranks, kNsPerMs), data(ranks, 0), launch(ranks, 5 * kNsPerUs), offset(ranks, 0), drift_ppm(ranks, 0) {}

  std::vector<Ns> compute;        ///< per rank: of its kernel before every collective
  std::vector<Ns> data;           ///< per rank: its data loader at the begin of a step
  std::vector<Ns> launch;         ///< per rank: CPU time before every launch
  std::vector<Ns> offset;         ///< per rank: what its clock is ahead
  std::vector<double> drift_ppm;  ///< per rank
  int steps = 1;
  int first_step = 3;
  int collectives = 2;  ///< per step
  Ns transfer = 200 * kNsPerUs;
  Ns period = 0;  ///< steps begin so far apart; 0: one after another
  Ns noise = 0;   ///< standard deviation of ends
  std::string name = "allreduce";
  std::string kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
  bool metadata = true;            ///< false: kernels carry no description of their collective
  bool sync = true;                ///< false: nothing waits for the GPU at the end of a step
  std::vector<int> shift;          ///< per rank: its profiler counts steps from so much later; empty: alike
  int world = 0;                   ///< 0: as many as there are ranks
  std::vector<int> group;          ///< per rank: its process group; empty: one for all
  std::vector<Ns> group_transfer;  ///< per group, instead of `transfer`
  std::vector<int> cut;            ///< per rank: only so many steps; empty: all

  std::vector<std::string> texts() {
    const std::size_t n = compute.size();
    std::mt19937 random(7);
    std::normal_distribution<double> normal;  // of deviation 1: without noise there is no other
    std::vector<std::string> events(n);
    std::vector<Ns> now(n, 0), free(n, 0);
    std::vector<int> correlation(n, 0);
    Ns begin_all = 0;
    for (int s = 0; s < steps; ++s) {
      std::vector<Ns> begin(n), gpu(n);
      if (period > 0) begin_all = std::max(begin_all, s * period);
      for (std::size_t r = 0; r < n; ++r) {
        begin[r] = now[r] = std::max(now[r], begin_all);
        gpu[r] = std::max(free[r], now[r]);
        if (data[r] > 0)
          put(events, r, s, "cpu_op", "enumerate(DataLoader)#_Next.__next__", false, {now[r], now[r] + data[r]});
        now[r] += data[r];
      }
      for (int c = 0; c < collectives; ++c) {
        std::vector<Ns> arrive(n);
        for (std::size_t r = 0; r < n; ++r) {
          const Ns call = now[r] + launch[r];
          put(events, r, s, "cpu_op", "aten::mm", false, {now[r], call + 5'000});
          gpu[r] = std::max(gpu[r], call + 6'500);
          launched(events, r, s, ++correlation[r], call, "gemm", {gpu[r], gpu[r] + compute[r]}, "");
          gpu[r] += compute[r] + 1'200;
          arrive[r] = std::max(gpu[r], call + 11'500);
          now[r] = call + 10'000;
        }
        for (std::size_t r = 0; r < n; ++r) {
          Ns met = 0;
          for (std::size_t q = 0; q < n; ++q) {
            if (group_of(q) == group_of(r)) met = std::max(met, arrive[q]);
          }
          const Ns moves = group_transfer.empty() ? transfer : group_transfer[static_cast<std::size_t>(group_of(r))];
          const Ns end =
              met + moves + static_cast<Ns>(noise > 0 ? std::abs(static_cast<double>(noise) * normal(random)) : 0);
          const std::string info =
              metadata
                  ? fmt::format(R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":{},)"
                                R"("dtype":"Float","Process Group Name":"{}","Process Group Ranks":"[all]")",
                                name, 1000 * (c + 1), 1000 * (c + 1), n, group_of(r))
                  : "";
          launched(events, r, s, ++correlation[r], now[r] - 5'000, kernel, {arrive[r], end}, info);
          gpu[r] = end + 1'200;
        }
      }
      for (std::size_t r = 0; r < n; ++r) {
        const Ns end = sync ? gpu[r] + 3'000 : now[r] + 10'000;
        if (sync) {
          put(events, r, s, "cuda_runtime", "cudaDeviceSynchronize", true, {now[r] + 1'000, end},
              fmt::format("\"correlation\":{}", ++correlation[r]));
        }
        const int number = first_step + s + (shift.empty() ? 0 : shift[r]);
        put(events, r, s, "user_annotation", fmt::format("ProfilerStep#{}", number), true, {begin[r], end + 2'000});
        now[r] = end + 3'000;
        free[r] = gpu[r];
      }
    }
    std::vector<std::string> out;
    for (std::size_t r = 0; r < n; ++r) {
      out.push_back(fmt::format(
          "{{\"schemaVersion\":1,\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{},\"world_size\":{}}},"
          "\"traceEvents\":[\n{}\n]}}\n",
          r, world > 0 ? world : static_cast<int>(n), events[r]));
    }
    return out;
  }

  std::vector<trace::Trace> traces() {
    std::vector<trace::Trace> out;
    std::size_t r = 0;
    for (const std::string& text : texts()) {
      auto trace = trace::load_bytes(text, fmt::format("rank{}.json", r++), {});
      if (trace) out.push_back(std::move(*trace));
      EXPECT_EQ(out.size(), r);
    }
    return out;
  }

  ranks::Job job() {
    auto made = ranks::assemble(traces());
    EXPECT_TRUE(made) << made.error().to_string();
    return std::move(*made);
  }

 private:
  [[nodiscard]] int group_of(std::size_t r) const { return group.empty() ? 0 : group[r]; }
  struct Times {
    Ns begin, end;
  };
  [[nodiscard]] Ns shown(std::size_t r, Ns t) const {
    return t + kNsPerSecond + offset[r] + static_cast<Ns>(static_cast<double>(t) * drift_ppm[r] * 1e-6);
  }
  void put(std::vector<std::string>& events, std::size_t r, int step, std::string_view category, std::string_view what,
           bool, Times t, std::string_view args = "", int pid = 1, int tid = 1) const {
    if (!cut.empty() && step >= cut[r]) return;
    const Ns begin = shown(r, t.begin), length = shown(r, t.end) - begin;
    events[r] += fmt::format(
        R"({}{{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},"args":{{{}}}}})",
        events[r].empty() ? "" : ",\n", category, what, pid, tid, begin / 1000, begin % 1000, length / 1000,
        length % 1000, args);
  }
  void launched(std::vector<std::string>& events, std::size_t r, int step, int correlation, Ns call,
                std::string_view what, Times t, const std::string& info) const {
    put(events, r, step, "cuda_runtime", "cudaLaunchKernel", true, {call, call + 5'000},
        fmt::format("\"correlation\":{}", correlation));
    const int stream = info.empty() && what == "gemm" ? 7 : 20;
    put(events, r, step, "kernel", what, true, t,
        fmt::format("\"stream\":{},\"device\":0,\"correlation\":{}{}", stream, correlation, info), 0, stream);
  }
};

}  // namespace foretrace::test
