// Precision and compilation of some modules: their limits are the whole model and the step as it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Loaded {
  std::unique_ptr<trace::Trace> trace;
  std::unique_ptr<analysis::Baseline> base;
};

const Loaded& loaded(const std::string& path, double ms) {
  static std::map<std::string, Loaded> all;
  Loaded& l = all[path];
  if (!l.trace) {
    l.trace = std::make_unique<trace::Trace>(trace::load(std::string(FORETRACE_SOURCE_DIR) + path).value());
    l.base = std::make_unique<analysis::Baseline>(analysis::make_baseline(*l.trace, std::nullopt, ms).value());
  }
  return l;
}
const analysis::Baseline& resnet() { return *loaded("/examples/resnet50-h200.json.gz", 71.6).base; }
const analysis::Baseline& bert() { return *loaded("/data/h200-more/bert_l8.base.json.gz", 233.1).base; }

whatif::Prediction predict(const analysis::Baseline& b, const std::string& use) {
  return search::predict_strategy(b, {{use}, {}});
}

std::string blocks(std::size_t n) {
  std::string list;
  for (std::size_t i = 0; i < n; ++i) list += (i == 0 ? "" : "|") + ("bert.encoder.layer." + std::to_string(i));
  return list;
}

std::size_t kernels_named(const graph::Graph& g, std::string_view name) {
  std::size_t n = 0;
  for (std::size_t t = 0; t < g.size(); ++t) n += graph::is_gpu(g.kind[t]) && g.task_name(t) == name ? 1U : 0U;
  return n;
}

TEST(Layers, AllOfThemAreTheWholeModel) {
  for (const char* const dtype : {"fp16", "bf16"}) {
    const std::string use = std::string("amp:dtype=") + dtype;
    const whatif::Prediction whole = predict(resnet(), use);
    EXPECT_EQ(predict(resnet(), use + ",layers=*").step, whole.step);
    const whatif::Prediction listed =
        predict(resnet(), use + ",layers=conv1|bn1|relu|maxpool|layer1|layer2|layer3|layer4|avgpool|fc");
    ASSERT_EQ(listed.declined, "");
    EXPECT_NEAR(static_cast<double>(listed.gpu_time), static_cast<double>(whole.gpu_time),
                0.01 * static_cast<double>(whole.gpu_time));
    EXPECT_NEAR(static_cast<double>(*listed.peak_bytes), static_cast<double>(*whole.peak_bytes),
                0.01 * static_cast<double>(*whole.peak_bytes));
  }
}

TEST(Layers, LayersWithoutProductsStayAsTheyAre) {
  EXPECT_THAT(predict(resnet(), "amp:layers=bn1|maxpool").declined, HasSubstr("half precision"));
}

TEST(Layers, EveryBlockMoreIsFasterAndSmaller) {
  whatif::Prediction before;
  before.gpu_time = INT64_MAX;
  before.peak_bytes = INT64_MAX;
  for (std::size_t n = 1; n <= 8; ++n) {
    const whatif::Prediction p = predict(bert(), "amp:dtype=bf16,layers=" + blocks(n));
    ASSERT_EQ(p.declined, "");
    EXPECT_LT(p.gpu_time, before.gpu_time) << n;
    EXPECT_LE(*p.peak_bytes, *before.peak_bytes) << n;
    before = p;
  }
  EXPECT_GT(before.gpu_time, predict(bert(), "amp:dtype=bf16").gpu_time) << "the head is left";
}

TEST(Layers, BordersAreCast) {
  // Two convolutions' inputs and weights on the way in, and one result on the way out; all of them again in backward.
  const whatif::Prediction one = predict(resnet(), "amp:dtype=bf16,layers=layer2.1");
  const whatif::Prediction two = predict(resnet(), "amp:dtype=bf16,layers=layer2.1|layer2.2");
  const whatif::Prediction apart = predict(resnet(), "amp:dtype=bf16,layers=layer2.1|layer2.3");
  ASSERT_EQ(one.declined + two.declined + apart.declined, "");
  EXPECT_LT(kernels_named(two.graph, "cast"), kernels_named(apart.graph, "cast")) << "neighbours share a border";
  EXPECT_EQ(kernels_named(apart.graph, "cast"), 2 * kernels_named(one.graph, "cast"));
  EXPECT_LT(two.gpu_time, apart.gpu_time);
}

TEST(Layers, ANameTheTraceDoesNotHaveIsAnError) {
  for (const char* const use : {"amp:layers=layer5", "compile:layers=layer1|layer5", "checkpoint:layers=layer5"}) {
    EXPECT_THAT(predict(resnet(), use).declined,
                AllOf(HasSubstr("no layer"), HasSubstr("'layer5'"), HasSubstr("layer4.")))
        << use;
  }
}

TEST(Layers, CompiledRegionsLieBetweenNothingAndAll) {
  const whatif::Prediction whole = predict(bert(), "compile");
  Ns before = INT64_MAX;
  for (std::size_t n = 1; n <= 8; ++n) {
    const whatif::Prediction p = predict(bert(), "compile:layers=" + blocks(n));
    ASSERT_EQ(p.declined, "");
    EXPECT_LT(p.gpu_time, before);
    before = p.gpu_time;
  }
  EXPECT_GE(before, whole.gpu_time);
  EXPECT_THAT(predict(bert(), "compile:layers=bert.encoder.layer.0,mode=reduce-overhead").declined,
              HasSubstr("default"));
}

TEST(Layers, TheSearchDecidesThemAndWritesThemDown) {
  search::OptimizeOptions options;
  options.only = {"amp", "compile"};
  options.start = {{{"amp:dtype=bf16,layers=" + blocks(4), "compile:layers=" + blocks(4)}, {}}};
  options.evaluations = 1;  // as it starts: what is written is what is asked here
  auto found = search::optimize(bert(), options);
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  ASSERT_EQ(found->best, options.start.front());
  const auto read = search::parse_strategy(report::strategy_json(found->best), "file");
  ASSERT_TRUE(read.has_value()) << read.error().to_string();
  EXPECT_EQ(*read, found->best);
  const std::string code = report::pytorch_script({bert().figures, std::move(*found)});
  EXPECT_THAT(code,
              AllOf(HasSubstr("(\"bert.encoder.layer.2\", False)"), HasSubstr("(\"bert.encoder.layer.3\", True)"),
                    HasSubstr("        module.compile()"), HasSubstr("autocast_region(module, torch.bfloat16, ends)")));

  options.start.clear();
  options.evaluations = 80;
  const auto free = search::optimize(bert(), options);
  ASSERT_TRUE(free.has_value());
  EXPECT_LE(free->prediction.step, predict(bert(), "amp:dtype=bf16").step);
}

// A plan of buckets is for gradients that come block by block: what is predicted is what is written.
TEST(Layers, APlanOfBucketsCompilesBlocks) {
  const analysis::Baseline& base = *loaded("/data/h200-clean/bert_base.base.json.gz", 77).base;
  search::OptimizeOptions options;
  options.only = {"compile", "bucket"};
  options.communication = search::Communication{.workers = 8, .fabric = "25GbE"};
  const auto found = search::optimize(base, options);
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  ASSERT_TRUE(found->best.communication.has_value());
  ASSERT_FALSE(found->best.communication->buckets.empty());
  ASSERT_EQ(found->best.whatifs.size(), 1U);
  EXPECT_THAT(found->best.whatifs.front(),
              AllOf(HasSubstr("compile:layers=bert.encoder.layer.0|"), HasSubstr("bert.encoder.layer.11")));
  EXPECT_EQ(search::predict_strategy(base, found->best).step, found->prediction.step);
  const std::string code = report::pytorch_script({base.figures, *found});
  EXPECT_THAT(code, AllOf(HasSubstr("\"bert.encoder.layer.11\""), HasSubstr("module.compile()"),
                          ::testing::Not(HasSubstr("model.compile()"))));
}

}  // namespace
}  // namespace foretrace::test
