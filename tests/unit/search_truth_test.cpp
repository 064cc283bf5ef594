// What optimize proposed within 60 % of the memory, against real runs of it (data/h200-search).

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "foretrace/report/whatif.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::test {
namespace {

struct Measured {
  double ms = 0;
  double bytes = 0;
};
using Mix = std::pair<std::int64_t, std::int64_t>;  // blocks checkpointed, parts

std::map<std::string, std::map<Mix, Measured>> measured_mixes() {
  std::map<std::string, std::map<Mix, Measured>> out;
  simdjson::dom::parser parser;
  simdjson::dom::document_stream rows;
  if (parser.load_many(FORETRACE_SOURCE_DIR "/data/h200-search/truth.jsonl").get(rows) != simdjson::SUCCESS) return out;
  for (auto row : rows) {
    std::int64_t blocks = 0;
    if (row["checkpointed"].get(blocks) != simdjson::SUCCESS) continue;
    out[std::string(row["model"].get_string().value())][{blocks, row["accumulate"].get_int64().value()}] = {
        row["median_ms"].get_double().value(), static_cast<double>(row["peak_bytes"].get_int64().value())};
  }
  return out;
}

Mix mix_of(const search::Strategy& s) {
  Mix mix{0, 1};
  for (const std::string& use : s.whatifs) {
    if (use.starts_with("checkpoint")) mix.first = 1 + std::count(use.begin(), use.end(), '|');
    if (use.starts_with("accumulate")) mix.second = std::atoi(use.c_str() + use.find("n=") + 2);
  }
  return mix;
}

TEST(SearchTruth, StrategiesWithin60PercentOfTheMemoryHoldOnARealGpu) {
  const char* const truth = std::getenv("FORETRACE_TRUTH");
  if (truth == nullptr) GTEST_SKIP() << "FORETRACE_TRUTH is not set";
  const auto mixes = measured_mixes();
  ASSERT_EQ(mixes.size(), 3U);
  for (const char* const name : {"gpt2", "bert_base"}) {
    const std::string path = std::string(truth) + "/h200/" + name + ".base.json.gz";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    const auto trace = trace::load(path);
    ASSERT_TRUE(trace.has_value());
    const auto& measured = mixes.at(name);
    const Measured base = measured.at({0, 1});
    const auto made = report::make_baseline(*trace, std::nullopt, base.ms);
    ASSERT_TRUE(made.has_value());
    search::OptimizeOptions options;
    options.memory_limit = static_cast<std::int64_t>(0.6 * base.bytes);
    options.only = {"checkpoint", "accumulate"};
    const auto found = search::optimize(made->model, made->report.measured, options);
    ASSERT_TRUE(found.has_value()) << found.error().to_string();
    const auto real = measured.find(mix_of(found->best));
    if (real == measured.end()) GTEST_SKIP() << describe(found->best) << " was not measured";
    EXPECT_NEAR(static_cast<double>(found->prediction.step) / 1e6, real->second.ms, 0.08 * real->second.ms) << name;
    EXPECT_NEAR(static_cast<double>(*found->prediction.peak_bytes), real->second.bytes, 0.08 * real->second.bytes);
    EXPECT_LE(real->second.bytes, 1.0 * static_cast<double>(*options.memory_limit)) << name;
    for (const auto& [mix, other] : measured) {
      if (other.bytes <= static_cast<double>(*options.memory_limit)) {
        EXPECT_LE(real->second.ms, 1.03 * other.ms) << name;
      }
    }
  }
}

}  // namespace
}  // namespace foretrace::test
