#include "cli/price_list.hpp"

#include "base/byte_source.hpp"

namespace foretrace::cli {

namespace {
constexpr std::size_t kLargestPrices = 1 << 20;
}  // namespace

Result<std::vector<hardware::ListedPrice>> read_price_list(const std::string& file) {
  FORETRACE_TRY(const std::string csv, read_file(file, kLargestPrices));
  return analysis::read_prices(csv, file);
}

}  // namespace foretrace::cli
