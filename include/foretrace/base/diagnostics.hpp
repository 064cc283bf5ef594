#pragma once
// Problems in the input that do not stop an import: counted under a name, with a sentence and one example each.
// `doctor` shows them; --strict turns any data loss into a failure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

enum class Severity : std::uint8_t {
  kInfo,      ///< odd but harmless: nothing was lost
  kDataLoss,  ///< a record or part of one could not be used
};

struct Problem {
  std::string name;  ///< "malformed_record"
  Severity severity = Severity::kInfo;
  std::string meaning;  ///< one sentence for people
  std::uint64_t count = 0;
  std::string example;       ///< the first one seen, shortened
  std::int64_t offset = -1;  ///< byte offset of the example in the uncompressed input, -1 when unknown
};

class Diagnostics {
 public:
  void add(std::string_view name, Severity severity, std::string_view meaning, std::string_view example = {},
           std::int64_t offset = -1, std::uint64_t count = 1);
  [[nodiscard]] const std::vector<Problem>& problems() const { return problems_; }
  [[nodiscard]] const Problem* find(std::string_view name) const;
  [[nodiscard]] std::uint64_t lost_records() const;

 private:
  std::vector<Problem> problems_;  // a handful of names: linear search, order of first occurrence
};

}  // namespace foretrace
