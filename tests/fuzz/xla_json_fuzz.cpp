// The JSON of XLA's profiles on arbitrary bytes, behind the head that tells it apart.

#include <cstdint>
#include <string>

#include "fuzz/format_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  std::string text =
      R"json({"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},{"ph":"M","pid":1,"tid":14,"name":"thread_name","args":{"name":"Stream #14(Compute)"}},{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},)json";
  text.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  foretrace::fuzz::check_format(text, (data[0] & 1) != 0);
  return 0;
}
