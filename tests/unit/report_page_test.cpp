// What the page is made of before a browser sees it: answers under its sliders, what it says of tasks, what was off before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "foretrace/analysis/gpus.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "report/page_details.hpp"
#include "whatif/model/evidence.hpp"

namespace foretrace {
namespace {

using analysis::Slider;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const trace::Trace& example() {
  static const Result<trace::Trace> kTrace = trace::load(FORETRACE_SOURCE_DIR "/examples/resnet50-h200.json.gz");
  return *kTrace;
}

const analysis::Baseline& baseline() {
  static const Result<analysis::Baseline> kBaseline = analysis::make_baseline(example(), std::nullopt, std::nullopt);
  return *kBaseline;
}

analysis::ScaleReport scale_of(const std::vector<int>& workers) {
  const Result<whatif::Network> network = whatif::network_of({.fabric = "DGX-H100"}, baseline().model.device);
  EXPECT_TRUE(network);
  return analysis::scale_report(baseline(), {}, network->collectives, network->gpus_per_node, workers);
}

std::vector<double> xs(const Slider& slider) {
  std::vector<double> out;
  for (const analysis::SliderPoint& p : slider.points) out.push_back(p.x);
  return out;
}

TEST(Sliders, EveryPointIsAnAnswerOfTheDriver) {
  const analysis::ScaleReport scale = scale_of({8});
  const std::vector<Slider> all =
      analysis::sliders(baseline(), &scale, {.fabric = "DGX-H100", .few = true, .threads = 2});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].name, "batch");
  EXPECT_THAT(xs(all[0]), ElementsAre(0.5, 1, 2));
  const Result<whatif::Use> twice = whatif::parse_use("batch:x=2");
  EXPECT_EQ(all[0].points[2].step, analysis::predict(baseline(), {*twice}).step);
  EXPECT_EQ(all[0].points[1].step, baseline().figures.unprofiled);
  EXPECT_EQ(all[2].name, "workers");
  EXPECT_THAT(xs(all[2]), ElementsAre(1, 8));
  EXPECT_EQ(all[2].points[1].step, scale.predictions[0].step);
  EXPECT_EQ(all[2].points[1].samples, 8);
  EXPECT_EQ(all[3].name, "bandwidth");
  EXPECT_EQ(all[3].workers, 8);
  EXPECT_THAT(xs(all[3]), ElementsAre(0.0625, 1, 4));
  EXPECT_EQ(all[3].points[1].step, scale.predictions[0].step);
  EXPECT_THAT(all[3].about, HasSubstr("450 GB/s"));
}

TEST(Sliders, ASlowerNetworkExposesMore) {
  const analysis::ScaleReport scale = scale_of({8});
  const std::vector<Slider> all = analysis::sliders(baseline(), &scale, {.fabric = "DGX-H100", .few = true});
  const Slider& bandwidth = all.back();
  for (std::size_t i = 1; i < bandwidth.points.size(); ++i) {
    EXPECT_LE(bandwidth.points[i].step, bandwidth.points[i - 1].step);
    ASSERT_TRUE(bandwidth.points[i].exposed && bandwidth.points[i - 1].exposed);
    EXPECT_LE(*bandwidth.points[i].exposed, *bandwidth.points[i - 1].exposed);
  }
  EXPECT_FALSE(bandwidth.points.front().low) << "no band was computed, so none is shown";
}

TEST(Sliders, WithoutWorkersThereIsNoNetworkToMove) {
  for (const Slider& s : analysis::sliders(baseline(), nullptr, {.few = true}))
    EXPECT_THAT(s.name, testing::AnyOf("batch", "CPU"));
}

TEST(Sliders, AJobOfSeveralWorkersMovesItsOwnNetwork) {
  const Result<trace::Trace> rank = trace::load(FORETRACE_SOURCE_DIR "/examples/resnet50-ddp/rank0.json.gz");
  ASSERT_TRUE(rank);
  const Result<analysis::Baseline> base = analysis::make_baseline(*rank, std::nullopt, std::nullopt);
  ASSERT_TRUE(base);
  const std::vector<Slider> all = analysis::sliders(*base, nullptr, {.few = true});
  EXPECT_EQ(all.back().name, "bandwidth");
  EXPECT_EQ(all.back().workers, 0);
}

TEST(Sliders, AFasterFabricKeepsItsLatencies) {
  const Result<hardware::Fabric> fabric = hardware::fabric_from("DGX-H100");
  ASSERT_TRUE(fabric);
  const hardware::Fabric twice = analysis::faster(*fabric, 2);
  for (std::size_t i = 0; i < twice.levels.size(); ++i) {
    EXPECT_DOUBLE_EQ(twice.levels[i].gbs, 2 * fabric->levels[i].gbs);
    EXPECT_DOUBLE_EQ(twice.levels[i].extra_us, fabric->levels[i].extra_us);
  }
}

TEST(PageDetails, ShapesAndLaunches) {
  report::PageDetails details(example());
  std::string shapes, launch;
  for (std::uint32_t e = 0; e < example().size() && (shapes.empty() || launch.empty()); ++e) {
    if (shapes.empty() && example().name(e) == "aten::cudnn_convolution") {
      if (const std::uint64_t at = details.shapes(EventId{e}); at != 0) shapes = details.list()[at - 1];
    }
    if (launch.empty() && example().kind(e) == trace::EventKind::kKernel) {
      if (const std::uint64_t at = details.launch(EventId{e}); at != 0) launch = details.list()[at - 1];
    }
  }
  EXPECT_EQ(shapes, "float [64, 3, 224, 224], float [64, 3, 7, 7]");
  EXPECT_THAT(launch, StartsWith("grid "));
  EXPECT_THAT(launch, HasSubstr(", block "));
}

TEST(PastErrors, SayHowFarTheCatalogueWasOff) {
  const std::vector<whatif::PastErrors>& all = whatif::past_errors();
  ASSERT_FALSE(all.empty());
  for (const whatif::PastErrors& one : all) {
    EXPECT_TRUE(whatif::find_whatif(one.whatif)) << one.whatif;
    EXPECT_GT(whatif::evidence_of(one.whatif).rows, 0) << one.whatif;
    EXPECT_LE(one.rows, whatif::evidence_of(one.whatif).rows) << one.whatif;
    EXPECT_LE(one.step_pct.value_or(0), one.worst_step_pct.value_or(0)) << one.whatif;
  }
}

// A change behind one that does not apply: the answer is what comes before, with its own band.
TEST(Page, AStackThatDoesNotApplyAsAWhole) {
  const Result<overview::Overview> all =
      overview::make_overview(example(), {.whatifs = {"fused-optimizer", "flash-attention"}});
  ASSERT_TRUE(all);
  const Result<report::Page> page = report::make_page(*all, {});
  ASSERT_TRUE(page);
  EXPECT_THAT(page->answer, testing::EndsWith("with fused-optimizer."));
  EXPECT_THAT(page->answer, testing::Not(HasSubstr("[0")));
}

}  // namespace
}  // namespace foretrace
