#include "trace/communication.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "foretrace/base/result.hpp"
#include "trace/name_tables.hpp"

namespace foretrace::trace {

namespace {

struct Table {
  std::vector<std::string_view> kernels, ranges;
};

const Table& table() {
  static const Table kTable = [] {
    Table t;
    for (const NameRow& row : name_table("communication", 3)) {
      FORETRACE_CHECK(row[0] == "kernel" || row[0] == "range");
      (row[0] == "kernel" ? t.kernels : t.ranges).push_back(row[1]);
    }
    return t;
  }();
  return kTable;
}

}  // namespace

bool is_communication_kernel(std::string_view name) {
  const auto& all = table().kernels;
  return std::any_of(all.begin(), all.end(), [&](std::string_view text) { return contains(name, text); });
}

bool is_communication_range(std::string_view name) {
  const auto& all = table().ranges;
  return std::any_of(all.begin(), all.end(), [&](std::string_view text) { return name.starts_with(text); });
}

}  // namespace foretrace::trace
