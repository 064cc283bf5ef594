// What optimize proposed and chose, against real runs of it (data/h200-search, data/h200-ranks).

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::test {
namespace {

struct Measured {
  double ms = 0;
  double bytes = 0;  // of the peak
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

double base_ms(const std::string& folder, const std::string& model) {
  simdjson::dom::parser parser;
  simdjson::dom::document_stream rows;
  if (parser.load_many(folder + "truth.jsonl").get(rows) != simdjson::SUCCESS) return 0;
  for (auto row : rows) {
    if (row["model"].get_string().value() == model && row["variant"].get_string().value() == "base")
      return row["median_ms"].get_double().value();
  }
  return 0;
}

std::string listed(const std::map<Mix, Measured>& measured) {
  std::string out;
  for (const auto& [mix, m] : measured) {
    out.append(std::to_string(mix.first)).append(" blocks in ").append(std::to_string(mix.second)).append(" parts; ");
  }
  return out;
}

struct Interval {
  double ms = 0, low = 0, high = 0;
};
struct Buckets {
  std::map<std::string, Interval> sizes;  // by case: "ddp", "ddp@5"
  double solo = 0;
};

// Rank 0's rows of a model on so many ranks.
Buckets measured_buckets(const std::filesystem::path& folder, std::string_view model, std::int64_t world) {
  Buckets out;
  simdjson::dom::parser parser;
  simdjson::dom::document_stream rows;
  if (parser.load_many((folder / "truth.jsonl").string()).get(rows) != simdjson::SUCCESS) return out;
  for (auto row : rows) {
    if (row["model"].get_string().value() != model || row["world"].get_int64().value() != world) continue;
    if (row["rank"].get_int64().value() != 0) continue;
    const std::string which(row["case"].get_string().value());
    const double ms = row["median_ms"].get_double().value();
    if (which == "solo") out.solo = ms;
    if (which != "ddp" && !which.starts_with("ddp@")) continue;
    out.sizes[which] = {ms, row["p10_ms"].get_double().value(), row["p90_ms"].get_double().value()};
  }
  return out;
}

// Among the measured sizes of buckets: the measured best, one within 3 % of it, or one whose interval overlaps its.
void expect_best_bucket(const std::filesystem::path& folder, const std::string& tag, const char* model, int world) {
  const Buckets measured = measured_buckets(folder, model, world);
  ASSERT_GE(measured.sizes.size(), 2U) << model << world;
  const auto path = folder / (std::string(model) + "." + tag + ".solo.w" + std::to_string(world) + ".r0.json.gz");
  const auto trace = trace::load(path.string());
  ASSERT_TRUE(trace.has_value()) << path;
  const auto made = analysis::make_baseline(*trace, std::nullopt, measured.solo);
  ASSERT_TRUE(made.has_value());
  search::OptimizeOptions options;
  options.only = {"bucket"};
  search::Communication c;
  c.workers = world;
  c.collectives = (folder / "collectives.jsonl").string();
  c.collectives_tag = tag;
  c.first_bucket_mb = 1;
  options.communication = c;
  for (const auto& [which, m] : measured.sizes) {
    if (which.starts_with("ddp@")) options.bucket_sizes.push_back(std::atof(which.c_str() + 4));
  }
  const auto found = search::optimize(*made, options);
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  std::string chosen = "ddp";
  if (!found->best.communication->first_bucket_mb) {
    chosen = "ddp@" + std::to_string(static_cast<int>(found->best.communication->bucket_mb));
  }
  ASSERT_TRUE(measured.sizes.contains(chosen)) << chosen << " was not measured";
  const auto best = std::min_element(measured.sizes.begin(), measured.sizes.end(),
                                     [](const auto& a, const auto& b) { return a.second.ms < b.second.ms; });
  const bool near = measured.sizes.at(chosen).ms <= 1.03 * best->second.ms;
  const bool overlaps = measured.sizes.at(chosen).low <= best->second.high;
  EXPECT_TRUE(near || overlaps) << model << " on " << world << ": " << chosen << " at " << measured.sizes.at(chosen).ms
                                << " ms, but " << best->first << " takes " << best->second.ms;
}

TEST(SearchTruth, OfTheMeasuredBucketsTheBestIsChosen) {
  const std::filesystem::path own = std::filesystem::path(FORETRACE_SOURCE_DIR) / "data" / "h200-ranks";
  expect_best_bucket(own, "mps", "resnet50", 2);
  expect_best_bucket(own, "mps", "resnet50", 4);
  if (const char* const truth = std::getenv("FORETRACE_TRUTH")) {
    const std::filesystem::path folder = std::filesystem::path(truth) / "h200-ranks";
    expect_best_bucket(folder, "fast", "resnet50", 2);
    expect_best_bucket(folder, "fast", "resnet50", 4);
    expect_best_bucket(folder, "fast", "bert_base", 2);
  }
}

// Precision and compilation of some modules (rows with `whatifs`), from the base step of the same model and batch.
TEST(SearchTruth, SomeLayersOnlyHoldOnARealGpu) {
  const char* const truth = std::getenv("FORETRACE_TRUTH");
  if (truth == nullptr) GTEST_SKIP() << "FORETRACE_TRUTH is not set";
  simdjson::dom::parser parser;
  simdjson::dom::document_stream rows;
  ASSERT_EQ(parser.load_many(FORETRACE_SOURCE_DIR "/data/h200-search/truth.jsonl").get(rows), simdjson::SUCCESS);
  std::size_t judged = 0;
  for (auto row : rows) {
    simdjson::dom::array whatifs;
    if (row["whatifs"].get(whatifs) != simdjson::SUCCESS || whatifs.size() > 1) continue;
    search::Strategy strategy;
    for (auto use : whatifs) strategy.whatifs.emplace_back(use.get_string().value());
    const std::string model(row["model"].get_string().value());
    const std::string folder = row["bs"].get_int64().value() > 64 ? "/h200-large/" : "/h200/";
    const auto trace = trace::load(std::string(truth).append(folder).append(model).append(".base.json.gz"));
    ASSERT_TRUE(trace.has_value());
    const auto made = analysis::make_baseline(*trace, std::nullopt, base_ms(truth + folder, model));
    ASSERT_TRUE(made.has_value());
    const whatif::Prediction p = search::predict_strategy(*made, strategy);
    ASSERT_EQ(p.declined, "") << describe(strategy);
    const double gpu = row["gpu_ms"].get_double().value();
    EXPECT_NEAR(static_cast<double>(p.gpu_time) / 1e6, gpu, 0.06 * gpu) << model << " " << describe(strategy);
    // The run cast what left each of the four stages, and kept it; the strategy's own code casts where the last one ends.
    const bool all_stages = strategy.whatifs.front().ends_with("layer1|layer2|layer3|layer4");
    const auto peak = static_cast<double>(row["peak_bytes"].get_int64().value());
    EXPECT_NEAR(static_cast<double>(*p.peak_bytes), peak, (all_stages ? 0.13 : 0.05) * peak)
        << model << " " << describe(strategy);
    ++judged;
  }
  EXPECT_GE(judged, 8U);
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
    const auto made = analysis::make_baseline(*trace, std::nullopt, base.ms);
    ASSERT_TRUE(made.has_value());
    search::OptimizeOptions options;
    options.memory_limit = static_cast<std::int64_t>(0.6 * base.bytes);
    options.only = {"checkpoint", "accumulate"};
    // Peaks are what was measured there, so the limit is held against them.
    options.evaluate = [&](const std::vector<search::Strategy>& strategies) {
      std::vector<search::Evaluation> all = search::evaluate_all(*made, strategies, 0);
      for (search::Evaluation& e : all) e.reserved_bytes.reset();
      return all;
    };
    const auto found = search::optimize(*made, options);
    ASSERT_TRUE(found.has_value()) << found.error().to_string();
    const auto real = measured.find(mix_of(found->best));
    ASSERT_NE(real, measured.end()) << name << ": " << describe(found->best)
                                    << " was not measured; those that were: " << listed(measured);
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
