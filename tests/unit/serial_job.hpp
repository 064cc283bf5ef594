#pragma once
// Jobs of ranks that do the same: products, what is done to their results, and collectives in between, each behind what comes before it.
//
//   SerialJob m;
//   m.product(4096, 1024, 1024, kNsPerMs);      // 4096 x 1024 times 1024 x 1024
//   m.collective("allreduce", 4096, 1024);      // of the result, on the stream that computes
//   m.reads(4096, 1024, kNsPerMs / 10);         // what waits for it
//   ranks::Job job = m.job();                   // three steps of it, on two ranks

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "foretrace/ranks/job.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {

class SerialJob {
 public:
  Ns transfer = kNsPerMs;          ///< of each collective
  std::vector<Ns> later = {0, 0};  ///< by rank: what its products take more
  std::string group = "default_pg";
  bool shapes = true;     ///< false: records of collectives have no shape of the tensor
  bool reversed = false;  ///< the files in another order

  void product(int m, int n, int k, Ns takes) {
    acts_.push_back({"gemm", "aten::mm", fmt::format("[[{},{}],[{},{}]]", m, k, k, n), takes});
  }
  /// An element-wise kernel that reads a tensor of so many rows and columns.
  void reads(int rows, int columns, Ns takes) {
    acts_.push_back(
        {"vectorized_elementwise_kernel", "aten::add", fmt::format("[[{0},{1}],[{0},{1}],[]]", rows, columns), takes});
  }
  /// `beside`: on a stream of its own, and what follows does not wait for it before `wait`.
  void collective(std::string name, int rows, int columns, bool beside = false) {
    acts_.push_back({std::move(name), "record_param_comms", fmt::format("[[[1,{},{}]]]", rows, columns), transfer,
                     rows * columns, beside});
  }
  /// The stream that computes waits for the last collective.
  void wait() { acts_.push_back({}); }

  [[nodiscard]] ranks::Job job() const {
    std::vector<trace::Trace> traces;
    for (std::size_t r = 0; r < later.size(); ++r) traces.push_back(trace_of(reversed ? later.size() - 1 - r : r));
    auto made = ranks::assemble(std::move(traces));
    EXPECT_TRUE(made) << made.error().to_string();
    return std::move(*made);
  }
  [[nodiscard]] trace::Trace trace_of(std::size_t rank) const {
    TraceMaker m;
    m.head = fmt::format(
        R"("distributedInfo":{{"backend":"nccl","rank":{},"world_size":{},"pg_config":[{{"pg_name":"{}","pg_desc":"mesh_tp",)"
        R"("pg_size":{},"ranks":[0,1]}}]}},)",
        rank, later.size(), group, later.size());
    m.properties = R"([{"id":0,"name":"NVIDIA H200","numSms":132,"totalGlobalMem":150000000000}])";
    Writer writer{m, *this, rank};
    for (int step = 0; step < 3; ++step) writer.step(step);
    return m.load();
  }

 private:
  struct Act {
    std::string kernel = {}, op = {}, dims = {};
    Ns takes = 0;
    int elements = 0;  ///< of a collective
    bool beside = false;
  };

  /// Both ranks meet: the times of a step are those of the slower one.
  struct Writer {
    TraceMaker& m;
    const SerialJob& job;
    std::size_t rank;
    Ns cpu = 0, compute = 0, network = 0, slowest = 0;
    int id = 0, recorded = 0;

    void step(int number) {
      const Ns begin = cpu;
      slowest = compute = network = std::max(compute, begin);
      for (const Act& act : job.acts_) run(act);
      const Ns end = std::max({compute, network, slowest, cpu}) + 3'000;
      m.call("cudaDeviceSynchronize", {cpu, end}, ++id);
      m.step(number, begin, end + 1'000);
      cpu = end + 2'000;
    }
    void run(const Act& act) {
      if (act.op.empty()) {
        m.stream_wait(cpu, ++id, 7, 20, recorded);
        compute = slowest = std::max(slowest, network);
        cpu += 5'000;
        return;
      }
      const bool collective = act.elements > 0;
      if (collective && act.beside) {
        m.record(cpu, ++id);
        m.stream_wait(cpu + 1'500, id + 1, 20, 7, id);
        ++id;
        cpu += 3'000;
      }
      const Ns call = cpu + 2'000;
      const std::string info =
          collective ? fmt::format(R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":2,)"
                                   R"("dtype":"BFloat16","Process Group Name":"{}","Process Group Ranks":"[0, 1]")",
                                   act.kernel, act.elements, act.elements, job.group)
                     : std::string();
      const std::string shapes =
          fmt::format(R"("Input Dims":{},"Input type":["c10::BFloat16","c10::BFloat16","Scalar"])", act.dims);
      m.event("cpu_op", act.op, 1, 1, {cpu, cpu + 9'000}, collective && !job.shapes ? info.substr(1) : shapes + info);
      m.call("cudaLaunchKernel", {call, call + 5'000}, ++id);
      const Ns more = act.op == "aten::mm" ? job.later[rank] : 0,
               most = act.op == "aten::mm" ? std::max(job.later[0], job.later[1]) : 0;
      Ns& free = collective && act.beside ? network : compute;
      Ns start = std::max(free + 1'000, call + 6'500);
      if (collective && act.beside) start = std::max(start, compute + 1'000);
      const Ns met = collective ? std::max({start, slowest + 1'000}) : start;
      const Ns end = met + act.takes + (collective ? 0 : more);
      const int stream = collective && act.beside ? 20 : 7;
      m.event("kernel", collective ? "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" : act.kernel, 0, stream, {start, end},
              fmt::format(R"("stream":{},"device":0,"correlation":{},"grid":[{},1,1],"block":[256,1,1]{})", stream, id,
                          collective ? 4 : 1320, info));
      slowest =
          std::max(collective ? (act.beside ? slowest : end) : std::max(slowest, start) + act.takes + most, slowest);
      free = end;
      if (collective && act.beside) {
        m.record(cpu + 8'000, ++id);
        recorded = id;
      }
      cpu += 10'000;
    }
  };

  std::vector<Act> acts_;
};

}  // namespace foretrace::test
