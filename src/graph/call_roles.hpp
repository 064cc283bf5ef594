#pragma once
// What runtime and driver calls of CUDA and HIP do, as far as time is concerned: one table, by name. No other code tests
// the names of calls.
//
//   kind_of_call("hipMemcpyWithStream").blocks   -> true: the call returns when the copy is done

#include <cstdint>
#include <string_view>

#include "base/text.hpp"

namespace foretrace::graph {

enum class CallRole : std::uint8_t {
  kOther,
  kLaunch,      ///< gave the GPU work; by what the trace shows, not by name
  kStreamSync,  ///< waits for a stream
  kDeviceSync,  ///< waits for all streams of the device
  kEventSync,   ///< waits for an event
  kRecord,      ///< records an event
  kStreamWait   ///< makes a stream wait for an event
};

struct CallKind {
  CallRole role = CallRole::kOther;  ///< of a call that gave the GPU no work
  bool blocks = false;  ///< a copy or fill that returns when it is done: the call waits for its work, and all before it
  bool copies = false;  ///< moves or fills memory; whether it waits the kind of memory decides
  bool launches = false;   ///< starts kernels
  bool graph = false;      ///< starts a captured graph
  bool allocates = false;  ///< takes memory from the driver, or pins it
  bool frees = false;      ///< gives it back
  bool loads = false;      ///< loads code
  bool makes_event = false;
};

/// All about a call by its name: "cudaLaunchKernel", "cuMemcpyDtoH_v2", "hipStreamSynchronize_v2", "cudaMemcpy_v3020".
CallKind kind_of_call(std::string_view name);

/// The same as kind_of_call(name).graph, without looking the name up: for loops over all tasks.
inline bool is_graph_launch(std::string_view name) { return contains(name, "GraphLaunch"); }

/// A call that waits for the GPU whenever there is something to wait for.
inline bool waits_for_gpu(const CallKind& kind) {
  return kind.blocks || kind.role == CallRole::kStreamSync || kind.role == CallRole::kDeviceSync ||
         kind.role == CallRole::kEventSync;
}

}  // namespace foretrace::graph
