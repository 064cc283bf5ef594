#include "foretrace/version.hpp"

#include <string_view>

namespace foretrace {

namespace {

constexpr std::string_view kText = FORETRACE_VERSION;
constexpr bool digits_are(std::string_view digits, int number) {
  int value = 0;
  for (const char c : digits) value = 10 * value + (c - '0');
  return !digits.empty() && value == number;
}
constexpr std::size_t kFirst = kText.find('.');
constexpr std::size_t kSecond = kText.rfind('.');
static_assert(digits_are(kText.substr(0, kFirst), FORETRACE_VERSION_MAJOR) &&
                  digits_are(kText.substr(kFirst + 1, kSecond - kFirst - 1), FORETRACE_VERSION_MINOR) &&
                  digits_are(kText.substr(kSecond + 1), FORETRACE_VERSION_PATCH),
              "version.hpp: the text and the numbers are the same version");

}  // namespace

const char* version() { return FORETRACE_VERSION; }

}  // namespace foretrace
