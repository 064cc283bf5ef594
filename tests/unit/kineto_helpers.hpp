#pragma once
// What the tests of the Kineto importer share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "foretrace/trace/load.hpp"

namespace foretrace::test {

/// {"schemaVersion": 1, "traceEvents": [ events ]}
inline std::string wrap(std::string_view events) {
  return "{\"schemaVersion\": 1, \"traceEvents\": [" + std::string(events) + "]}";
}

/// A complete CPU operation.
inline std::string op(std::string_view name, std::string_view ts, std::string_view dur, std::string_view args = "{}") {
  std::string s = "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"";
  s.append(name).append("\", \"pid\": 1, \"tid\": 2, \"ts\": ").append(ts).append(", \"dur\": ").append(dur);
  return s.append(", \"args\": ").append(args).append("}");
}

inline trace::LoadOptions with_threads(unsigned threads) {
  trace::LoadOptions options;
  options.threads = threads;
  return options;
}
inline trace::LoadOptions partial() {
  trace::LoadOptions options = with_threads(1);
  options.partial = true;
  return options;
}
inline trace::LoadOptions strict() {
  trace::LoadOptions options = with_threads(1);
  options.strict = true;
  return options;
}

/// The trace, or a failed test and an empty one.
inline trace::Trace must_load(std::string_view bytes, const trace::LoadOptions& options = with_threads(1)) {
  auto result = trace::load_bytes(bytes, "test.json", options);
  if (!result) {
    ADD_FAILURE() << result.error().to_string();
    return {};
  }
  return std::move(*result);
}

/// The error, or a failed test.
inline Error must_fail(std::string_view bytes, const trace::LoadOptions& options = with_threads(1)) {
  const auto result = trace::load_bytes(bytes, "test.json", options);
  if (result) {
    ADD_FAILURE() << "expected an error, read " << result->size() << " events";
    return {};
  }
  EXPECT_EQ(result.error().code, ErrorCode::kUnreadable) << result.error().to_string();
  EXPECT_EQ(result.error().file, "test.json");
  EXPECT_FALSE(result.error().message.empty());
  return result.error();
}

inline std::uint64_t problem_count(const trace::Trace& trace, std::string_view name) {
  const Problem* p = trace.diagnostics.find(name);
  return p == nullptr ? 0 : p->count;
}

/// Names of the problems of a trace, for messages and for "nothing else was wrong".
inline std::vector<std::string> problem_names(const trace::Trace& trace) {
  std::vector<std::string> names;
  for (const Problem& p : trace.diagnostics.problems()) names.push_back(p.name);
  return names;
}

/// Expects two traces to be equal in every column and table.
void expect_same(const trace::Trace& a, const trace::Trace& b);

}  // namespace foretrace::test
