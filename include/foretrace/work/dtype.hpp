#pragma once
// Element types of tensors.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace foretrace::work {

/// Element types that run at different rates.
enum class Dtype : std::uint8_t { kFp32, kTf32, kFp16, kBf16, kFp64, kInt, kOther, kFp8 };
inline constexpr std::size_t kDtypes = 8;
std::string_view to_string(Dtype dtype);
/// Bytes of one element in memory (tf32 is stored as fp32).
std::int64_t bytes_of(Dtype dtype);
/// From a trace's spelling: "float", "c10::Half", "c10::BFloat16", "double", "long int", …
Dtype parse_dtype(std::string_view text);
constexpr bool is_half(Dtype dtype) { return dtype == Dtype::kFp16 || dtype == Dtype::kBf16; }

}  // namespace foretrace::work
