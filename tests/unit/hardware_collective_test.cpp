// What collectives cost: limits that must hold for any fabric, and measured tables.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "hardware/collective.hpp"
#include "hardware/protocols.hpp"

namespace foretrace::test {
namespace {

using hardware::Algorithm;
using hardware::Collective;
using hardware::Fabric;
using hardware::FabricCollectives;
using hardware::FabricLevel;
using hardware::LinkKind;
using hardware::Protocol;

Fabric two_levels(double inner_gbs, double outer_gbs, int per_node) {
  Fabric f;
  f.name = "test";
  f.gpus_per_node = per_node;
  f.levels.push_back({"in", LinkKind::kNvlink, inner_gbs, false, 1, 1, 0, false});
  f.levels.push_back({"out", LinkKind::kNetwork, outer_gbs, false, 1, 1, 0, false});
  return f;
}

Fabric network(double gbs) {
  Fabric f;
  f.name = "network";
  f.levels.push_back({"net", LinkKind::kNetwork, gbs, true, 1, 1, 0, false});
  return f;
}

TEST(Collectives, NamesAreReadAsFilesAndKernelsSpellThem) {
  EXPECT_EQ(hardware::parse_collective("all_reduce_perf"), Collective::kAllReduce);
  EXPECT_EQ(hardware::parse_collective("send/recv"), Collective::kSendRecv);
  EXPECT_EQ(hardware::parse_collective("my all_reduce"), std::nullopt);
  EXPECT_EQ(hardware::collective_in("nccldevkernelreducescatterringll"), Collective::kReduceScatter);
  EXPECT_EQ(hardware::collective_in("allgatherbase"), Collective::kAllGather);
  EXPECT_EQ(hardware::collective_in("ncclkernelbcast"), Collective::kBroadcast);
  EXPECT_EQ(hardware::collective_in("elementwise"), std::nullopt);
}

RC_GTEST_PROP(Collectives, ALargeAllReduceMovesTwiceItsBytesLessOnePart, ()) {
  const int n = *rc::gen::inRange(2, 2000);
  const double gbs = *rc::gen::inRange(1, 500);
  constexpr double kBytes = 1e18;  // latency of thousands of steps vanishes
  const double us =
      *FabricCollectives(network(gbs)).micros({Collective::kAllReduce, kBytes, n}, Algorithm::kRing, Protocol::kSimple);
  const double law = 2.0 * (n - 1) / n * kBytes / (gbs * 1e3);
  RC_ASSERT(std::abs(us / law - 1) < 1e-6);
}

RC_GTEST_PROP(Collectives, TwoLevelsWithOneNodeOrOneGpuPerNodeAreTheRing, ()) {
  const int n = *rc::gen::inRange(2, 64);
  const double bytes = *rc::gen::inRange(1, 1 << 30);
  const bool one_node = *rc::gen::arbitrary<bool>();
  const Fabric f = one_node ? two_levels(300, 25, n) : two_levels(300, 25, 1);
  const FabricCollectives model(f);
  for (const Protocol p : {Protocol::kLL, Protocol::kSimple}) {
    RC_ASSERT(model.micros({Collective::kAllReduce, bytes, n}, Algorithm::kTwoLevel, p) ==
              model.micros({Collective::kAllReduce, bytes, n}, Algorithm::kRing, p));
  }
}

RC_GTEST_PROP(Collectives, MoreBytesNeverTakeLess, ()) {
  const int n = *rc::gen::inRange(2, 300);
  const double bytes = *rc::gen::inRange(1, 1 << 28);
  const auto& all = hardware::fabrics();
  const FabricCollectives model(all[*rc::gen::inRange<std::size_t>(0, all.size())]);
  const auto kind = static_cast<Collective>(*rc::gen::inRange(0, static_cast<int>(hardware::kCollectives)));
  RC_ASSERT(model.cost({kind, bytes, n}).ns <= model.cost({kind, 2 * bytes, n}).ns);
}

// The network a node's GPUs share, and rings inside nodes that cost nothing.
Fabric free_inside(int per_node) {
  Fabric f = two_levels(1e9, 25, per_node);
  f.levels[0].latency_scale = 1e-9;
  return f;
}

TEST(Collectives, TwoLevelsAreTakenWhereTheLibraryHasThemAndTheyAreCheaper) {
  constexpr double kBytes = 1e12;
  Fabric f = free_inside(8);
  EXPECT_EQ(FabricCollectives(f).cost({Collective::kAllReduce, kBytes, 32}).how, "ring Simple");
  f.hierarchical = true;
  const auto chosen = FabricCollectives(f).cost({Collective::kAllReduce, kBytes, 32});
  EXPECT_EQ(chosen.how, "two-level Simple");
  // Each of eight ports carries 2(m-1)/m of an eighth, m nodes: less than what the ring through all 32 sends.
  EXPECT_NEAR(static_cast<double>(chosen.ns), 2.0 * (4 - 1) / 4 * kBytes / 8 / 25, 1e-3 * kBytes / 200);
  const auto ring =
      *FabricCollectives(f).micros({Collective::kAllReduce, kBytes, 32}, Algorithm::kRing, Protocol::kSimple);
  EXPECT_NEAR(ring * 1e3, 2.0 * 31 / 32 * kBytes / 8 / 25, 1e-3 * kBytes / 200);
  // One node, and one GPU in each: nothing to take apart, so the flat ring is what is said.
  EXPECT_EQ(FabricCollectives(f).cost({Collective::kAllReduce, kBytes, 8}).how, "ring Simple");
  // Both levels cost time one after the other: where neither is much slower, the flat ring is cheaper, and taken.
  f.levels[0].gbs = 100;
  EXPECT_EQ(FabricCollectives(f).cost({Collective::kAllReduce, kBytes, 512}).how, "ring Simple");
}

// Each of two nodes is the root of one of NCCL's two trees: half of the tensor goes up, the other half down. So two nodes reach a bus
// bandwidth above what their ports carry, as two nodes of p5 (487 of 400 GB/s) and of GH200 (158 of 100) do; more nodes do not.
TEST(Collectives, ATreeOverTwoNodesSendsEveryByteOnce) {
  constexpr double kBytes = 1e12;
  const FabricCollectives model(free_inside(8));
  const auto tree = [&](int ranks) {
    return *model.micros({Collective::kAllReduce, kBytes, ranks}, Algorithm::kTree, Protocol::kSimple);
  };
  EXPECT_NEAR(tree(32), 2 * tree(16), 1e-3 * tree(16));
  const auto chosen = model.cost({Collective::kAllReduce, kBytes, 16});
  EXPECT_EQ(chosen.how, "tree Simple");
  EXPECT_GT(hardware::bus_factor(Collective::kAllReduce, 16) * kBytes / static_cast<double>(chosen.ns), 8 * 25 * 1.5);
}

TEST(Collectives, SwitchesThatAddUpHalveWhatLeavesANode) {
  constexpr double kBytes = 1e12;
  Fabric f = free_inside(8);
  f.levels[1].sharp = true;
  for (const int ranks : {64, 1024}) {
    const auto chosen = FabricCollectives(f).cost({Collective::kAllReduce, kBytes, ranks});
    EXPECT_EQ(chosen.how, "CollNet Simple");
    EXPECT_NEAR(static_cast<double>(chosen.ns), kBytes / 8 / 25, 1e-3 * kBytes / 200);
  }
  EXPECT_EQ(FabricCollectives(f).cost({Collective::kAllGather, kBytes, 64}).how, "ring Simple");
}

TEST(Collectives, ManyNodesTakeTheTreeOfNvlsForMiddleSizes) {
  const FabricCollectives model(*hardware::find_fabric("DGX-H100"));
  const auto how = [&](double bytes) { return model.cost({Collective::kAllReduce, bytes, 2048}).how; };
  EXPECT_EQ(how(1024).substr(0, 4), "tree");  // 255 steps around a ring of nodes cost more than the tree's eight
  EXPECT_EQ(how(1e8), "NVLS tree Simple");
  EXPECT_EQ(how(1e11), "ring Simple");
}

RC_GTEST_PROP(Collectives, TheChosenAlgorithmIsTheCheapestThatApplies, ()) {
  Fabric f = two_levels(*rc::gen::inRange(1, 500), *rc::gen::inRange(1, 100), *rc::gen::inRange(1, 9));
  if (f.gpus_per_node == 1) f.levels.erase(f.levels.begin());
  f.levels[0].nvls = f.levels[0].link == LinkKind::kNvlink && *rc::gen::arbitrary<bool>();
  f.levels.back().sharp = *rc::gen::arbitrary<bool>();
  f.hierarchical = *rc::gen::arbitrary<bool>();
  const hardware::CollectiveCall call{Collective::kAllReduce, static_cast<double>(*rc::gen::inRange(1, 1 << 30)),
                                      *rc::gen::inRange(2, 300)};
  const FabricCollectives model(f);
  double least = 1e300;
  for (std::size_t a = 0; a < hardware::kAlgorithms; ++a) {
    if (static_cast<Algorithm>(a) == Algorithm::kTwoLevel && !f.hierarchical) continue;
    for (const Protocol p : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple}) {
      if (const auto us = model.micros(call, static_cast<Algorithm>(a), p)) least = std::min(least, *us);
    }
  }
  RC_ASSERT(std::abs(static_cast<double>(model.cost(call).ns) - least * 1e3) <= 1);
}

TEST(Collectives, StepsOfTheRing) {
  const FabricCollectives model(network(10));
  EXPECT_EQ(model.cost({Collective::kAllReduce, 1e9, 8}).steps, 14);
  EXPECT_EQ(model.cost({Collective::kAllGather, 1e9, 8}).steps, 7);
  EXPECT_EQ(model.cost({Collective::kAllToAll, 1e9, 8}).steps, 1);
}

TEST(Collectives, OneRankCostsNothing) {
  EXPECT_EQ(FabricCollectives(network(10)).cost({Collective::kAllReduce, 1e9, 1}).ns, 0);
}

TEST(Collectives, SmallMessagesTakeLowLatencyLargeOnesFullBandwidth) {
  const FabricCollectives model(*hardware::find_fabric("DGX-H100"));
  EXPECT_EQ(model.cost({Collective::kAllReduce, 1024, 8}).how, "ring LL");
  EXPECT_EQ(model.cost({Collective::kAllReduce, 1e10, 8}).how, "NVLS Simple");
  EXPECT_EQ(model.cost({Collective::kAllGather, 1e10, 8}).how, "ring Simple");
}

TEST(Collectives, CalibrationMeetsItsTwoMeasurements) {
  hardware::CollectiveRow small{"", Collective::kAllReduce, 8, 8, 1024, 0.012};
  hardware::CollectiveRow large{"", Collective::kAllReduce, 8, 8, 1e9, 5.0};
  Fabric f = two_levels(300, 25, 8);
  f.levels.pop_back();
  const FabricCollectives model(hardware::calibrate(f, 0, small, large));
  EXPECT_NEAR(static_cast<double>(model.cost({Collective::kAllReduce, 1024, 8}).ns), 12e3, 100);
  EXPECT_NEAR(static_cast<double>(model.cost({Collective::kAllReduce, 1e9, 8}).ns), 5e6, 5e4);
}

constexpr std::string_view kLines =
    R"({"tag": "a", "world": 2, "coll": "all_reduce", "mb": 1, "ms": 1.0}
{"tag": "a", "world": 2, "coll": "all_reduce", "mb": 3, "ms": 2.0}
{"tag": "a", "world": 2, "coll": "all_gather", "mb": 1, "ms": 0.5}
{"tag": "b", "world": 2, "coll": "all_reduce", "mb": 1, "ms": 9.0}
)";

hardware::MeasuredCollectives measured(std::string_view text, const std::optional<std::string>& tag) {
  auto rows = hardware::read_collectives(text, "file", tag);
  EXPECT_TRUE(rows) << rows.error().to_string();
  return *hardware::MeasuredCollectives::make(std::move(*rows), "m");
}

TEST(MeasuredCollectives, SizesBetweenAreInterpolatedAndBeyondExtrapolated) {
  const auto m = measured(kLines, "a");
  constexpr double kMiB = 1 << 20;
  EXPECT_EQ(m.cost({Collective::kAllReduce, 2 * kMiB, 2}).ns, 1'500'000);
  EXPECT_EQ(m.cost({Collective::kAllReduce, 5 * kMiB, 2}).ns, 3'000'000);
  EXPECT_EQ(m.cost({Collective::kAllReduce, 1, 2}).ns, 1'000'000);
  EXPECT_TRUE(m.cost({Collective::kAllReduce, kMiB, 2}).measured);
  EXPECT_FALSE(m.cost({Collective::kAllReduce, kMiB, 4}).measured);
  // The line's size is each rank's input, ours the whole.
  EXPECT_EQ(m.cost({Collective::kAllGather, 2 * kMiB, 2}).ns, 500'000);
}

TEST(MeasuredCollectives, SeveralTagsNeedAChoice) {
  EXPECT_EQ(hardware::read_collectives(kLines, "file", std::nullopt).error().code, ErrorCode::kUsage);
  EXPECT_EQ(hardware::read_collectives(kLines, "file", "c").error().code, ErrorCode::kUsage);
}

TEST(MeasuredCollectives, WhatNcclTestsPrints) {
  constexpr std::string_view kLog =
      R"(# nThread 1 nGpus 4 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  26102 on      node1 device  0 [0x0f] NVIDIA A100
#  Rank  1 Group  0 Pid  26102 on      node1 device  1 [0x15] NVIDIA A100
#  Rank  2 Group  0 Pid  26102 on      node1 device  2 [0x50] NVIDIA A100
#  Rank  3 Group  0 Pid  26102 on      node1 device  3 [0x53] NVIDIA A100
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    30.00   34.95   52.43      0    30.10   34.84   52.25      0
    16777216       4194304     float     sum      -1   150.00  111.85  167.77      0   151.00  111.11  166.66      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 47.5
)";
  const auto m = measured(kLog, std::nullopt);
  EXPECT_EQ(m.cost({Collective::kAllReduce, 1048576, 4}).ns, 30'000);
  EXPECT_TRUE(m.cost({Collective::kAllReduce, 16777216, 4}).measured);
}

TEST(MeasuredCollectives, CsvByItsHeader) {
  const auto m = measured("op,ranks,size,ms\nallreduce,8,1000,0.5\nallreduce,8,2000,1\n", std::nullopt);
  EXPECT_EQ(m.cost({Collective::kAllReduce, 1500, 8}).ns, 750'000);
}

TEST(MeasuredCollectives, DamagedFilesSayWhere) {
  for (const std::string_view text :
       {"", "{\"world\": 2}", "{\"world\": -2, \"coll\": \"all_reduce\", \"mb\": 1, \"ms\": 1}",
        "{\"world\": 2, \"coll\": \"all_reduce\", \"mb\": 1, \"ms\": -1}", "{\"world\": 2,",
        "op,ranks,size,ms\nallreduce,x,1,1\n", "op,ms\nallreduce,1\n", "nothing of this kind"}) {
    const auto rows = hardware::read_collectives(text, "file", std::nullopt);
    ASSERT_FALSE(rows) << text;
    EXPECT_EQ(rows.error().code, ErrorCode::kUnreadable) << text;
    EXPECT_EQ(rows.error().file, "file");
  }
}

TEST(Protocols, StepsAreThoseOfNcclAndLowLatencyCostsBandwidth) {
  const hardware::Protocols& p = hardware::protocols();
  for (std::size_t link = 0; link < hardware::kLinkKinds; ++link) {
    for (std::size_t i = 1; i < hardware::kProtocols; ++i) {
      EXPECT_GT(p.ring[link][i], p.ring[link][i - 1]) << link;  // LL is made for few bytes, Simple for many
    }
    EXPECT_GT(p.typical_scale[link], 0);
  }
  EXPECT_LT(p.payload[0], 0.5);  // a flag with every 4 bytes
  EXPECT_LT(p.payload[0], p.payload[1]);
  EXPECT_LT(p.payload[1], 120.0 / 128);  // 8 of 128 bytes
  EXPECT_EQ(p.payload[2], 1);
  EXPECT_LT(p.node_base[0], p.node_base[2]);
}

TEST(Protocols, AMeasuredCurveIsSurerThanADerivedOneOrAFile) {
  const auto m = measured(kLines, "a");
  const double between = m.cost({Collective::kAllReduce, 2 << 20, 2}).sigma;
  const double derived = m.cost({Collective::kAllReduce, 2 << 20, 4}).sigma;
  const double file = FabricCollectives(*hardware::find_fabric("NVLink4")).cost({Collective::kAllReduce, 1e8, 8}).sigma;
  EXPECT_GT(between, 0);
  EXPECT_LT(between, derived);
  EXPECT_LT(between, file);
}

TEST(Fabrics, EveryBuiltInFileCanBeReadAndFound) {
  EXPECT_GE(hardware::fabrics().size(), 17U);
  for (const char* name : {"10GbE", "25gbe", "100GbE", "200GbE", "400GbE", "HDR", "NDR", "PCIe3", "pcie 4", "PCIe5",
                           "NVLink2", "NVLink3", "NVLink4", "NVLink5", "DGX-A100", "dgx_h100", "NVIDIA DGX-B200"}) {
    EXPECT_TRUE(hardware::find_fabric(name)) << name;
  }
  const auto unknown = hardware::find_fabric("DGX-H10");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().hint.find("DGX-H100"), std::string::npos);
}

TEST(Fabrics, BadFilesAreRefusedWithAReason) {
  const std::string good = "source = \"x\"\n[[level]]\nlink = \"network\"\ngbs = 10\n";
  EXPECT_TRUE(hardware::parse_fabric(good, "good", "good.toml"));
  for (const std::string& text :
       {std::string("source = \"x\"\n[[level]]\nlink = \"network\"\ngbs = -10\n"), std::string("gbs = 10\n"),
        std::string("source = \"x\"\n"), std::string("source = \"x\"\n[[level]]\nlink = \"rope\"\ngbs = 1\n"),
        std::string("source = \"x\"\n[[level]]\nlink = \"network\"\n"), good + "effciency = 0.5\n",
        good + "efficiency = 1.5\n", good + "efficiency = \"0.8\"\n", good + "sharp = 1\n", good + "nvls = true\n",
        "hierarchical = 1\n" + good, good + "latency_scale = -1\n", std::string("source = ["),
        "gpus_per_node = 0.5\n" + good, std::string("[[level]]\nlink = \"network\"\ngbs = nan\n")}) {
    const auto fabric = hardware::parse_fabric(text, "bad", "bad.toml");
    ASSERT_FALSE(fabric) << text;
    EXPECT_EQ(fabric.error().code, ErrorCode::kUnreadable) << text;
    EXPECT_EQ(fabric.error().file, "bad.toml");
  }
}

TEST(Fabrics, MoreGpusInANodeShareAnEthernetPort) {
  const Fabric one = *hardware::find_fabric("100GbE");
  const FabricLevel inner{"PCIe", LinkKind::kPcie, 25, false, 1, 1, 0, false};
  const Fabric four = *hardware::with_gpus_per_node(one, 4, inner);
  EXPECT_EQ(four.levels.size(), 2U);
  const double alone = static_cast<double>(FabricCollectives(one).cost({Collective::kAllReduce, 1e9, 16}).ns);
  const double shared = static_cast<double>(FabricCollectives(four).cost({Collective::kAllReduce, 1e9, 16}).ns);
  EXPECT_NEAR(shared / alone, 1, 0.05);  // one port carries what it carried before
  EXPECT_FALSE(hardware::with_gpus_per_node(*hardware::find_fabric("NVLink4"), 4, inner));
}

}  // namespace
}  // namespace foretrace::test
