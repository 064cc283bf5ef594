// Times are exact to the nanosecond, whatever the base, the number of digits and the way they are written.

#include "kineto_helpers.hpp"

namespace foretrace::test {
namespace {

Ns start_of(std::string_view ts) {
  const trace::Trace t = must_load(wrap(op("a", ts, "1")));
  return t.size() == 1 ? t.events.start[0] : -1;
}

Ns duration_of(std::string_view dur) {
  const trace::Trace t = must_load(wrap(op("a", "5", dur)));
  return t.size() == 1 ? t.events.duration[0] : -1;
}

TEST(KinetoTime, MicrosecondsWithThreeDecimals) {
  EXPECT_EQ(start_of("0.001"), 1);
  EXPECT_EQ(start_of("117.690"), 117'690);
  EXPECT_EQ(start_of("4458676983543.183"), 4'458'676'983'543'183);
  EXPECT_EQ(start_of("3872986455073.847"), 3'872'986'455'073'847);
}

TEST(KinetoTime, NineteenDigitsOfAnAbsoluteTimeAreExact) {
  // A double of this size has steps of 256 ns.
  EXPECT_EQ(start_of("1712195495505772.801"), 1'712'195'495'505'772'801);
  EXPECT_EQ(start_of("1712195495505772.802"), 1'712'195'495'505'772'802);
  EXPECT_EQ(start_of("9223372036854775.807"), INT64_MAX);
}

TEST(KinetoTime, OtherNumbersOfDecimals) {
  EXPECT_EQ(start_of("1621401187223005"), 1'621'401'187'223'005'000);
  EXPECT_EQ(start_of("1712195495505772.8"), 1'712'195'495'505'772'800);
  EXPECT_EQ(start_of("12.34"), 12'340);
  EXPECT_EQ(start_of("12.3456789"), 12'345);
  EXPECT_EQ(start_of("0"), 0);
  EXPECT_EQ(start_of("0.0"), 0);
}

TEST(KinetoTime, Exponents) {
  EXPECT_EQ(start_of("1.7e15"), 1'700'000'000'000'000'000);
  EXPECT_EQ(start_of("1.5E+3"), 1'500'000);
  EXPECT_EQ(start_of("25e-3"), 25);
}

TEST(KinetoTime, NegativeTimesAreKept) {
  EXPECT_EQ(start_of("-1"), -1'000);
  EXPECT_EQ(start_of("-0.5"), -500);
  EXPECT_EQ(start_of("-12.345"), -12'345);
}

TEST(KinetoTime, TimesAsStrings) {
  EXPECT_EQ(start_of("\"12.345\""), 12'345);
  EXPECT_EQ(duration_of("\"7.001\""), 7'001);
}

TEST(KinetoTime, BaseTimeIsKeptApartFromStarts) {
  const std::string before =
      "{\"baseTimeNanoseconds\": 1790857026000000000, \"traceEvents\": [" + op("a", "1.5", "2") + "]}";
  const std::string after =
      "{\"traceEvents\": [" + op("a", "1.5", "2") + "], \"baseTimeNanoseconds\": 1790857026000000000}";
  for (const std::string& text : {before, after}) {
    const trace::Trace t = must_load(text);
    ASSERT_EQ(t.size(), 1u);
    EXPECT_EQ(t.base_time_ns, 1'790'857'026'000'000'000);
    EXPECT_EQ(t.events.start[0], 1'500);
  }
  EXPECT_EQ(must_load(wrap(op("a", "1", "1"))).base_time_ns, 0);
}

TEST(KinetoTime, Durations) {
  EXPECT_EQ(duration_of("117.690"), 117'690);
  EXPECT_EQ(duration_of("0"), 0);
  EXPECT_EQ(duration_of("3"), 3'000);
}

TEST(KinetoTime, NegativeDurationCountsAsZeroAndIsCounted) {
  for (const char* dur : {"-1", "-1.5", "-0.001", "-12.345"}) {
    const trace::Trace t = must_load(wrap(op("a", "5", dur) + "," + op("b", "6", "1")));
    ASSERT_EQ(t.size(), 2u) << dur;
    EXPECT_EQ(t.events.duration[0], 0) << dur;
    EXPECT_EQ(t.events.duration[1], 1'000) << dur;
    EXPECT_THAT(problem_names(t), testing::ElementsAre("negative_duration")) << dur;
    EXPECT_EQ(t.diagnostics.lost_records(), 0u);
  }
}

TEST(KinetoTime, DurationThatIsNoNumberCountsAsZeroAndIsALoss) {
  for (const char* dur : {"NaN", "nan", "null", "\"soon\"", "-Infinity", "1e300", "[1]", "{}"}) {
    const trace::Trace t = must_load(wrap(op("a", "5", dur)));
    ASSERT_EQ(t.size(), 1u) << dur;
    EXPECT_EQ(t.events.duration[0], 0) << dur;
    EXPECT_EQ(problem_count(t, "unreadable_duration"), 1u) << dur;
    EXPECT_GT(t.diagnostics.lost_records(), 0u) << dur;
  }
}

TEST(KinetoTime, StartThatIsNoNumberLosesTheEvent) {
  for (const char* ts : {"NaN", "null", "\"soon\"", "9223372036854775.808", "1e300", "-1e300", "1..2", "1.2.3"}) {
    const trace::Trace t = must_load(wrap(op("a", ts, "1") + "," + op("b", "6", "1")));
    ASSERT_EQ(t.size(), 1u) << ts;
    EXPECT_EQ(t.name(0), "b");
    EXPECT_EQ(problem_count(t, "unreadable_timestamp"), 1u) << ts;
    must_fail(wrap(op("a", ts, "1")), strict());
  }
}

TEST(KinetoTime, EndNeverOverflows) {
  const trace::Trace t = must_load(wrap(op("a", "9223372036854775.000", "9223372036854775.000")));
  ASSERT_EQ(t.size(), 1u);
  EXPECT_GE(t.end(0), t.events.start[0]);
  EXPECT_EQ(problem_count(t, "unreadable_duration"), 1u);
}

}  // namespace
}  // namespace foretrace::test
