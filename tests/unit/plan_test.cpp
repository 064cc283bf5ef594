// Plans: their text, what they are worth against the step they come from, and laws that hold for any of them.

#include "plan/plan.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware/collective.hpp"
#include "measured_step.hpp"
#include "plan/compose.hpp"

namespace foretrace::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kGpt2 = "h200-lengths/gpt2-today";  // 12 blocks

constexpr const char* kMixtral = "data/h200-decoders/mixtral@1x4096.json.gz";  // 2 blocks of 8 experts

plan::Planner planner_of(const analysis::Baseline& step, plan::PlanOptions options = {}) {
  if (options.network.fabric.empty()) options.network.fabric = "DGX-H100";
  auto made = plan::Planner::make(step, options);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}
plan::Planner planner_of(const std::string& step, plan::PlanOptions options = {}) {
  return planner_of(measured_step(step), std::move(options));
}

plan::PlanPrediction predicted_plan(plan::Planner& planner, const std::string& text) {
  const auto plan = plan::parse_plan(text);
  EXPECT_TRUE(plan) << text << ": " << plan.error().to_string();
  plan::PlanPrediction p = planner.predict(*plan);
  EXPECT_EQ(p.declined, "") << text;
  return p;
}

TEST(Plan, TextIsReadAndWrittenBack) {
  for (const char* const text :
       {"", "tp=2,pp=4,dp=8,zero=1,sequence=1,microbatches=16", "pp=4,schedule=interleaved,chunks=2", "cp=2,kind=ring",
        "ep=8,dp=8,reduce=0", "tp=2,vocab=replicated,recompute=full", "dp=16,fsdp=8,param-dtype=bf16,reduce-dtype=fp32",
        "pp=2,microbatch=1,global-batch=64,schedule=zb1p,master=fp32,outputs=kept", "pp=4,stages=9|8|8|7",
        "pp=4,balance=time", "tp=2,async=1,kv=refused", "ep=4,dp=4,imbalance=1.5,capacity=1.25",
        "dp=4,zero=1,overlap=1", "dp=8,fsdp=4,reshard=0,prefetch=2,cpu_offload=1", "dp=2,overlap=0", "recompute=6",
        "tp=2,pp=2,dp=2,order=tp-pp-cp-dp"}) {
    const auto plan = plan::parse_plan(text);
    ASSERT_TRUE(plan) << text << ": " << plan.error().to_string();
    EXPECT_EQ(*plan::parse_plan(plan::to_text(*plan)), *plan) << text;
  }
  EXPECT_EQ(plan::to_text(*plan::parse_plan("tp=1,pp=1,dp=1")), "");
  EXPECT_EQ(plan::parse_plan("fsdp=8")->zero, 3);
  EXPECT_EQ(plan::parse_plan("fsdp=8")->dp, 8);
  EXPECT_EQ(plan::parse_plan("ep=8")->dp, 8);
  EXPECT_EQ(plan::parse_plan("tp=2,pp=3,cp=2,dp=4")->workers(), 48);
}

TEST(Plan, WhatIsWrongByItselfIsRefused) {
  const auto why = [](std::string_view text) {
    const auto plan = plan::parse_plan(text);
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_THAT(why("tp"), HasSubstr("not key=value"));
  EXPECT_THAT(why("tp=0"), HasSubstr("whole number"));
  EXPECT_THAT(why("tp=2,tp=2"), HasSubstr("twice"));
  EXPECT_THAT(why("speed=2"), HasSubstr("no 'speed'"));
  EXPECT_THAT(why("pp=2,schedule=2f2b"), HasSubstr("1f1b or gpipe"));
  EXPECT_THAT(why("schedule=gpipe"), HasSubstr("pp of 2"));
  EXPECT_THAT(why("sequence=1"), HasSubstr("tp of 2"));
  EXPECT_THAT(why("ep=3,dp=4"), HasSubstr("does not divide"));
  EXPECT_THAT(why("dp=6,fsdp=4"), HasSubstr("does not divide"));
  EXPECT_THAT(why("pp=4,microbatches=9,schedule=interleaved"), HasSubstr("equal rounds"));
  EXPECT_THAT(why("dp=2,microbatch=2,microbatches=4,global-batch=8"), HasSubstr("are 16 samples"));
  EXPECT_THAT(why("tp=16384,pp=2"), HasSubstr("limit"));
  EXPECT_THAT(why("tp=1048576,pp=1048576,cp=1048576,dp=1048576"), HasSubstr("from 1 to 16384"));  // 2^80 of them
  EXPECT_THAT(why("pp=64,microbatches=1000000"), HasSubstr("more than 4194304 passes"));
  EXPECT_EQ(plan::parse_plan("TP=2").error().hint, "did you mean 'tp'?");
  EXPECT_EQ(plan::parse_plan("pp=2,schedule=1F1B").error().hint, "did you mean '1f1b'?");
  EXPECT_THAT(why("pp=4,stages=5|3"), HasSubstr("gives 2 stages, the plan has 4"));
  EXPECT_THAT(why("pp=2,stages=5|x"), HasSubstr("whole number"));
  EXPECT_THAT(why("pp=2,stages=5|3,balance=time"), HasSubstr("one of them"));
  EXPECT_THAT(why("balance=time"), HasSubstr("pp of 2"));
  EXPECT_THAT(why("order=tp-dp"), HasSubstr("tp-cp-dp-pp or"));
  EXPECT_THAT(why("async=1"), HasSubstr("tp of 2"));
  EXPECT_THAT(why("imbalance=2"), HasSubstr("ep of 2"));
  EXPECT_THAT(why("reshard=0,dp=2"), HasSubstr("zero=3"));
  EXPECT_THAT(why("recompute=0"), HasSubstr("whole number"));
  EXPECT_THAT(why("recompute=some"), HasSubstr("none or selective or alternate or full"));
}

TEST(Plan, OfOnesIsTheStep) {
  plan::Planner planner = planner_of(kGpt2);
  const plan::PlanPrediction p = predicted_plan(planner, "tp=1,pp=1,dp=1");
  const whatif::Prediction base = analysis::predict(measured_step(kGpt2), {});
  EXPECT_EQ(p.step, base.step);
  EXPECT_EQ(p.peak_bytes, base.peak_bytes);
  EXPECT_EQ(p.bubble, 0);
  EXPECT_EQ(p.exposed_communication, 0);
}

TEST(Plan, OfOneShardingIsItsWhatIf) {
  plan::Planner planner = planner_of(kGpt2);
  const auto step = [](const std::string& whatif) {
    return analysis::predict(measured_step(kGpt2), {*whatif::parse_use(whatif)}).step;
  };
  EXPECT_EQ(predicted_plan(planner, "tp=2,vocab=replicated").step, step("tp:size=2,fabric=DGX-H100,vocab=replicated"));
  EXPECT_EQ(predicted_plan(planner, "dp=4").step, step("ddp:workers=4,fabric=DGX-H100"));
  EXPECT_EQ(predicted_plan(planner, "recompute=5").step, step("checkpoint:blocks=5"));
  EXPECT_EQ(predicted_plan(planner, "tp=2,async=1").step, step("tp:size=2,fabric=DGX-H100,async=1"));
  EXPECT_EQ(predicted_plan(planner, "fsdp=4,reshard=0").step, step("fsdp:workers=4,fabric=DGX-H100,reshard=0"));
  EXPECT_EQ(predicted_plan(planner, "cp=4,reduce=0").step, step("cp:size=4,fabric=DGX-H100,reduce=0"));

  plan::Planner mixtral = planner_of(step_at(kMixtral));
  const auto experts = [](const std::string& whatif) {
    return analysis::predict(step_at(kMixtral), {*whatif::parse_use(whatif)}).step;
  };
  EXPECT_EQ(predicted_plan(mixtral, "ep=4").step, experts("ep:size=4,fabric=DGX-H100"));
  EXPECT_EQ(predicted_plan(mixtral, "ep=4,reduce=0").step, experts("ep:size=4,fabric=DGX-H100,reduce=0"));
  EXPECT_EQ(predicted_plan(mixtral, "ep=4,reduce=0,imbalance=1.5,capacity=1.25").step,
            experts("ep:size=4,fabric=DGX-H100,reduce=0,imbalance=1.5,capacity=1.25"));
}

// Summing gradients is work of a step, whatever its number of micro-batches.
TEST(Plan, GradientsAreSummedOnceInAStep) {
  plan::Planner gpt2 = planner_of(kGpt2);
  plan::Planner mixtral = planner_of(step_at(kMixtral), {.network = {.fabric = "DGX-H100"}, .layers = 8});
  const auto summing = [](plan::Planner& planner, const std::string& text) {
    return predicted_plan(planner, text).step - predicted_plan(planner, text + ",reduce=0").step;
  };
  for (const char* const text : {"cp=4,dp=2,microbatches=", "tp=2,pp=2,cp=4,dp=2,microbatches="}) {
    const Ns few = summing(gpt2, text + std::string("2"));
    const Ns many = summing(gpt2, text + std::string("8"));
    EXPECT_GT(few, 0) << text;
    EXPECT_LT(many, 2 * few) << text;  // less of it is hidden by shorter passes
  }
  const std::string experts = "pp=2,ep=4,dp=8,microbatch=1,global-batch=";
  const Ns few = summing(mixtral, experts + "16");
  EXPECT_GT(few, 0);
  EXPECT_LT(summing(mixtral, experts + "256"), 2 * few);
}

// Who has neighbours in its node: with stages inside, sends stay on NVLink and gradients leave the node.
TEST(Plan, TheOrderOfRanksDecidesWhichGroupsLeaveTheNode) {
  const plan::Plan usual = *plan::parse_plan("tp=2,pp=4,cp=2,dp=8");
  EXPECT_EQ(usual.apart("tp"), 1);
  EXPECT_EQ(usual.apart("cp"), 2);
  EXPECT_EQ(usual.apart("dp"), 4);
  EXPECT_EQ(usual.apart("pp"), 32);
  const plan::Plan stages_inside = *plan::parse_plan("tp=2,pp=4,cp=2,dp=8,order=tp-pp-cp-dp");
  EXPECT_EQ(stages_inside.apart("pp"), 2);
  EXPECT_EQ(stages_inside.apart("cp"), 8);
  plan::Planner planner = planner_of(step_at("data/h200-decoders/llama8b@1x4096.json.gz"));
  const std::string text = "tp=2,pp=4,dp=8,microbatch=1,global-batch=64";
  const plan::PlanPrediction a = predicted_plan(planner, text);
  const plan::PlanPrediction b = predicted_plan(planner, text + ",order=tp-pp-cp-dp");
  EXPECT_LT(b.exposed_stages, a.exposed_stages);
  EXPECT_GT(b.exposed_gradients, a.exposed_gradients);
  const plan::PlanPrediction c = predicted_plan(planner, text + ",order=pp-cp-dp-tp");
  EXPECT_GT(c.exposed_groups, a.exposed_groups);
}

// Communication that overlaps work is never slower than communication that waits, and a longer chain of recomputed blocks is slower and smaller.
TEST(Plan, OverlapAndRecomputationAreOrdered) {
  plan::Planner planner =
      planner_of(step_at("data/h200-decoders/llama8b@1x4096.json.gz"), {.network = {.fabric = "400GbE"}});
  const std::string zero1 = "pp=2,dp=4,zero=1,microbatch=1,global-batch=16";
  const plan::PlanPrediction none = predicted_plan(planner, zero1 + ",overlap=0");
  const plan::PlanPrediction reductions = predicted_plan(planner, zero1);
  const plan::PlanPrediction all = predicted_plan(planner, zero1 + ",overlap=1");
  EXPECT_GT(none.step, reductions.step);
  EXPECT_GT(reductions.step, all.step);
  EXPECT_GT(reductions.exposed_gradients, all.exposed_gradients);

  const std::string pipeline = "pp=2,dp=2,microbatch=1,global-batch=8";
  plan::PlanPrediction before = predicted_plan(planner, pipeline);
  for (const char* const blocks : {"2", "4", "8"}) {
    const plan::PlanPrediction more = predicted_plan(planner, pipeline + ",recompute=" + blocks);
    EXPECT_GT(more.step, before.step) << blocks;
    EXPECT_LT(more.ranks[0].activation_bytes, before.ranks[0].activation_bytes) << blocks;
    before = more;
  }
  const Ns full = predicted_plan(planner, pipeline + ",recompute=full").step;
  EXPECT_NEAR(static_cast<double>(before.step), static_cast<double>(full), 0.01 * static_cast<double>(full));
  EXPECT_THAT(planner.predict(*plan::parse_plan("recompute=9")).declined, HasSubstr("has 8 blocks, not 9"));

  const std::string sharded = "pp=2,dp=4,zero=3,microbatch=1,global-batch=16";
  const plan::PlanPrediction kept = predicted_plan(planner, sharded + ",reshard=0");
  EXPECT_LT(kept.step, predicted_plan(planner, sharded).step);
  EXPECT_GT(*kept.peak_bytes, *predicted_plan(planner, sharded).peak_bytes);
  EXPECT_THAT(planner.predict(*plan::parse_plan(sharded + ",cpu_offload=1")).declined, HasSubstr("without stages"));
}

// Whatever the groups are, GPUs in the middle of a pipeline have the same blocks and so the same work.
TEST(Plan, EqualStagesAreBusyEquallyLong) {
  plan::Planner planner = planner_of(step_at("data/h200-decoders/llama8b@1x8192.json.gz"));
  for (const std::string text : {"pp=4,cp=4,dp=16", "tp=4,pp=4,cp=2,dp=16"}) {
    const plan::PlanPrediction p = predicted_plan(planner, text + ",microbatch=1,global-batch=128");
    EXPECT_EQ(p.ranks[1].busy, p.ranks[2].busy) << text;
    EXPECT_LT(p.ranks[0].busy, p.ranks[1].busy * 5 / 4) << text;  // the embedding is little work
  }
}

// Those of one expert are in 1 / ep of the replicas: they have fewer to divide its states over.
TEST(Plan, ExpertsAreDividedOverTheReplicasThatHaveThem) {
  plan::Planner planner = planner_of(step_at(kMixtral));
  const auto states = [&](const std::string& text) {
    return static_cast<double>(predicted_plan(planner, text).ranks.front().states_bytes);
  };
  // As many replicas as experts are divided over: nobody else has the same ones, and only all else is divided.
  const double whole = states("ep=8,dp=8,microbatches=1");
  const double eighth = states("ep=8,dp=8,microbatches=1,zero=3");
  const double sixteenth = states("ep=8,dp=16,microbatches=1,zero=3");
  const double common = (whole - eighth) * 8 / 7;
  const double experts = whole - common;
  // By the model's shapes: in each block three products of an expert, and attention; embedding and head.
  constexpr double kExpert = 3.0 * 4096 * 14336, kAttention = 4096.0 * (2 * 4096 + 2 * 1024),
                   kTables = 2.0 * 32000 * 4096;
  EXPECT_NEAR(experts / whole, 2 * kExpert / (2 * kExpert + 2 * kAttention + kTables), 0.01);
  EXPECT_NEAR(sixteenth, common / 16 + experts / 2, 1e-3 * whole);
}

TEST(Plan, StatesNeverGrowWithStagesTensorsOrSharding) {
  plan::Planner planner = planner_of(kGpt2);
  const auto fullest = [&](const std::string& text) {
    std::int64_t states = 0;
    for (const plan::PlanRank& r : predicted_plan(planner, text).ranks) states = std::max(states, r.states_bytes);
    return states;
  };
  for (const char* const more : {"", ",zero=1", ",zero=2", ",zero=3"}) {
    const std::string data = std::string(",dp=4,microbatches=4") + more;
    std::int64_t before = fullest("pp=1" + data);
    for (const char* const stages : {"2", "3", "4", "6"}) {
      const std::int64_t states = fullest(std::string("pp=") + stages + data);
      EXPECT_LE(states, before) << stages << more;
      before = states;
    }
    EXPECT_LE(fullest("tp=2,pp=2" + data), fullest("pp=2" + data)) << more;
  }
  for (const char* const stages : {"1", "2"}) {
    const std::string with = std::string("pp=") + stages + ",dp=4,microbatches=4,zero=";
    EXPECT_LT(fullest(with + "1"), fullest(with + "0"));
    EXPECT_LT(fullest(with + "2"), fullest(with + "1"));
    EXPECT_LT(fullest(with + "3"), fullest(with + "2"));
  }
}

TEST(Plan, AFasterFabricNeverHurts) {
  plan::Planner slow = planner_of(kGpt2, {.network = {.fabric = "100GbE"}});
  plan::Planner fast = planner_of(kGpt2, {.network = {.fabric = "400GbE"}});
  for (const char* const text : {"pp=4,microbatches=4", "pp=2,dp=8,microbatches=4", "pp=2,dp=8,microbatches=4,zero=1",
                                 "pp=2,dp=4,microbatches=4,zero=3", "tp=2,pp=2,dp=4,microbatches=4"}) {
    EXPECT_LE(predicted_plan(fast, text).step, predicted_plan(slow, text).step) << text;
  }
}

TEST(Plan, MoreLayersTakeLongerAndMoreMemory) {
  plan::Planner twelve = planner_of(kGpt2);
  plan::Planner many = planner_of(kGpt2, {.network = {.fabric = "DGX-H100"}, .layers = 48});
  const plan::PlanPrediction a = predicted_plan(twelve, "pp=2,microbatches=4");
  const plan::PlanPrediction b = predicted_plan(many, "pp=2,microbatches=4");
  EXPECT_GT(b.step, 2 * a.step);
  EXPECT_GT(*b.peak_bytes, 2 * *a.peak_bytes);
  EXPECT_EQ(many.figures().traced_layers, 12);
}

constexpr const char* kDecoders[] = {"gpt2048@4x1024",   "gpt3.6b@4x2048",  "latent@1x4096",  "llama3b@2x4096",
                                     "llama405b@1x4096", "llama70b@1x4096", "llama8b@1x4096", "llama8b@1x8192-autocast",
                                     "llama8b@1x8192",   "mixtral@1x4096",  "mpt7b@2x2048"};
std::string decoder(const std::string& name) { return "data/h200-decoders/" + name + ".json.gz"; }

// What a plan takes a block for is what one more of them costs.
TEST(Plan, DeeperModelsAreThoseOfTheWhatIf) {
  for (const char* const name : kDecoders) {
    const analysis::Baseline& step = step_at(decoder(name));
    for (const int layers : {12, 16, 40}) {
      plan::Planner planner = planner_of(step, {.network = {.fabric = "DGX-H100"}, .layers = layers});
      const plan::PlanPrediction p = predicted_plan(planner, "dp=1");
      const whatif::Prediction deeper =
          analysis::predict(step, {*whatif::parse_use(fmt::format("layers:n={}", layers))});
      ASSERT_EQ(deeper.declined, "") << name;
      EXPECT_NEAR(static_cast<double>(p.step), static_cast<double>(deeper.step),
                  0.02 * static_cast<double>(deeper.step))
          << name << layers;
      EXPECT_NEAR(static_cast<double>(*p.peak_bytes), static_cast<double>(*deeper.peak_bytes),
                  0.02 * static_cast<double>(*deeper.peak_bytes))
          << name << layers;
    }
  }
}

// Arguments of the fused update that are no tensors are no parameters: as the models were built.
TEST(Plan, ParametersAreThoseOfTheModel) {
  EXPECT_EQ(step_at(kMixtral).model.parameter_elements, 3164688384);
  EXPECT_EQ(step_at(decoder("llama405b@1x4096")).model.parameter_elements, 7390412800);
}

TEST(Plan, NoGpuDoesMoreThanItsPeak) {
  for (const char* const name : kDecoders) {
    const bool experts = std::string_view(name).starts_with("mixtral") || std::string_view(name).starts_with("latent");
    for (const std::string plan : {"dp=1", "tp=2,dp=2", "pp=4,dp=2,microbatch=1,global-batch=32", "ep=8",
                                   "ep=2,pp=2,dp=4,microbatch=1,global-batch=32"}) {
      if (plan.starts_with("ep") && !experts) continue;
      plan::Planner planner = planner_of(step_at(decoder(name)), {.network = {.fabric = "DGX-H100"}, .layers = 16});
      const plan::PlanPrediction p = predicted_plan(planner, plan);
      ASSERT_TRUE(p.mfu) << name << plan;
      EXPECT_LE(*p.mfu, 1) << name << plan;
      EXPECT_GT(*p.mfu, 0.05) << name << plan;
    }
  }
}

TEST(Plan, WhatDoesNotGoWithTheModelIsDeclined) {
  plan::Planner planner = planner_of(kGpt2);
  const auto why = [&](const char* text) { return planner.predict(*plan::parse_plan(text)).declined; };
  EXPECT_THAT(why("pp=16,microbatches=2"), HasSubstr("12 blocks do not fill 16 stages"));
  EXPECT_THAT(why("tp=5"), HasSubstr("cannot be divided over 5"));
  EXPECT_THAT(why("microbatches=1000"), HasSubstr("less than one sample"));
  EXPECT_THAT(why("microbatch=1e-9"), HasSubstr("micro-batch of 1e-09 samples is less than one"));
  EXPECT_THAT(why("dp=3,global-batch=32"), HasSubstr("32 samples of the job cannot be divided over 3 replicas"));
  EXPECT_THAT(why("dp=64,global-batch=32"), HasSubstr("cannot be divided over 64 replicas"));
}

// A network without any cost.
plan::Groups free_groups() {
  hardware::Fabric free;
  free.name = "free";
  free.levels = {{.name = "free", .link = hardware::LinkKind::kNvlink, .gbs = 1e9}};
  return plan::Groups({std::make_shared<hardware::FabricCollectives>(free), 1 << 20, "free"});
}

plan::Composition composed(const std::string& text, const plan::Parts& parts, int layers) {
  const plan::Plan plan = *plan::parse_plan(text);
  plan::Groups groups = free_groups();
  auto made = plan::compose({plan, parts, layers, plan.microbatches.value_or(1)}, groups, false);
  EXPECT_TRUE(made) << text << ": " << made.error().to_string();
  return std::move(*made);
}

// Equal stages and free transfers: the step's waiting is the closed form of the schedule.
TEST(Plan, BubblesOfEqualStagesAreThoseOfTheClosedForm) {
  plan::Parts parts;
  parts.block = {.forward = 1000, .backward = 2000, .weight = 1000};
  parts.blocks = 8;
  const auto bubble = [&](const std::string& text) { return composed(text, parts, 8).bubble; };
  EXPECT_EQ(bubble("pp=4,microbatches=8"), 3 * 2 * 3000);
  EXPECT_EQ(bubble("pp=4,microbatches=8,schedule=gpipe"), 3 * 2 * 3000);
  EXPECT_EQ(bubble("pp=4,microbatches=8,schedule=interleaved"), 3 * 3000);
  EXPECT_EQ(bubble("pp=4,microbatches=8,schedule=zb1p"), 3 * 2 * 1000);
}

// A rank calls what it sends and what it receives, which counts where its CPU decides.
TEST(Plan, MessagesBetweenStagesTakeCpuTime) {
  plan::Parts parts;
  parts.block = {.forward = 100, .backward = 200, .forward_cpu = 1000, .backward_cpu = 1000};
  parts.blocks = 4;
  plan::Groups groups = free_groups();
  const auto step = [&](const std::string& text, Ns call) {
    const plan::Plan plan = *plan::parse_plan(text);
    plan::Job job{plan, parts, 4, 4};
    job.call = call;
    return plan::compose(job, groups, false)->step;
  };
  EXPECT_GE(step("pp=2,microbatches=4", 500), step("pp=2,microbatches=4", 0) + 4 * 2 * 500);  // one each way
  EXPECT_GE(step("pp=2,microbatches=4,schedule=interleaved", 500),
            step("pp=2,microbatches=4,schedule=interleaved", 0) + 4 * 6 * 500);
  EXPECT_EQ(step("microbatches=4", 500), step("microbatches=4", 0));
}

// Ranks inside one GPU share a host too, and stages wait for the slowest process.
TEST(Plan, StagesWaitForTheSlowestHost) {
  plan::Parts parts;
  parts.block = {.forward = 100, .backward = 200, .forward_cpu = 1000, .backward_cpu = 1000};
  parts.blocks = 4;
  plan::Groups groups = free_groups();
  const plan::Plan plan = *plan::parse_plan("pp=2,microbatches=4");
  plan::Job job{plan, parts, 4, 4};
  const auto typical = static_cast<double>(plan::compose(job, groups, false)->step);
  job.slowest_host = 1.25;
  EXPECT_NEAR(static_cast<double>(plan::compose(job, groups, false)->step), 1.25 * typical, 0.01 * typical);
}

TEST(Plan, StagesAreCutByLayersByTimeOrAsAsked) {
  plan::Parts parts;
  parts.first = {.forward = 300, .backward = 600};
  parts.block = {.forward = 1000, .backward = 2000};
  parts.last = {.forward = 3000, .backward = 6000};
  parts.blocks = 8;
  const auto blocks = [&](const std::string& text, int layers) {
    std::vector<int> out;
    for (const plan::PlanRank& r : composed(text, parts, layers).ranks) out.push_back(r.blocks);
    return out;
  };
  EXPECT_THAT(blocks("pp=4,microbatches=4", 32), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(blocks("pp=4,microbatches=4,stages=9|8|8|7", 32), ElementsAre(9, 8, 8, 7));
  // The head is worth three blocks: no other cut has a longest stage of 9 blocks' time.
  EXPECT_THAT(blocks("pp=4,microbatches=4,balance=time", 32), ElementsAre(8, 9, 9, 6));
  for (const int layers : {4, 7, 13, 30}) {
    const std::string with = "pp=4,microbatches=8";
    EXPECT_LE(composed(with + ",balance=time", parts, layers).step, composed(with, parts, layers).step) << layers;
  }
  const plan::Plan plan = *plan::parse_plan("pp=2,stages=5|4");
  plan::Groups groups = free_groups();
  const auto refused = plan::compose({plan, parts, 8, 2}, groups, false);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the stages have 9 blocks, the model has 8"));
}

// The head reads the embedding's weight: a last stage of its own has a copy, and both sum its gradient.
TEST(Plan, ATiedEmbeddingIsInTheFirstStageAndInTheLast) {
  plan::Planner planner = planner_of(kGpt2);
  plan::Planner slow = planner_of(kGpt2, {.network = {.fabric = "100GbE"}});
  const plan::PlanPrediction p = predicted_plan(planner, "pp=4,microbatches=4");
  constexpr double kTable = 50257.0 * 768;
  // Weight, gradient and two moments in FP32.
  EXPECT_NEAR(static_cast<double>(p.ranks[3].states_bytes - p.ranks[2].states_bytes), 16 * kTable, 0.05 * 16 * kTable);
  EXPECT_GT(p.ranks[0].states_bytes, p.ranks[1].states_bytes);
  EXPECT_GT(predicted_plan(slow, "pp=4,microbatches=4").exposed_gradients, p.exposed_gradients);
  EXPECT_GT(p.exposed_gradients, 0);
  plan::Planner llama = planner_of(step_at("data/h200-decoders/llama8b@1x4096.json.gz"));
  EXPECT_EQ(predicted_plan(llama, "pp=2,microbatches=1").exposed_gradients, 0);
}

TEST(Plan, TheSearchGivesPlansOfSoManyGpusBestFirst) {
  plan::Planner planner = planner_of(kGpt2);
  const plan::PlanReport r = plan::search_plans(planner, {.gpus = 4}).value();
  ASSERT_FALSE(r.plans.empty());
  EXPECT_EQ(r.tried, r.plans.size() + r.declined.size());
  for (std::size_t i = 0; i < r.plans.size(); ++i) {
    EXPECT_EQ(r.plans[i].workers, 4);
    EXPECT_NE(r.plans[i].fits, std::optional(false));
    if (i > 0) {
      EXPECT_LE(*r.plans[i].samples_per_s, *r.plans[i - 1].samples_per_s);
    }
  }
  for (const plan::PlanPrediction& p : r.declined) EXPECT_NE(p.declined, "");
}

}  // namespace
}  // namespace foretrace::test
