#pragma once
// Values that NVTX ranges carry in addition to their text: structs of the program, described by schemas (NVTX's payload extension).
// Nsight keeps them as bytes where it is asked to (nsys export --include-blobs=true), or as JSON (--include-json=true).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foretrace::trace {

struct NvtxField {
  std::string name;         ///< "Message size [bytes]"
  std::int64_t type = 0;    ///< NVTX_PAYLOAD_ENTRY_TYPE_…
  std::int64_t offset = 0;  ///< in the struct
};

class NvtxPayloads {
 public:
  using Values = std::map<std::string, std::int64_t>;

  void add_field(std::int64_t domain, std::int64_t schema, NvtxField field);
  /// Whole numbers by the name of their field; empty where there is no payload, or none that is understood. Bytes are four
  /// little-endian words of 64 bits (domain, schema, size of the struct, one more) and the struct; some exporters write them
  /// as hexadecimal digits.
  [[nodiscard]] Values values(std::string_view bytes, std::string_view json) const;

 private:
  [[nodiscard]] Values of_bytes(std::string_view bytes) const;

  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<NvtxField>> schemas_;  // domain, schema
};

}  // namespace foretrace::trace
