// The same step on other GPUs: identity, order, memory, prices, what is declined, stacking.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "foretrace/analysis/gpus.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "hardware/cost_product.hpp"
#include "whatif/rewrite/moved_collectives.hpp"

namespace foretrace::report {
namespace {

using ::testing::HasSubstr;

const trace::Trace& example() {
  static const trace::Trace kTrace =
      *trace::load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz");
  return kTrace;
}

Result<analysis::GpusReport> gpus_of(const trace::Trace& trace, const analysis::GpusOptions& options,
                                     std::optional<double> measured_ms = std::nullopt) {
  FORETRACE_TRY(analysis::Baseline base, analysis::make_baseline(trace, std::nullopt, measured_ms));
  return analysis::compare_gpus(std::move(base), options);
}

const analysis::GpuPrediction& of(const analysis::GpusReport& r, std::string_view device) {
  const auto it = std::find_if(r.predictions.begin(), r.predictions.end(),
                               [&](const analysis::GpuPrediction& g) { return g.device.name == device; });
  EXPECT_NE(it, r.predictions.end()) << device;
  return *it;
}

TEST(Gpus, TheOriginIsTheReplayToTheNanosecond) {
  const Result<analysis::Baseline> b = analysis::make_baseline(example(), std::nullopt, std::nullopt);
  ASSERT_TRUE(b);
  const Result<analysis::GpusReport> r = gpus_of(example(), {.targets = {"H200-SXM"}});
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(r->from, "NVIDIA H200");
  EXPECT_EQ(of(*r, "H200-SXM").prediction.step, b->figures.unprofiled);
  EXPECT_EQ(of(*r, "H200-SXM").prediction.origin, "measured");
  const Result<analysis::GpusReport> measured = gpus_of(example(), {.targets = {"H200-SXM"}}, 83.25);
  ASSERT_TRUE(measured);
  EXPECT_EQ(of(*measured, "H200-SXM").prediction.step, 83'250'000);
}

// A stack of what-ifs by name, as `foretrace whatif … --stack` predicts it.
whatif::Prediction stacked(const analysis::Baseline& b, const std::vector<std::string>& names) {
  std::vector<whatif::Use> uses;
  for (const std::string& name : names) uses.push_back(*whatif::parse_use(name));
  return analysis::predict(b, uses);
}

// Whatever else is stacked, and whichever way it is asked: TF32 changes nothing on a GPU without it, to the nanosecond.
TEST(Gpus, Tf32LeavesEveryGpuWithoutItAsItIs) {
  const Result<analysis::Baseline> b = analysis::make_baseline(example(), std::nullopt, std::nullopt);
  ASSERT_TRUE(b);
  std::size_t without = 0;
  for (const hardware::Device& d : hardware::devices()) {
    const std::string move = "gpu:to=" + d.name;
    const whatif::Prediction plain = stacked(*b, {move});
    const whatif::Prediction tf32 = stacked(*b, {"tf32", move});
    ASSERT_TRUE(plain.declined.empty() && tf32.declined.empty()) << d.name << tf32.declined;
    if (d.tflops_tf32 > 0) {
      // Where tensor cores multiply no faster in TF32, strict kernels run; copies between layouts that TF32 needed on the GPU of the
      // trace stay in the step.
      const double copies = d.tflops_tf32 > d.tflops_fp32 ? 1 : 1.03;
      EXPECT_LE(static_cast<double>(tf32.step), copies * static_cast<double>(plain.step)) << d.name;
      continue;
    }
    ++without;
    EXPECT_EQ(tf32.step, plain.step) << d.name;
    EXPECT_EQ(tf32.low, plain.low) << d.name;
    EXPECT_EQ(tf32.high, plain.high) << d.name;
    EXPECT_THAT(tf32.not_modelled, ::testing::Contains(HasSubstr("has no TF32"))) << d.name;
    EXPECT_EQ(stacked(*b, {"tf32", "batch:x=2", move}).step, stacked(*b, {"batch:x=2", move}).step) << d.name;
    const Result<analysis::GpusReport> r = gpus_of(example(), {.targets = {d.name}, .whatifs = {"tf32"}});
    ASSERT_TRUE(r);
    EXPECT_EQ(of(*r, d.name).prediction.step, plain.step) << d.name;
  }
  EXPECT_GE(without, 8U);
}

TEST(Gpus, AllOfThemInOrder) {
  const Result<analysis::GpusReport> r = gpus_of(example(), {});
  ASSERT_TRUE(r);
  const auto& all = hardware::devices();
  const auto compared = std::count_if(all.begin(), all.end(), [](const auto& d) { return !d.recognised_only; });
  EXPECT_EQ(r->predictions.size(), static_cast<std::size_t>(compared));
  EXPECT_LT(r->predictions.size(), all.size());
  EXPECT_TRUE(of(*r, "MI300X").prediction.declined.empty());
  EXPECT_THAT(of(*r, "MI300X").prediction.not_modelled, ::testing::Contains(HasSubstr("libraries of their own")));
  Ns before = 0;
  for (const analysis::GpuPrediction& g : r->predictions) {
    if (!g.prediction.declined.empty() || g.fits == false) break;
    EXPECT_GE(g.prediction.step, before);
    EXPECT_LE(g.prediction.low, g.prediction.step);
    EXPECT_GE(g.prediction.high, g.prediction.step);
    before = g.prediction.step;
  }
  EXPECT_LT(of(*r, "H100-SXM5").prediction.step, of(*r, "T4").prediction.step);
}

TEST(Gpus, PricesAndMemory) {
  analysis::GpusOptions options{.targets = {"H100-SXM5", "L4", "P4"}, .prices = {{"h100-sxm5", 3.6}, {"L4", 0.36}}};
  options.order = analysis::GpuOrder::kCost;
  const Result<analysis::GpusReport> r = gpus_of(example(), options);
  ASSERT_TRUE(r);
  const analysis::GpuPrediction& h100 = of(*r, "H100-SXM5");
  ASSERT_TRUE(h100.usd_per_1k_steps);
  // 3.6 USD an hour is a thousandth of a dollar a second.
  EXPECT_NEAR(*h100.usd_per_1k_steps, static_cast<double>(h100.prediction.step) / 1e9, 1e-9);
  EXPECT_NEAR(*h100.steps_per_usd * *h100.usd_per_1k_steps, 1000, 1e-6);
  EXPECT_FALSE(gpus_of(example(), {.prices = {{"H1000", 1}}}));
}

TEST(Gpus, WhatDoesNotFitIsSaid) {
  const Result<analysis::GpusReport> r = gpus_of(example(), {.targets = {"P4", "H100-SXM5"}, .whatifs = {"batch:x=4"}});
  ASSERT_TRUE(r);
  const analysis::GpuPrediction& p4 = of(*r, "P4");
  EXPECT_EQ(p4.fits, false);
  EXPECT_THAT(p4.prediction.not_modelled, ::testing::Contains(HasSubstr("does not fit into P4")));
  EXPECT_EQ(of(*r, "H100-SXM5").fits, true);
  EXPECT_EQ(r->predictions.back().device.name, "P4");
  EXPECT_THAT(to_text(*r, {}), HasSubstr("does not fit"));
}

TEST(Gpus, ADeviceIsCheckedWithTheRest) {
  const Result<whatif::Use> wrong = whatif::parse_use("gpu:to=H10");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kUsage);
  EXPECT_THAT(wrong.error().to_string(), HasSubstr("H100-SXM5"));
  EXPECT_TRUE(whatif::parse_use("gpu:to=h100-sxm5"));
}

TEST(Gpus, StacksWithOtherChanges) {
  const Result<analysis::GpusReport> plain = gpus_of(example(), {.targets = {"B200"}});
  const Result<analysis::GpusReport> amp = gpus_of(example(), {.targets = {"B200"}, .whatifs = {"amp"}});
  ASSERT_TRUE(plain && amp);
  EXPECT_EQ(amp->predictions[0].prediction.whatif, "amp + gpu:to=B200");
  EXPECT_LT(amp->predictions[0].prediction.gpu_time, plain->predictions[0].prediction.gpu_time);
  const Result<analysis::GpusReport> slow = gpus_of(example(), {.targets = {"B200"}, .cpu = 0.25});
  ASSERT_TRUE(slow);
  EXPECT_GT(slow->predictions[0].prediction.step, plain->predictions[0].prediction.step);
}

TEST(Gpus, Tf32LeavesADeviceWithoutItAsItIs) {
  const Result<analysis::GpusReport> plain = gpus_of(example(), {});
  const Result<analysis::GpusReport> tf32 = gpus_of(example(), {.whatifs = {"tf32"}});
  ASSERT_TRUE(plain && tf32);
  for (const analysis::GpuPrediction& g : tf32->predictions) {
    const analysis::GpuPrediction& before = of(*plain, g.device.name);
    if (g.device.tflops_tf32 <= 0) {
      EXPECT_EQ(g.prediction.step, before.prediction.step) << g.device.name;
    } else {
      EXPECT_LE(g.prediction.gpu_time, before.prediction.gpu_time * 101 / 100) << g.device.name;
    }
  }
}

TEST(Gpus, PriceListsHaveProvidersAndDates) {
  const auto list = analysis::read_prices(
      "device,usd_per_hour,provider,date\nL4,0.36,example cloud,2026-11-09\nT4,0.1,other,2024-05\n", "p.csv");
  ASSERT_TRUE(list) << list.error().to_string();
  analysis::GpusOptions options{.targets = {"L4", "T4", "H200-SXM"}, .prices = {{"L4", 0.72}}, .price_list = *list};
  options.watts = true;
  const Result<analysis::GpusReport> r = gpus_of(example(), options);
  ASSERT_TRUE(r);
  EXPECT_EQ(of(*r, "L4").usd_per_hour, 0.72);
  EXPECT_EQ(of(*r, "L4").price_source, "") << "given by hand";
  EXPECT_EQ(of(*r, "T4").price_source, "2024-05, other");
  EXPECT_THAT(of(*r, "T4").price_age, HasSubstr("2 years"));
  EXPECT_EQ(of(*r, "H200-SXM").price_source.substr(0, 2), "20") << "the device's own price has a date";
  ASSERT_TRUE(of(*r, "T4").kwh_per_1k_steps);
  EXPECT_NEAR(*of(*r, "T4").kwh_per_1k_steps, 70 * static_cast<double>(of(*r, "T4").prediction.step) / 3.6e12, 1e-9);
  EXPECT_THAT(to_text(*r, {}), HasSubstr("kWh/1k steps"));
  EXPECT_THAT(to_text(*r, {}), HasSubstr("--price: L4"));
  EXPECT_THAT(to_text(*r, {}), HasSubstr("2024-05, other (2 years older than the newest price known): T4"));
  for (const char* bad :
       {"", "device,price\n", "device,usd_per_hour,provider,date\nL4,cheap,x,2026-11\n",
        "device,usd_per_hour,provider,date\nL4,1,,2026-11\n", "device,usd_per_hour,provider,date\nL4,1,x,soon\n",
        "device,usd_per_hour,provider,date\nL4,1,x\n"}) {
    const auto wrong = analysis::read_prices(bad, "p.csv");
    ASSERT_FALSE(wrong) << bad;
    EXPECT_EQ(wrong.error().code, ErrorCode::kUnreadable);
  }
}

TEST(Gpus, AnotherHostAndWhatItBounds) {
  const std::filesystem::path slow = std::filesystem::temp_directory_path() / "foretrace_gpus_slow_host.csv";
  std::ofstream(slow) << "# figure,value,sample,spread\nspeed,8,a test,0\n";
  const Result<analysis::GpusReport> here = gpus_of(example(), {.targets = {"H100-SXM5", "T4"}});
  const Result<analysis::GpusReport> there =
      gpus_of(example(), {.targets = {"H100-SXM5", "T4"}, .to_host = slow.string()});
  ASSERT_TRUE(here && there) << (there ? "" : there.error().to_string());
  EXPECT_GT(of(*there, "H100-SXM5").prediction.step, of(*here, "H100-SXM5").prediction.step);
  EXPECT_TRUE(of(*there, "H100-SXM5").cpu_bound);
  EXPECT_FALSE(of(*here, "T4").cpu_bound);
  EXPECT_THAT(to_text(*there, {}), HasSubstr("not limited by the GPU alone on H100-SXM5"));
  EXPECT_FALSE(analysis::check({.to_host = "no-such-host.csv"}));
  std::filesystem::remove(slow);
}

TEST(Gpus, Fp8IsDeclinedByNameWhereThereIsNone) {
  const Result<trace::Trace> trace =
      trace::load(std::string(FORETRACE_SOURCE_DIR) + "/data/h200-lengths/bert_base-today.base.json.gz");
  ASSERT_TRUE(trace) << trace.error().to_string();
  const Result<analysis::GpusReport> r =
      gpus_of(*trace, {.targets = {"H100-SXM5", "L40S", "A100-SXM4-80GB", "T4"}, .whatifs = {"fp8"}});
  ASSERT_TRUE(r) << r.error().to_string();
  for (const char* name : {"H100-SXM5", "L40S"}) EXPECT_EQ(of(*r, name).prediction.declined, "") << name;
  for (const char* name : {"A100-SXM4-80GB", "T4"}) {
    EXPECT_THAT(of(*r, name).prediction.declined, HasSubstr(std::string(name) + " has no FP8 products")) << name;
  }
}

TEST(Gpus, CollectivesFollowTheLinksOfTheNode) {
  const Result<trace::Trace> trace =
      trace::load(std::string(FORETRACE_SOURCE_DIR) + "/data/h200-ranks/resnet50.mps.ddp@5.w2.r0.json.gz");
  ASSERT_TRUE(trace) << trace.error().to_string();
  const Result<analysis::Baseline> b = analysis::make_baseline(*trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(b) << b.error().to_string();
  const auto moved = [&](const char* to) {
    return whatif::MovedCollectives(*hardware::find_device("H200-SXM"), *hardware::find_device(to));
  };
  std::size_t seen = 0;
  for (std::uint32_t t = 0; t < b->model.graph.size(); ++t) {
    if (b->model.graph.kind[t] != graph::TaskKind::kCollective) continue;
    ++seen;
    const whatif::MovedCollectives a100 = moved("A100-SXM4-80GB");
    double before = 0;
    for (double us = 1; us < 1e5; us *= 1.07) {  // continuous, and never falls
      const std::optional<whatif::MovedCollectives::Moved> there = a100.move(b->model, t, us * 1e3);
      ASSERT_TRUE(there);
      EXPECT_GT(there->ns, before);
      EXPECT_TRUE(before == 0 || there->ns < 1.08 * before);
      EXPECT_GT(there->sigma, 0);  // both nodes' links are models
      before = there->ns;
    }
    EXPECT_GT(moved("T4").move(b->model, t, 5e6)->ns, a100.move(b->model, t, 5e6)->ns);
    EXPECT_GE(a100.move(b->model, t, 5e6)->ns, 5e6);
    EXPECT_NEAR(moved("H100-SXM5").move(b->model, t, 5e6)->ns, 5e6, 1);  // the same links
  }
  EXPECT_GT(seen, 2U);
  const Result<analysis::GpusReport> r = gpus_of(*trace, {.targets = {"T4"}});
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_THAT(of(*r, "T4").prediction.not_modelled,
              ::testing::Contains(HasSubstr("collectives follow the links inside a node, DGX-H100 to PCIe3")));
}

TEST(Gpus, AWhatIfToAnotherGpuSaysWhenTheCpuBoundsItThere) {
  const Result<analysis::Baseline> b = analysis::make_baseline(example(), std::nullopt, std::nullopt);
  ASSERT_TRUE(b);
  const auto notes = [&](const char* text) {
    return analysis::predict(*b, {*whatif::parse_use("amp"), *whatif::parse_use(text)}).not_modelled;
  };
  EXPECT_THAT(notes("gpu:to=B200"), ::testing::Contains(HasSubstr("the CPU bounds the step on B200")));
  EXPECT_THAT(notes("gpu:to=T4"), ::testing::Not(::testing::Contains(HasSubstr("the CPU bounds"))));
}

TEST(Gpus, WhatIsWrong) {
  EXPECT_FALSE(gpus_of(example(), {.targets = {"H999"}}));
  EXPECT_FALSE(gpus_of(example(), {.whatifs = {"nonsense"}}));
  trace::Trace silent = *trace::load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz");
  silent.devices.clear();
  EXPECT_FALSE(gpus_of(silent, {.targets = {"H200-SXM"}}));
  EXPECT_TRUE(gpus_of(silent, {.targets = {"A100-SXM4-80GB"}, .from = "H200-SXM"}));
}

TEST(Gpus, JsonNames) {
  const Result<analysis::GpusReport> r = gpus_of(example(), {.targets = {"A100-SXM4-80GB"}});
  ASSERT_TRUE(r);
  const std::string json = to_json(*r);
  for (const char* name :
       {"\"schema\": 1", "\"from\": \"NVIDIA H200\"", "\"predictions\"", "\"device\"", "\"ms\"", "\"low_ms\"",
        "\"high_ms\"", "\"usd_per_1k_steps\"", "\"origin\"", "\"not_modelled\"", "\"peak_bytes\""}) {
    EXPECT_THAT(json, HasSubstr(name));
  }
}

}  // namespace
}  // namespace foretrace::report
