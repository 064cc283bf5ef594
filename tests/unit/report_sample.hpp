#pragma once
// A small training trace written by hand, with every part on a switch: two steps of one linear layer with backward,
// gradient accumulation, an all-reduce, an optimizer and a read-back. Times in microseconds from the step's start.
//
//   main thread 100        copy_ 10-20 | layer:fc linear 105-195 | Optimizer.step add_ 510-560 | item 700-850 (waits 100)
//   autograd thread 200    backward node 300-400 | AccumulateGrad 410-450 | record_param_comms 455-475
//   stream 7               HtoD 15+5 | mm 140+50 | mm 340+100 | add 445+20 | add 540+30 | DtoH 720+2
//   stream 16              all-reduce 480+200

#include <stdexcept>
#include <string>

#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

struct Sample {
  int steps = 2;
  int step_length_us = 900;
  bool kernels = true, cpu = true, runtime = true, profiler_step = true, shapes = true, sync = true, memory = true,
       external_ids = true, device = true, layers = true, sequence_numbers = true, geometry = true, collective = true,
       collective_size = true, distributed = true, world_of_one = true, training = true;
  bool python_stack = false, whole_us = false;
  std::string extra_events = "";    ///< ",{…}" appended to traceEvents
  std::string extra_metadata = "";  ///< ",\"key\":value" appended to the top level

  std::string json() const {
    std::string out = "{\"schemaVersion\":1";
    if (device) {
      out +=
          ",\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA "
          "H200\",\"totalGlobalMem\":150109880320,\"computeMajor\":9,"
          "\"computeMinor\":0,\"numSms\":132,\"warpSize\":32}]";
    }
    if (distributed) {
      out += world_of_one ? ",\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":0,\"world_size\":1}"
                          : ",\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":1,\"world_size\":4}";
    }
    out += extra_metadata + ",\"traceEvents\":[" + meta("process_name", "0", "\"name\":\"python3\"");
    for (int s = 0; s < steps; ++s) out += step(s);
    return out + extra_events + "]}";
  }

  trace::Trace load() const {
    Result<trace::Trace> trace = trace::load_bytes(json(), "sample.json");
    if (!trace) throw std::runtime_error(trace.error().to_string());
    return std::move(*trace);
  }

 private:
  std::string meta(const std::string& name, const std::string& tid, const std::string& args) const {
    return "{\"ph\":\"M\",\"name\":\"" + name + "\",\"pid\":100,\"tid\":" + tid + ",\"args\":{" + args + "}}";
  }
  std::string event(const std::string& cat, const std::string& name, int pid, int tid, double ts, double dur,
                    const std::string& args) const {
    const std::string fraction = whole_us ? "" : ".125";  // so that times are visibly finer than a microsecond
    return ",{\"ph\":\"X\",\"cat\":\"" + cat + "\",\"name\":\"" + name + "\",\"pid\":" + std::to_string(pid) +
           ",\"tid\":" + std::to_string(tid) + ",\"ts\":" + std::to_string(static_cast<int>(ts)) + fraction +
           ",\"dur\":" + std::to_string(static_cast<int>(dur)) + ",\"args\":{" + args + "}}";
  }
  std::string op(const std::string& name, int tid, double ts, double dur, int id, int sequence = -1,
                 int forward_thread = -1) const {
    if (!cpu) return {};
    std::string args = "\"External id\":" + std::to_string(id);
    if (sequence >= 0 && sequence_numbers) args += ",\"Sequence number\":" + std::to_string(sequence);
    if (forward_thread >= 0 && sequence_numbers) args += ",\"Fwd thread id\":" + std::to_string(forward_thread);
    if (shapes) args += ",\"Input Dims\":[[4,4],[4,4]],\"Input type\":[\"float\",\"float\"]";
    return event("cpu_op", name, 100, tid, ts, dur, args);
  }
  std::string range(const std::string& name, int tid, double ts, double dur) const {
    return cpu ? event("user_annotation", name, 100, tid, ts, dur, "") : std::string();
  }
  std::string call(const std::string& name, int tid, double ts, double dur, int correlation) const {
    if (!cpu || !runtime) return {};
    return event("cuda_runtime", name, 100, tid, ts, dur, "\"cbid\":1,\"correlation\":" + std::to_string(correlation));
  }
  std::string work(const std::string& cat, const std::string& name, int stream, double ts, double dur, int correlation,
                   int id, const std::string& more = "") const {
    if (!kernels) return {};
    std::string args = "\"device\":0,\"context\":1,\"stream\":" + std::to_string(stream) +
                       ",\"correlation\":" + std::to_string(correlation) + more;
    if (external_ids) args += ",\"External id\":" + std::to_string(id);
    if (cat == "kernel" && geometry)
      args += ",\"grid\":[8,1,1],\"block\":[128,1,1],\"registers per thread\":32,\"shared memory\":0";
    return event(cat, name, 0, stream, ts, dur, args);
  }
  std::string allocation(double ts, int tid, int device_type, long total) const {
    if (!memory) return {};
    return ",{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":100,\"tid\":" +
           std::to_string(tid) + ",\"ts\":" + std::to_string(static_cast<int>(ts)) +
           ",\"args\":{\"Addr\":4096,\"Bytes\":512,"
           "\"Total Allocated\":" +
           std::to_string(total) +
           ",\"Total Reserved\":8192,\"Device Id\":0,\"Device Type\":" + std::to_string(device_type) + "}}";
  }

  std::string step(int s) const {
    const double t = 10000 + 1000.0 * s;
    const int c = 100 * (s + 1), seq = 10 * (s + 1);  // correlation and External ids, sequence numbers
    std::string out;
    if (profiler_step) out += range("ProfilerStep#" + std::to_string(s + 3), 100, t, step_length_us);
    if (python_stack && cpu)
      out += event("python_function", "train.py(12): step", 100, 100, t + 1, 850, "\"Python id\":1");
    out += op("aten::copy_", 100, t + 10, 10, c + 1) + call("cudaMemcpyAsync", 100, t + 12, 4, c + 1) +
           work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, t + 15, 5, c + 1, c + 1, ",\"bytes\":64");
    if (layers) out += range("layer:fc|Linear", 100, t + 100, 100);
    out += op("aten::linear", 100, t + 105, 90, c + 2, seq, 0) + op("aten::mm", 100, t + 110, 60, c + 3, seq, 0) +
           call("cudaLaunchKernel", 100, t + 120, 10, c + 3) + allocation(t + 115, 100, 1, 1000) +
           allocation(t + 116, 100, 0, 999999) + work("kernel", "sgemm", 7, t + 140, 50, c + 3, c + 3);
    if (training) {
      out += op("autograd::engine::evaluate_function: MmBackward0", 200, t + 300, 100, c + 4, seq, 1) +
             op("MmBackward0", 200, t + 305, 80, c + 5, seq, 1) + op("aten::mm", 200, t + 310, 60, c + 6) +
             call("cudaLaunchKernel", 200, t + 320, 10, c + 6) + allocation(t + 315, 200, 1, 5000) +
             work("kernel", "sgemm", 7, t + 340, 100, c + 6, c + 6);
      out += op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 200, t + 410, 40, c + 7) +
             op("aten::add_", 200, t + 415, 30, c + 8) + call("cudaLaunchKernel", 200, t + 420, 10, c + 8) +
             work("kernel", "add_kernel", 7, t + 445, 20, c + 8, c + 8);
      out += range("Optimizer.step#SGD.step", 100, t + 500, 100) + op("aten::add_", 100, t + 510, 50, c + 10) +
             call("cudaLaunchKernel", 100, t + 520, 10, c + 10) +
             work("kernel", "add_kernel", 7, t + 540, 30, c + 10, c + 10);
    }
    if (collective) {
      out +=
          op("record_param_comms", 200, t + 455, 20, c + 9) + call("cudaLaunchKernelExC", 200, t + 460, 5, c + 9) +
          work("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 16, t + 480, 200, c + 9, c + 9,
               collective_size
                   ? ",\"Collective name\":\"allreduce\",\"In msg nelems\":16,\"Out msg nelems\":16,\"dtype\":\"Float\""
                   : "");
    }
    out += op("aten::item", 100, t + 700, 150, c + 11) + op("aten::_local_scalar_dense", 100, t + 705, 140, c + 12) +
           call("cudaMemcpyAsync", 100, t + 710, 5, c + 12) +
           work("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 7, t + 720, 2, c + 12, c + 12, ",\"bytes\":4") +
           call("cudaStreamSynchronize", 100, t + 730, 100, c + 13);
    if (sync && kernels) {
      out += event("cuda_sync", "Stream Sync", 0, 7, t + 730, 90,
                   "\"cuda_sync_kind\":\"Stream Sync\",\"stream\":7,\"correlation\":" + std::to_string(c + 13) +
                       ",\"device\":0");
    }
    return out;
  }
};

}  // namespace foretrace::report
