#pragma once
// CUPTI's activity records as our own. The layouts are those of the newest headers; older libraries write the same fields at the
// same places and end earlier, so what they do not have is left out by their version.

#include <cupti.h>

#include "cupti_api.hpp"
#include "records.hpp"

namespace foretrace::inject {

/// Adds what the record says to `to`; a kind that is not wanted adds nothing. There is room for it.
void decode(const CUpti_Activity& activity, const Cupti& cupti, Activities& to);

/// Calls nobody waits for: asking which device is current, the last error. They come by the thousand.
bool is_idle_call(std::string_view name);

/// Driver calls that give the GPU work, wait for it, or take long: "cuLaunchKernel", "cuMemcpyHtoDAsync_v2".
bool is_driver_work(std::string_view name);

}  // namespace foretrace::inject
