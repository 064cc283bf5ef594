// What the injection library writes, from records made up here, as our own importer reads it.

#include <algorithm>

#include "foretrace/trace/trace.hpp"
#include "inject/capture.hpp"
#include "inject/operation_range.hpp"
#include "inject/trace_json.hpp"
#include "kineto_helpers.hpp"

namespace foretrace::inject {
namespace {

std::string written(const Activities& activities) {
  std::string out;
  Surroundings where;
  where.process = 10;
  EXPECT_TRUE(write_trace(activities, where, [&](std::string_view text) {
    out += text;
    return true;
  }));
  return out;
}

Record made(Kind kind, std::uint64_t start, std::uint64_t end, std::uint32_t correlation = 0) {
  Record r;
  r.kind = kind;
  r.start = start;
  r.end = end;
  r.correlation = correlation;
  r.thread = 5;
  if (kind == Kind::kKernel) {
    r.device = 0;
    r.context = 1;
    r.stream = 7;
    r.grid = r.block = {1, 1, 1};
  }
  return r;
}

std::size_t count(const trace::Trace& trace, trace::EventKind kind) {
  std::size_t n = 0;
  for (std::size_t e = 0; e < trace.size(); ++e) n += trace.kind(e) == kind ? 1 : 0;
  return n;
}

TEST(InjectTraceJson, NothingIsATraceOfNothing) {
  const trace::Trace trace = test::must_load(written({}), test::strict());
  EXPECT_EQ(count(trace, trace::EventKind::kKernel), 0u);
}

TEST(InjectTraceJson, NamesKeepTheirLettersAndLoseOtherBytes) {
  Activities all;
  all.records.push_back(made(Kind::kKernel, 100, 200, 1));
  all.records.push_back(made(Kind::kMark, 150, 150));
  all.records.back().name = all.names.number("\xc3\xa9\xe2\x82\xac\xff\xc0\xaf\xed\xa0\x80\xf0\x9f\x98\x80\xe2\x82");
  EXPECT_NE(written(all).find("\"name\": \"\xc3\xa9\xe2\x82\xac??????\xf0\x9f\x98\x80??\""), std::string::npos)
      << written(all);
}

/// A program of three steps that asks to be seen in the second: a call and a kernel in each, memory held since the first.
Activities captured(bool stops) {
  Activities all;
  const auto call = [&](std::string_view name, std::uint64_t at, std::uint32_t correlation) {
    all.records.push_back(made(Kind::kRuntime, at, at + 5, correlation));
    all.records.back().name = all.names.number(name);
  };
  for (std::uint32_t step = 0; step < 3; ++step) {
    if (step == 1) call("cudaProfilerStart_v4000", 1000, 9);
    if (step == 2 && stops) call("cudaProfilerStop_v4000", 2000, 19);
    call("cudaLaunchKernel_v7000", 1000 * step + 10, 10 * step + 1);
    all.records.push_back(made(Kind::kKernel, 1000 * step + 100, 1000 * step + 200, 10 * step + 1));
    all.records.push_back(made(Kind::kEvent, 0, 0, 10 * step + 2));
    all.records.push_back(made(Kind::kMemory, 1000 * step + 50, 1000 * step + 50));
    all.records.back().device = 0;
    all.records.back().bytes = 64;
  }
  keep_captured(all);
  return all;
}

std::size_t count(const Activities& all, Kind kind) {
  return static_cast<std::size_t>(
      std::count_if(all.records.begin(), all.records.end(), [&](const Record& r) { return r.kind == kind; }));
}

TEST(InjectCapture, OnlyThePartBetweenStartAndStopIsKept) {
  const Activities all = captured(true);
  EXPECT_EQ(count(all, Kind::kKernel), 1u);
  EXPECT_EQ(count(all, Kind::kRuntime), 1u);
  EXPECT_EQ(count(all, Kind::kEvent), 1u);
  std::int64_t held = 0;
  for (const Record& r : all.records) held += r.kind == Kind::kMemory ? r.bytes : 0;
  EXPECT_EQ(held, 128);  // what the first step left, and the second's own
}

TEST(InjectCapture, WithoutAStopItLastsToTheEnd) { EXPECT_EQ(count(captured(false), Kind::kKernel), 2u); }

TEST(InjectCapture, WithoutAStartEverythingIsKept) {
  Activities all;
  all.records.push_back(made(Kind::kKernel, 100, 200, 1));
  keep_captured(all);
  EXPECT_EQ(all.records.size(), 1u);
}

TEST(InjectTraceJson, WhatWasDroppedIsSaidByTheTrace) {
  Activities all;
  all.records.push_back(made(Kind::kKernel, 100, 200, 1));
  all.dropped_full = 7;
  const trace::Trace trace = test::must_load(written(all), test::strict());
  const Problem* full = trace.diagnostics.find("dropped_full");
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(full->count, 7u);
  EXPECT_EQ(trace.diagnostics.find("dropped_cupti"), nullptr);
}

TEST(InjectTraceJson, NamesOfAnyBytesStayReadable) {
  Activities all;
  Record r = made(Kind::kKernel, 100, 200, 1);
  r.name = all.names.number("a\"b\\c\n\x01\xff<int>");
  all.records.push_back(r);
  const trace::Trace trace = test::must_load(written(all), test::strict());
  ASSERT_EQ(count(trace, trace::EventKind::kKernel), 1u);
}

TEST(InjectTraceJson, TimesAreExactToTheNanosecond) {
  Activities all;
  all.records.push_back(made(Kind::kKernel, 1'700'000'000'123'456'789, 1'700'000'000'123'457'790, 1));
  all.records.push_back(made(Kind::kKernel, 1'700'000'000'123'456'000, 1'700'000'000'123'456'001, 2));
  const trace::Trace trace = test::must_load(written(all), test::strict());
  std::vector<std::int64_t> starts, lengths;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (trace.kind(e) != trace::EventKind::kKernel) continue;
    starts.push_back(static_cast<std::int64_t>(trace.events.start[e]));
    lengths.push_back(static_cast<std::int64_t>(trace.events.duration[e]));
  }
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[1] - starts[0], 789);
  EXPECT_EQ(lengths, (std::vector<std::int64_t>{1, 1001}));
}

TEST(InjectTraceJson, ARangeWithoutAnEndIsNone) {
  Activities all;
  Record begin = made(Kind::kRangeBegin, 100, 100);
  begin.id = 3;
  begin.name = all.names.number("open");
  all.records.push_back(begin);
  all.records.push_back(made(Kind::kKernel, 150, 160, 1));
  EXPECT_EQ(written(all).find("open"), std::string::npos);
}

TEST(InjectTraceJson, AWaitWithoutANumberMeansTheLastRecordBeforeIt) {
  Activities all;
  for (const std::uint32_t correlation : {2u, 8u, 20u}) {
    Record event = made(Kind::kEvent, 0, 0, correlation);
    event.id = 4;
    event.context = 1;
    event.stream = 7;
    all.records.push_back(event);
  }
  Record wait = made(Kind::kSync, 300, 310, 11);
  wait.sync = Sync::kStreamWaitEvent;
  wait.id = 4;
  wait.context = 1;
  wait.stream = 13;
  all.records.push_back(wait);
  EXPECT_NE(written(all).find("\"wait_on_cuda_event_record_corr_id\": 8}"), std::string::npos) << written(all);
}

TEST(InjectTraceJson, AFullDiskEndsTheWriting) {
  Activities all;
  for (int i = 0; i < 30'000; ++i) all.records.push_back(made(Kind::kKernel, 100, 200, 1));
  int calls = 0;
  EXPECT_FALSE(write_trace(all, {}, [&](std::string_view) { return ++calls < 2; }));
  EXPECT_EQ(calls, 2);
}

TEST(InjectOperationRange, SaysWhatEmitNvtxWrote) {
  const auto op =
      operation_range("aten::addmm, seq = 12, op_id = 7, sizes = [[10], [], [512, 10]], input_op_ids = [(5,0)]");
  ASSERT_TRUE(op);
  EXPECT_EQ(op->name, "aten::addmm");
  EXPECT_EQ(op->sequence, 12);
  EXPECT_EQ(op->sizes, "[[10], [], [512, 10]]");
  EXPECT_FALSE(operation_range("forward, layer 3"));
  EXPECT_FALSE(operation_range(""));
}

TEST(InjectOperationRange, SizesThatAreNoArrayAreLeftOut) {
  for (const char* text :
       {"a, sizes = [[1,,2]]", "a, sizes = [1, 2", "a, sizes = ]", "a, sizes = [1 2]", "a, sizes = [-]",
        "a, sizes = [\"x\"]", "a, sizes = ", "a, sizes = 5", "a, sizes = [[1][2]]", "a, sizes = [1,]"}) {
    const auto op = operation_range(text);
    ASSERT_TRUE(op) << text;
    EXPECT_EQ(op->sizes, "") << text;
  }
}

TEST(InjectNames, VersionsOfCallsAreNotPartOfTheirNames) {
  EXPECT_EQ(plain_api_name("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(plain_api_name("cuMemAlloc_v2"), "cuMemAlloc_v2");
  EXPECT_EQ(plain_api_name("cuLaunchKernel"), "cuLaunchKernel");
}

}  // namespace
}  // namespace foretrace::inject
