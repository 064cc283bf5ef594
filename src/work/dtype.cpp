#include <array>

#include "base/text.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::work {

std::string_view to_string(Dtype dtype) {
  static constexpr std::array<std::string_view, kDtypes> kNames = {"fp32", "tf32", "fp16",  "bf16",
                                                                   "fp64", "int",  "other", "fp8"};
  return kNames[static_cast<std::size_t>(dtype)];
}

std::int64_t bytes_of(Dtype dtype) {
  // Indices are 64-bit integers, masks ("other") one byte an element.
  static constexpr std::array<std::int64_t, kDtypes> kBytes = {4, 4, 2, 2, 8, 8, 1, 1};
  return kBytes[static_cast<std::size_t>(dtype)];
}

Dtype parse_dtype(std::string_view text) {
  if (text == "float" || text == "float32" || text == "Float") return Dtype::kFp32;
  if (text == "c10::Half" || text == "half" || text == "float16" || text == "Half") return Dtype::kFp16;
  if (text == "c10::BFloat16" || text == "bfloat16" || text == "BFloat16") return Dtype::kBf16;
  if (text == "double" || text == "float64" || text == "Double") return Dtype::kFp64;
  if (text == "long int" || text == "int" || text == "long" || text == "short int" || text == "short" ||
      text == "Int" || text == "Long") {
    return Dtype::kInt;
  }
  if (contains(text, "Float8") || text.starts_with("float8")) return Dtype::kFp8;
  return Dtype::kOther;
}

}  // namespace foretrace::work
