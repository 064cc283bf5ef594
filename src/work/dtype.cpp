#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "foretrace/work/work.hpp"
#include "work/op_view.hpp"

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

namespace {

/// Element types by the names that profilers, execution traces and records of collectives give them.
struct ElementType {
  std::string_view name;
  Dtype dtype;
  std::int64_t bytes;
  bool of_tensor = false;  ///< the profiler names a tensor's type so; it says "Int" of a number that is no tensor
};
constexpr ElementType kTypes[] = {
    {"float", Dtype::kFp32, 4, true},
    {"c10::Half", Dtype::kFp16, 2, true},
    {"c10::BFloat16", Dtype::kBf16, 2, true},
    {"double", Dtype::kFp64, 8, true},
    {"long int", Dtype::kInt, 8, true},
    {"long", Dtype::kInt, 8, true},
    {"int", Dtype::kInt, 4, true},
    {"bool", Dtype::kOther, 1, true},
    {"unsigned char", Dtype::kOther, 1, true},
    {"signed char", Dtype::kOther, 1, true},
    {"char", Dtype::kOther, 1, true},
    {"short int", Dtype::kInt, 2, true},
    {"short", Dtype::kInt, 2, true},
    {"half", Dtype::kFp16, 2, true},
    {"c10::complex<float>", Dtype::kOther, 8, true},
    {"c10::complex<double>", Dtype::kOther, 16, true},
    {"c10::Float8_e4m3fn", Dtype::kFp8, 1, true},
    {"c10::Float8_e5m2", Dtype::kFp8, 1, true},
    {"unsigned int", Dtype::kOther, 4, true},
    {"unsigned long", Dtype::kOther, 8, true},
    {"unsigned short", Dtype::kOther, 2, true},
    {"float32", Dtype::kFp32, 4},
    {"Float", Dtype::kFp32, 4},
    {"float16", Dtype::kFp16, 2},
    {"Half", Dtype::kFp16, 2},
    {"bfloat16", Dtype::kBf16, 2},
    {"BFloat16", Dtype::kBf16, 2},
    {"float64", Dtype::kFp64, 8},
    {"Double", Dtype::kFp64, 8},
    {"Int", Dtype::kInt, 4},
    {"Long", Dtype::kInt, 8},
    {"Short", Dtype::kInt, 2},
    {"Byte", Dtype::kOther, 1},
    {"Char", Dtype::kOther, 1},
    {"Bool", Dtype::kOther, 1},
};

const ElementType* find(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const ElementType& t) { return t.name == name; });
  if (found != std::end(kTypes)) return found;
  // There are several kinds of FP8.
  static constexpr ElementType kFp8{"", Dtype::kFp8, 1};
  return contains(name, "Float8") || name.starts_with("float8") ? &kFp8 : nullptr;
}

}  // namespace

Dtype parse_dtype(std::string_view text) {
  const ElementType* type = find(text);
  return type == nullptr ? Dtype::kOther : type->dtype;
}

std::int64_t element_bytes(std::string_view type) {
  const ElementType* found = find(type);
  return found != nullptr && found->of_tensor ? found->bytes : 0;
}

std::int64_t recorded_bytes(std::string_view type) {
  const ElementType* found = find(type);
  return found == nullptr ? 0 : found->bytes;
}

}  // namespace foretrace::work
