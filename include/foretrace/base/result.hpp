#pragma once
// Errors are values. A function that can fail on its input returns Result<T>; the error says what happened, where in
// which input, and what the user can do about it. No exception leaves the library; FORETRACE_CHECK is for
// our own bugs only and is never reachable from input.
//
//   Result<trace::Trace> t = trace::load(path);
//   if (!t) return forward(t);                // or:  FORETRACE_TRY(auto trace, trace::load(path));

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace foretrace {

/// What kind of failure; the command line maps these to its exit codes.
enum class ErrorCode : std::uint8_t {
  kUsage,       ///< the request itself is wrong: unknown name, bad parameter (exit 2)
  kUnreadable,  ///< the input cannot be read or is not what it claims to be (exit 3)
  kDeclined,    ///< the input is fine but does not hold what the answer needs (exit 4)
  kInternal,    ///< a bug of ours
  kOutput,      ///< the answer could not be written: the disk is full, a device fails (exit 74)
};

struct Error {
  static constexpr std::int64_t kNoOffset = -1;

  ErrorCode code = ErrorCode::kInternal;
  std::string message;              ///< one sentence, no trailing period
  std::string file;                 ///< the input it speaks of; empty when none
  std::int64_t offset = kNoOffset;  ///< byte offset in the (uncompressed) input
  std::string hint;                 ///< what to do; may be empty

  /// "trace.json: byte 120: the file ends inside an event\n  hint: …"
  [[nodiscard]] std::string to_string() const;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message, std::string hint = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), {}, Error::kNoOffset, std::move(hint)});
}

template <class T>
tl::unexpected<Error> forward(Result<T>& failed) {
  return tl::unexpected<Error>(std::move(failed).error());
}

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace foretrace

#define FORETRACE_CONCAT2(a, b) a##b
#define FORETRACE_CONCAT(a, b) FORETRACE_CONCAT2(a, b)
#define FORETRACE_TRY_IMPL(tmp, decl, expr)   \
  auto tmp = (expr);                          \
  if (!tmp) return ::foretrace::forward(tmp); \
  decl = std::move(*tmp)
/// FORETRACE_TRY(auto x, f());  returns f's error from the enclosing function, or binds its value.
#define FORETRACE_TRY(decl, expr) FORETRACE_TRY_IMPL(FORETRACE_CONCAT(try_, __LINE__), decl, expr)
#define FORETRACE_TRY_VOID_IMPL(tmp, expr) \
  auto tmp = (expr);                       \
  if (!tmp) return ::foretrace::forward(tmp)
#define FORETRACE_TRY_VOID(expr) FORETRACE_TRY_VOID_IMPL(FORETRACE_CONCAT(try_, __LINE__), expr)
#define FORETRACE_CHECK(cond) ((cond) ? static_cast<void>(0) : ::foretrace::check_failed(#cond, __FILE__, __LINE__))

namespace foretrace {

// Problems in the input that do not stop an import: counted under a name, with a sentence and one example each.
// `doctor` shows them; --strict turns any data loss into a failure.

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

// The library reports progress through this callback and never prints. `cli/` draws a bar from it.

/// What is counted, in the plural: "steps", "files". Bytes are shown as sizes and with their rate.
inline constexpr std::string_view kBytes = "bytes";

/// what: "reading trace.json.gz"; done and total count `unit`, total 0 when unknown. May be called from any one thread at a
/// time, at most a few hundred times a second.
using Progress =
    std::function<void(std::string_view what, std::uint64_t done, std::uint64_t total, std::string_view unit)>;

}  // namespace foretrace
