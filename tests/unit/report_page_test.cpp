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
#include "report/page_job.hpp"
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

TEST(Page, NamesTheFileWithoutItsFolder) {
  const Result<overview::Overview> all = overview::make_overview(example(), {.whatifs = {"fused-optimizer"}});
  ASSERT_TRUE(all);
  const Result<report::Page> page = report::make_page(*all, {});
  ASSERT_TRUE(page);
  EXPECT_THAT(page->html, HasSubstr(R"("file": "resnet50-h200.json.gz",)"));
  EXPECT_THAT(page->html, HasSubstr("<title>resnet50-h200.json.gz"));
}

TEST(Overview, OperationsUnderTheRoof) {
  const Result<overview::Overview> all = overview::make_overview(example(), {.whatifs = {"fused-optimizer"}});
  ASSERT_TRUE(all);
  ASSERT_FALSE(all->operations.empty());
  double time = 0, flops = 0;
  for (const overview::OperationWork& one : all->operations) {
    time += one.ns;
    flops += one.flops;
    EXPECT_EQ(one.share_of_roof.has_value(), one.flops > 0) << one.operation;
    // Caches let small tensors be read faster than memory can.
    if (one.share_of_roof) EXPECT_LT(*one.share_of_roof, 2) << one.operation;
  }
  EXPECT_LE(time, 1.001 * static_cast<double>(all->summary.gpu_time));
  EXPECT_GT(flops, all->summary.flops->model);
  const auto& first = all->operations.front();
  EXPECT_EQ(first.operation, "aten::convolution_backward");
  EXPECT_GT(first.share_of_roof.value_or(0), 0.2);
}

ranks::Job example_job() {
  Result<ranks::Job> job = ranks::load_job({FORETRACE_SOURCE_DIR "/examples/resnet50-ddp/rank0.json.gz",
                                            FORETRACE_SOURCE_DIR "/examples/resnet50-ddp/rank1.json.gz"});
  return std::move(*job);
}

TEST(Overview, AllRanksOfAJob) {
  const ranks::Job job = example_job();
  const Result<overview::Overview> all =
      overview::make_overview(job.ranks[0].trace, {.whatifs = {"fused-optimizer"}, .job = &job});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->no_job, "");
  ASSERT_TRUE(all->job);
  EXPECT_EQ(all->job->report.ranks.size(), 2U);
  ASSERT_TRUE(all->job->baseline) << all->job->declined;
  ASSERT_EQ(all->job->alone.size(), 1U);
  EXPECT_EQ(all->job->best ? all->job->best->step : 0, all->job->alone.front().step);
  const Result<report::Page> page = report::make_page(*all, {});
  ASSERT_TRUE(page);
  EXPECT_THAT(page->answer, HasSubstr("on rank 0 of 2"));
  EXPECT_THAT(page->html, HasSubstr(R"("verb": "ranks")"));
}

TEST(Overview, AJobThatIsNoneIsSaid) {
  ranks::Job job = example_job();
  job.ranks.resize(1);
  job.ranks[0].steps.steps.clear();
  const Result<overview::Overview> all =
      overview::make_overview(example(), {.whatifs = {"fused-optimizer"}, .job = &job});
  ASSERT_TRUE(all);
  EXPECT_FALSE(all->job);
  EXPECT_NE(all->no_job, "");
}

std::vector<std::uint64_t> numbers(const report::Column& column) {
  std::vector<std::uint64_t> out;
  std::uint64_t value = 0;
  int shift = 0;
  for (const char c : column.bytes()) {
    value |= static_cast<std::uint64_t>(c & 0x7F) << shift;
    shift += 7;
    if ((c & 0x80) != 0) continue;
    out.push_back(value);
    value = 0;
    shift = 0;
  }
  return out;
}

// What the page draws as waiting in collectives is what the report says of each rank.
TEST(PageJob, WaitsAreThoseOfTheReport) {
  const ranks::Job job = example_job();
  Result<std::shared_ptr<const analysis::RanksStep>> step = analysis::open_ranks_step(job);
  ASSERT_TRUE(step);
  const overview::JobOverview all{&job, analysis::ranks_report(job, **step), *step};
  report::Names names;
  const report::Columns columns = report::job_columns(all, names);
  const graph::Graph& g = (*step)->graph.graph;
  const std::vector<std::uint64_t> kind = numbers(columns.kind), length = numbers(columns.length);
  ASSERT_EQ(kind.size(), g.size());
  ASSERT_EQ(length.size(), g.size());
  std::vector<Ns> waits(job.ranks.size(), 0);
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    const std::uint32_t rank = (*step)->graph.rank_of_lane[g.lane[t]];
    if ((kind[t] & 15) != static_cast<unsigned>(graph::TaskKind::kWait) || rank == kNone) continue;
    waits[rank] += static_cast<Ns>(length[t]);
  }
  for (std::size_t r = 0; r < waits.size(); ++r) EXPECT_EQ(waits[r], all.report.ranks[r].wait) << r;
}

}  // namespace
}  // namespace foretrace
