// Kernels of one library call on several streams, in a profile without event records: fork and join by the call that launched them.

#include <gtest/gtest.h>

#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::BuildOptions;
using graph::DependencyKind;

// Sharing the GPU would explain the same times: left out, so that the tests see the waits alone.
BuildOptions waits_only() {
  BuildOptions options;
  options.without = {DependencyKind::kShare};
  return options;
}

// One call converts its operand on stream 7, transforms on 20 and 21 while 7 transforms the filter, multiplies on 20 and 21, and the
// next call goes on on 7.
TraceMaker one_convolution() {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.op("fusion.1", 9'000, 13'000).launch(1, {10'000, 12'000}, "before", {14'000, 20'000}, 7);
  m.op("cudnn-conv.1", 15'000, 40'000);
  m.launch(2, {16'000, 18'000}, "operand", {22'000, 52'000}, 7);
  m.launch(3, {19'000, 21'000}, "filter", {54'000, 84'000}, 7);
  m.launch(4, {22'000, 24'000}, "left", {53'000, 73'000}, 20);
  m.launch(5, {25'000, 27'000}, "left product", {86'000, 126'000}, 20);
  m.launch(6, {28'000, 30'000}, "right", {53'500, 80'000}, 21);
  m.launch(7, {31'000, 33'000}, "right product", {87'000, 150'000}, 21);
  m.op("fusion.2", 41'000, 46'000).launch(8, {42'000, 44'000}, "behind", {152'000, 180'000}, 7);
  m.op("fusion.3", 47'000, 52'000).launch(9, {48'000, 50'000}, "last", {182'000, 190'000}, 7);
  m.call("cudaDeviceSynchronize", {55'000, 400'000}, 10);
  return m;
}

TEST(GraphLibraryStream, OtherStreamsOfACallWaitForItsOwnPreparation) {
  const Replay r(one_convolution(), 0, waits_only());
  expect_as_measured(r);
  const Replay longer = r.with("operand", 50'000);
  EXPECT_EQ(longer.start("left"), 73'000);
  EXPECT_EQ(longer.start("right"), 73'500);
  // What started before the filter was ready did not wait for it; what multiplies by it did.
  const Replay filter = r.with("filter", 60'000);
  EXPECT_EQ(filter.start("left"), 53'000);
  EXPECT_EQ(filter.start("left product"), 116'000);
  EXPECT_EQ(filter.start("right product"), 117'000);
}

TEST(GraphLibraryStream, TheNextCallWaitsForAllOfThem) {
  const Replay r(one_convolution(), 0, waits_only());
  EXPECT_EQ(r.with("right product", 100'000).start("behind"), 189'000);
  EXPECT_EQ(r.with("left product", 100'000).start("behind"), 188'000);
  // Once: what comes later only waits with it. Two forks from the operand, two from the filter, two joins.
  EXPECT_EQ(r.dependencies(DependencyKind::kStreamWait), 6U);
}

TEST(GraphLibraryStream, FasterKernelsPullTheRestForward) {
  const Replay r(one_convolution(), 0, waits_only());
  const Replay faster = r.with("right product", 3'000).with("left product", 4'000);
  EXPECT_LT(faster.start("behind"), 100'000);
  const Replay frozen = Replay::without(one_convolution(), DependencyKind::kStreamWait);
  EXPECT_EQ(frozen.dependencies(DependencyKind::kStreamWait), 0U);
}

TEST(GraphLibraryStream, AnotherCallOnAnotherStreamIsNone) {
  TraceMaker m;
  m.step(1, 0, 300'000);
  m.op("fusion.1", 9'000, 13'000).launch(1, {10'000, 12'000}, "before", {14'000, 120'000}, 7);
  m.op("fusion.2", 15'000, 20'000).launch(2, {16'000, 18'000}, "next", {121'000, 150'000}, 7);
  m.op("copy.1", 22'000, 30'000).launch(3, {24'000, 26'000}, "alone", {152'000, 160'000}, 20);
  const Replay r(m, 0, waits_only());
  EXPECT_EQ(r.dependencies(DependencyKind::kStreamWait), 0U);
}

TEST(GraphLibraryStream, RecordedEventsSayMore) {
  TraceMaker m = one_convolution();
  m.record(60'000, 11);
  EXPECT_EQ(Replay(m, 0, waits_only()).dependencies(DependencyKind::kStreamWait), 0U);
}

}  // namespace
}  // namespace foretrace::test
