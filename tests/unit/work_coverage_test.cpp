// Every GPU task of real traces has a row, and nearly all GPU time a family with a model.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::work {
namespace {

struct Coverage {
  double total = 0;
  double other = 0;
  std::map<std::string, double> unknown;  ///< by kernel name
};

void add_trace(const std::string& path, Coverage& all, bool each) {
  Result<trace::Trace> trace = trace::load(path);
  ASSERT_TRUE(trace) << trace.error().to_string();
  const trace::Steps steps = trace::find_steps(*trace);
  if (steps.steps.empty()) return;
  Result<graph::Graph> graph = graph::GraphBuilder(*trace, steps).build(steps.median());
  if (!graph) return;
  const Works works = describe(*trace, *graph);
  Coverage mine;
  for (std::size_t t = 0; t < graph->size(); ++t) {
    if (!graph::is_gpu(graph->kind[t])) {
      EXPECT_EQ(works.of(t), nullptr);
      continue;
    }
    ASSERT_NE(works.of(t), nullptr) << path << ": " << graph->task_name(t);
    const Work& w = *works.of(t);
    const double ns = static_cast<double>(graph->cost[t]);
    mine.total += ns;
    if (w.family == Family::kOther) {
      mine.other += ns;
      mine.unknown[std::string(graph->task_name(t))] += ns;
    }
  }
  if (each && mine.total > 0) {
    EXPECT_LE(mine.other, 0.02 * mine.total) << path;
  }
  all.total += mine.total;
  all.other += mine.other;
  for (const auto& [name, ns] : mine.unknown) all.unknown[name] += ns;
}

// `each`: every trace alone, too. Public traces hold programs of a few hand-written kernels.
void expect_covered(const std::filesystem::path& folder, bool each) {
  Coverage all;
  std::size_t traces = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json.gz") || name.starts_with("jax")) continue;
    add_trace(entry.path().string(), all, each);
    ++traces;
  }
  EXPECT_GT(traces, 0U) << folder;
  std::string worst;
  for (const auto& [name, ns] : all.unknown) worst += fmt::format("{:9.1f} us  {:.100}\n", ns / 1e3, name);
  EXPECT_LE(all.other, 0.02 * all.total) << worst;
}

TEST(WorkCoverage, ExampleTrace) { expect_covered(std::filesystem::path(FORETRACE_SOURCE_DIR) / "examples", true); }

TEST(WorkCoverage, Truth) {
  const char* folder = std::getenv("FORETRACE_TRUTH");
  if (folder == nullptr) GTEST_SKIP() << "FORETRACE_TRUTH is not set";
  expect_covered(folder, true);
}

TEST(WorkCoverage, PublicTraces) {
  const char* folder = std::getenv("FORETRACE_PUBLIC");
  if (folder == nullptr) GTEST_SKIP() << "FORETRACE_PUBLIC is not set";
  expect_covered(std::filesystem::path(folder) / "kineto-misc", false);
  expect_covered(std::filesystem::path(folder) / "dlrm-8ranks-v100", true);
}

}  // namespace
}  // namespace foretrace::work
