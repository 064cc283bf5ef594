#include "foretrace/work/work.hpp"

namespace foretrace::work {

namespace {

struct FamilyRow {
  std::string_view name;
  Kind kind;
};

// In the order of Family.
constexpr std::array<FamilyRow, kFamilies> kRows = {{{"gemm", Gemm{}},
                                                     {"conv forward", Convolution{}},
                                                     {"conv data grad", Convolution{}},
                                                     {"conv weight grad", Convolution{}},
                                                     {"attention", Attention{}},
                                                     {"batch norm", BatchNorm{}},
                                                     {"layer norm", Rows{}},
                                                     {"softmax", Rows{}},
                                                     {"elementwise", Pointwise{}},
                                                     {"reduction", Rows{}},
                                                     {"copy", Pointwise{}},
                                                     {"optimizer", Pointwise{}},
                                                     {"embedding", Gather{}},
                                                     {"pooling", Pooling{}},
                                                     {"loss", Rows{}},
                                                     {"rnn", Recurrent{}},
                                                     {"communication", std::monostate{}},
                                                     {"memory", MemoryCopy{}},
                                                     {"other", std::monostate{}}}};

}  // namespace

std::string_view to_string(Family family) { return kRows[static_cast<std::size_t>(family)].name; }

Kind kind_of(Family family) { return kRows[static_cast<std::size_t>(family)].kind; }

std::int64_t Gemm::alignment() const {
  const std::int64_t a = a_transposed ? m : k;
  const std::int64_t b = b_transposed ? k : n;
  std::int64_t power = 1;
  while (power < 16 && a % (power * 2) == 0 && b % (power * 2) == 0 && n % (power * 2) == 0) power *= 2;
  return power;
}

}  // namespace foretrace::work
