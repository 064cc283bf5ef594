// P3's slices, sent by the thread that trains.

#include <gtest/gtest.h>

#include <algorithm>

#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"
#include "measured_step.hpp"
#include "whatif/parallel/p3_sends.hpp"

namespace foretrace::whatif {
namespace {

using Where = SentSlice::Where;

constexpr const char* kSolo = "data/h200-schemes/vgg16.inside.solo.w2.r0.json.gz";

std::vector<std::uint32_t> gradients_of(const std::vector<SentSlice>& sent) {
  std::vector<std::uint32_t> out;
  for (const SentSlice& s : sent) out.push_back(s.gradient);
  return out;
}

std::size_t count(const std::vector<SentSlice>& sent, Where where) {
  return static_cast<std::size_t>(
      std::count_if(sent.begin(), sent.end(), [&](const SentSlice& s) { return s.where == where; }));
}

TEST(P3Sends, WhileBackwardRunsNoMoreThanTwoSlicesAreUnderWay) {
  // A gradient of five slices is there at once; each takes 10 us to send and 100 to come back.
  const std::vector<Outgoing> one = {{.hook = 0, .ready = 0, .passes = 0, .exchange = 100, .slices = 5}};
  // Two go in the hook; behind it there is room for another when the first is back, at 110, and when the second is, at 210.
  const std::vector<SentSlice> sent = sends_of_training_thread(one, 0, 215, 10, true);
  EXPECT_EQ(count(sent, Where::kInHook), 2U);
  EXPECT_EQ(count(sent, Where::kBehindBackward), 2U);
  EXPECT_EQ(count(sent, Where::kBeforeLayer), 1U);
}

TEST(P3Sends, BehindASharedQueueAllButTwoWaitForTheNextForwardPass) {
  const std::vector<Outgoing> one = {{.hook = 0, .ready = 0, .passes = 1000, .exchange = 1, .slices = 5}};
  const std::vector<SentSlice> sent = sends_of_training_thread(one, 0, 1000, 10, true);
  EXPECT_EQ(count(sent, Where::kInHook), 2U);
  EXPECT_EQ(count(sent, Where::kBeforeLayer), 3U);
}

TEST(P3Sends, WhatForwardNeedsFirstGoesFirst) {
  // The last gradient of backward is the first layer's. Nothing is there in the hooks.
  const std::vector<Outgoing> two = {{.hook = 0, .ready = 50, .passes = 50, .exchange = 1, .layer = 7},
                                     {.hook = 1, .ready = 50, .passes = 50, .exchange = 1, .layer = 3}};
  EXPECT_EQ(gradients_of(sends_of_training_thread(two, 2, 100, 10, true)), (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(gradients_of(sends_of_training_thread(two, 2, 100, 10, false)), (std::vector<std::uint32_t>{0, 1}));
  // In front of layers they go in the order of the layers, whatever the order of backward.
  std::vector<Outgoing> late = two;
  late[0].layer = 1;
  EXPECT_EQ(gradients_of(sends_of_training_thread(late, 2, 2, 10, true)), (std::vector<std::uint32_t>{0, 1}));
}

Prediction predicted(bool training, double send_us) {
  ParallelChoice choice;
  choice.parallel = "p3";
  choice.slice_mb = 4;
  choice.send_us = send_us;
  choice.sends_on_training_thread = training;
  const auto collectives = std::make_shared<hardware::FabricCollectives>(*hardware::find_fabric("DGX-H100"));
  return predict(test::step_at(kSolo).model, {parallel_use(*make_parallelism(choice), collectives, 2, 8)},
                 std::nullopt);
}

TEST(P3, TheThreadThatTrainsIsHeldUpByItsSends) {
  const Prediction own = predicted(false, 300), training = predicted(true, 300), slow = predicted(true, 600);
  ASSERT_EQ(training.declined, "");
  // 553 MB in slices of 4 MiB, and the small tensors: 147 sends.
  std::size_t sends = 0;
  const graph::Graph& g = training.graph;
  for (std::size_t t = 0; t < g.size(); ++t) sends += g.task_name(t) == "P3: send a slice" ? 1U : 0U;
  EXPECT_NEAR(static_cast<double>(sends), 147, 20);
  EXPECT_GT(training.step, own.step + 10'000'000);
  // Streams that share a queue let hardly a slice through while the GPU computes: nearly all of them count.
  const double longer = static_cast<double>(slow.step - training.step) / (300e3 * static_cast<double>(sends));
  EXPECT_GT(longer, 0.8);
  EXPECT_LT(longer, 1.05);
}

// However small the slices asked for: each is a task, and the most urgent one is looked for among all.
TEST(P3, TinySlicesAreAnsweredByLargerOnes) {
  const Prediction p = analysis::predict(test::step_at(kSolo), {*parse_use("p3:slice_mb=0.000001")});
  ASSERT_EQ(p.declined, "");
  EXPECT_TRUE(std::any_of(p.not_modelled.begin(), p.not_modelled.end(),
                          [](const std::string& n) { return n.starts_with("slices below 0.1"); }));
  const Prediction usual = analysis::predict(test::step_at(kSolo), {*parse_use("p3")});
  EXPECT_GT(p.step, usual.step);
}

}  // namespace
}  // namespace foretrace::whatif
