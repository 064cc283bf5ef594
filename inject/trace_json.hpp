#pragma once
// Activities as a trace in the JSON that PyTorch's profiler (Kineto) writes, which foretrace and others read.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "records.hpp"

namespace foretrace::inject {

struct Surroundings {
  std::uint64_t process = 0;
  std::int64_t epoch_offset_ns = 0;  ///< added to CUPTI's times gives ns since 1970
  std::uint32_t cupti_version = 0;
  std::string left_out;            ///< kinds of records that were not listened to, "driver,memory"
  int rank = -1, world_size = -1;  ///< -1: none
};

/// Writes the whole document, piece by piece, in the order of time; false when `put` said false, which ends it.
bool write_trace(const Activities& activities, const Surroundings& surroundings,
                 const std::function<bool(std::string_view)>& put);

/// The name of an API function without its version: "cudaLaunchKernel_v7000" -> "cudaLaunchKernel".
std::string_view plain_api_name(std::string_view name);

}  // namespace foretrace::inject
