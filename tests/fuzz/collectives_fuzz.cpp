// Arbitrary files of measured collectives and arbitrary fabric files.
//
// The first byte says which. What is read must give finite costs that do not fall as the message grows.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "hardware/collective.hpp"

namespace {

using namespace foretrace::hardware;  // NOLINT(google-build-using-namespace): a program, not a header

void check(const CollectiveModel& model) {
  for (const int ranks : {1, 2, 7, 16384}) {
    foretrace::Ns before = 0;
    for (const double bytes : {0.0, 1.0, 1e3, 1e6, 1e9}) {
      const foretrace::Ns ns = model.cost({Collective::kAllReduce, bytes, ranks}).ns;
      if (ns < before) std::abort();
      before = ns;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    auto rows = read_collectives(text, "input", std::nullopt);
    if (!rows) return 0;
    if (const auto model = MeasuredCollectives::make(std::move(*rows), "m")) check(*model);
  } else if (auto fabric = parse_fabric(text, "f", "input")) {
    check(FabricCollectives(std::move(*fabric)));
  }
  return 0;
}
