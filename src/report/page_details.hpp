#pragma once
// What the page shows of a task in addition to names and times: the shapes its operation works on, and how the kernel was launched.
// Each distinct text is stored once; tasks hold indices into the list, from 1 on (0: nothing is known).

#include <string>
#include <unordered_map>
#include <vector>

#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

class PageDetails {
 public:
  explicit PageDetails(const trace::Trace& trace)
      : trace_(trace), shapes_(trace.args.size(), kUnknown), launches_(trace.args.size(), kUnknown) {}

  /// "float [64, 3, 224, 224], float [64, 3, 7, 7]" of an operation.
  std::uint64_t shapes(EventId op);
  /// "grid 12544 × 1 × 1, block 256 × 1 × 1, 32 registers" of a kernel; elements and ranks of a collective; bytes of a copy.
  std::uint64_t launch(EventId event);
  [[nodiscard]] const std::vector<std::string>& list() const { return list_; }

 private:
  static constexpr std::uint64_t kUnknown = UINT64_MAX;
  std::uint64_t place(std::string text);
  [[nodiscard]] std::string shapes_text(const trace::OpInputs& inputs) const;
  [[nodiscard]] std::string launch_text(ArgsId args) const;

  const trace::Trace& trace_;
  std::vector<std::uint64_t> shapes_, launches_;  // by tuple of arguments: they repeat in every step
  std::unordered_map<std::string, std::uint64_t> places_;
  std::vector<std::string> list_;
};

}  // namespace foretrace::report
