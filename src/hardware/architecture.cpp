#include "hardware/architecture.hpp"

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"

namespace foretrace::hardware {

namespace {

// "8.6" as 86: their order.
int capability_of(std::string_view name) {
  const std::vector<std::string_view> parts = split(name, '.');
  if (parts.size() != 2) return 0;
  return static_cast<int>(10 * parse_double(parts[0]).value_or(0) + parse_double(parts[1]).value_or(0));
}

// Figures of this architecture's L2, else typical ones.
void read_cache(std::string_view csv, Architecture& one) {
  for (CsvReader row(csv); row.next();) {
    if (row["architecture"] != one.name && row["architecture"] != "any") continue;
    one.l2_share = row.number("share").value_or(1);
    one.l2_rate = row.number("rate").value_or(1);
    if (row["architecture"] == one.name) return;
  }
}

std::vector<Architecture> read_architectures(std::string_view csv, std::string_view caches) {
  std::vector<Architecture> all;
  for (CsvReader row(csv); row.next();) {
    all.push_back({std::string(row["vendor"]), std::string(row["architecture"]), std::string(row["laws"]),
                   capability_of(row["architecture"]), std::string(row["nearest"]),
                   row.number("process_nm").value_or(0), row.number("half_flops_per_clock").value_or(0),
                   row["fp8"] == "1", 1, 1, row["nchw_results"] == "1"});
    read_cache(caches, all.back());
  }
  return all;
}

}  // namespace

namespace {

const Architecture& find_architecture(const Device& d) {
  static const std::vector<Architecture> kAll =
      read_architectures(data_file("hardware/architectures.csv"), data_file("hardware/caches.csv"));
  const int capability = 10 * d.compute_major + d.compute_minor;
  const Architecture* found = nullptr;
  for (const Architecture& one : kAll) {
    if (one.vendor != d.vendor) continue;
    if (one.name == d.architecture) return one;
    const bool older = d.architecture.empty() && one.capability <= capability;
    if (found == nullptr || older) found = &one;
  }
  static const Architecture kUnknown = [] {
    Architecture one = kAll.front();
    one.laws = one.nearest = "any";
    return one;
  }();
  return found == nullptr ? kUnknown : *found;
}

}  // namespace

const Architecture& architecture_of(const Device& d) {
  // Every product asks, nearly always for the device of the question before.
  struct Last {
    std::string vendor, architecture;
    int compute_major = 0, compute_minor = 0;
    const Architecture* found = nullptr;
  };
  static thread_local Last last;
  if (last.found == nullptr || last.compute_major != d.compute_major || last.compute_minor != d.compute_minor ||
      last.architecture != d.architecture || last.vendor != d.vendor) {
    last = {d.vendor, d.architecture, d.compute_major, d.compute_minor, &find_architecture(d)};
  }
  return *last.found;
}

}  // namespace foretrace::hardware
