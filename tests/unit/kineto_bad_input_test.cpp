// Inputs that cannot be read, or only in part: the message says what, where and what to do, and nothing is half-done.

#include "compress.hpp"
#include "kineto_helpers.hpp"

namespace foretrace::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using trace::Trace;

std::string three_events() {
  return "{\"traceEvents\": [" + op("a", "1", "1") + ",\n" + op("b", "2", "1") + ",\n" + op("c", "3", "1") +
         "\n], \"traceName\": \"t\"}";
}

TEST(KinetoBadInput, Empty) {
  EXPECT_THAT(must_fail("").message, HasSubstr("empty"));
  EXPECT_THAT(must_fail(" \n\t").message, HasSubstr("white space"));
  EXPECT_FALSE(must_fail("").hint.empty());
  EXPECT_THAT(must_fail(gzip("")).message, HasSubstr("empty"));
}

TEST(KinetoBadInput, NotJson) {
  for (const char* text :
       {"hello", "<html></html>", "\177ELF", "SQLite format 3", "\xff\xfe\x00", "}", "]", "\"traceEvents\""}) {
    const Error e = must_fail(text);
    EXPECT_FALSE(e.hint.empty()) << text;
  }
}

TEST(KinetoBadInput, NoTraceEvents) {
  for (const char* text : {"{}", R"({"schemaVersion": 1})", R"({"schemaVersion": 1, "x": {"traceEvents": []}})"}) {
    EXPECT_THAT(must_fail(text).message, HasSubstr("traceEvents")) << text;
  }
}

TEST(KinetoBadInput, TraceEventsOfTheWrongType) {
  for (const char* value : {"5", "null", "\"[]\"", "{}", "true"}) {
    const Error e = must_fail(std::string("{\"traceEvents\": ") + value + "}");
    EXPECT_THAT(e.message, HasSubstr("not an array")) << value;
    EXPECT_EQ(e.offset, 16) << value;
  }
}

TEST(KinetoBadInput, BrokenHead) {
  for (const char* text : {R"({"a" 1, "traceEvents": []})", R"({a: 1, "traceEvents": []})"}) {
    EXPECT_GE(must_fail(text).offset, 0) << text;
  }
}

TEST(KinetoBadInput, CutAnywhereIsAnErrorAndReadableInPart) {
  const std::string text = three_events();
  const std::size_t first_record = text.find("{\"ph\"");
  for (std::size_t length = 1; length < text.size(); ++length) {
    const std::string cut = text.substr(0, length);
    const Error e = must_fail(cut);
    EXPECT_FALSE(e.message.empty());
    if (length <= first_record) continue;  // nothing to read in part yet
    EXPECT_GE(e.offset, 0) << length;
    EXPECT_LE(e.offset, static_cast<std::int64_t>(length)) << length;
    EXPECT_THAT(e.hint, HasSubstr("--partial")) << length;

    const Trace t = must_load(cut, partial());
    EXPECT_TRUE(t.partial) << length;
    std::size_t whole = 0;  // records that are complete before the cut
    for (std::size_t at = text.find("}}"); at != std::string::npos && at + 2 <= length; at = text.find("}}", at + 1))
      ++whole;
    EXPECT_EQ(t.size(), whole) << length;
    EXPECT_EQ(problem_count(t, "truncated_input"), 1u) << length;
    for (std::size_t i = 0; i < t.size(); ++i) EXPECT_EQ(t.name(i), std::string(1, static_cast<char>('a' + i)));
    EXPECT_THAT(problem_names(t), ElementsAre("truncated_input")) << length;
  }
}

TEST(KinetoBadInput, TruncatedGzip) {
  std::string text = "{\"traceEvents\": [";
  for (int i = 0; i < 5000; ++i)
    text += (i == 0 ? "" : ",\n") + op("name" + std::to_string(i), std::to_string(i * 7), std::to_string(i % 13));
  text += "]}";
  const std::string packed = gzip(text);
  const std::string cut = packed.substr(0, packed.size() / 2);
  const Error e = must_fail(cut);
  EXPECT_THAT(e.message, HasSubstr("gzip"));
  EXPECT_THAT(e.message, HasSubstr("truncated"));
  EXPECT_THAT(e.hint, HasSubstr("--partial"));

  const Trace t = must_load(cut, partial());
  EXPECT_TRUE(t.partial);
  EXPECT_GT(t.size(), 100u);
  EXPECT_LT(t.size(), 5000u);
  for (std::size_t i = 0; i < t.size(); ++i) {
    ASSERT_EQ(t.name(i), "name" + std::to_string(i));
    ASSERT_EQ(t.events.start[i], static_cast<Ns>(i) * 7000);
  }
  EXPECT_EQ(problem_count(t, "truncated_input"), 1u);
}

TEST(KinetoBadInput, DamagedGzip) {
  std::string packed = gzip(three_events());
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 0x55);  // the checksum
  EXPECT_THAT(must_fail(packed).message, HasSubstr("gzip"));
  EXPECT_THAT(must_fail("\x1f\x8bnot really").message, HasSubstr("gzip"));
  // Damage in the middle is not a cut, although bytes came out before it.
  std::string text = "{\"traceEvents\": [";
  for (int i = 0; i < 20'000; ++i)
    text += (i == 0 ? "" : ",\n") + op("n" + std::to_string(i * 7919 % 10007), std::to_string(i), "1");
  packed = gzip(text + "]}");
  for (std::size_t i = 0; i < 16; ++i) packed[packed.size() / 2 + i] = '\xff';
  EXPECT_THAT(must_fail(packed).message, HasSubstr("damaged"));
}

TEST(KinetoBadInput, TruncatedZstd) {
  const std::string packed = zstd(three_events());
  EXPECT_THAT(must_fail(packed.substr(0, packed.size() - 5)).message, HasSubstr("zstd"));
}

TEST(KinetoBadInput, InvalidUtf8IsReplacedAndCounted) {
  const Trace t = must_load(wrap(op("good", "1", "1") + "," + op("b\xff\xc3(", "2", "1") + "," + op("fine", "3", "1")));
  ASSERT_EQ(t.size(), 3u);
  EXPECT_EQ(t.name(1), "b\xEF\xBF\xBD\xEF\xBF\xBD(");
  EXPECT_EQ(t.name(2), "fine");
  EXPECT_EQ(problem_count(t, "invalid_utf8"), 1u);
}

TEST(KinetoBadInput, BrokenEscapesAreKeptAsWrittenAndCounted) {
  const Trace t = must_load(wrap(op(R"(C:\qwindows\u12)", "1", "1") + "," + op("fine", "3", "1")));
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t.name(0), R"(C:\qwindows\u12)");
  EXPECT_EQ(problem_count(t, "broken_escape"), 1u);
}

TEST(KinetoBadInput, ControlCharactersInStrings) {
  const Trace t = must_load(wrap(op("a\x01"
                                    "b",
                                    "1", "1") +
                                 "," + op("fine", "3", "1")));
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t.name(0),
            "a\x01"
            "b");
  EXPECT_EQ(problem_count(t, "control_character"), 1u);
}

TEST(KinetoBadInput, WrongTypesAreCountedNeverFatal) {
  const Trace t = must_load(wrap(op("a", "1", "1") + R"(, 5, null, "text", [1, 2], true,
      {"ph": "X", "cat": "cpu_op", "name": "args are a list", "pid": 1, "tid": 2, "ts": 2, "dur": 1, "args": [1]},
      {"ph": "X", "cat": "cpu_op", "name": "args are a number", "pid": 1, "tid": 2, "ts": 3, "dur": 1, "args": 5},
      {"ph": "X", "cat": 7, "name": 9, "pid": {}, "tid": [1], "ts": 4, "dur": 1},
      {"ph": 5, "name": "phase", "ts": 5},
      {"ph": "X", "cat": "cpu_op", "name": "no time", "pid": 1, "tid": 2},)" +
                                 op("z", "6", "1")));
  EXPECT_EQ(problem_count(t, "not_an_object"), 5u);
  EXPECT_EQ(problem_count(t, "args_not_an_object"), 2u);
  EXPECT_EQ(problem_count(t, "missing_timestamp"), 1u);
  ASSERT_EQ(t.size(), 6u);
  EXPECT_EQ(t.name(0), "a");
  EXPECT_EQ(t.name(1), "args are a list");
  EXPECT_EQ(t.name(3), "9");
  EXPECT_EQ(t.name(5), "z");
}

TEST(KinetoBadInput, AMalformedRecordCostsOnlyItself) {
  for (const char* bad : {R"({"ph": "X" "cat": "cpu_op", "name": "bad", "ts": 1})",
                          R"({"ph": "X", "name": "bad", "ts": 1, "args": {"a": [1, 2}})",
                          R"({"ph": "X", "name": , "ts": 1})", R"({"ph" "X"})"}) {
    const Trace t = must_load(wrap(op("a", "1", "1") + "," + bad + "," + op("b", "2", "1")));
    ASSERT_EQ(t.size(), 2u) << bad;
    EXPECT_EQ(t.name(0), "a") << bad;
    EXPECT_EQ(t.name(1), "b") << bad;
    EXPECT_EQ(problem_count(t, "malformed_record"), 1u) << bad;
    const Problem* p = t.diagnostics.find("malformed_record");
    EXPECT_THAT(p->example, HasSubstr("\"ph\"")) << bad;
    EXPECT_EQ(p->offset, static_cast<std::int64_t>(wrap(op("a", "1", "1") + ",").size() - 2)) << bad;
  }
}

// Also where it is the last one: a bad record before the closing bracket is not a cut.
TEST(KinetoBadInput, AMalformedLastRecordIsNotATruncation) {
  for (const char* bad : {R"({"ph": "X" "cat": "cpu_op", "name": "bad", "ts": 1})", R"({"ph" "X"})",
                          R"({"ph": "X", "ts": 1, "name": })"}) {
    const Trace t = must_load(wrap(op("a", "1", "1") + "," + bad));
    ASSERT_EQ(t.size(), 1u) << bad;
    EXPECT_THAT(problem_names(t), ElementsAre("malformed_record")) << bad;
    const Trace alone = must_load("{\"traceEvents\": [" + std::string(bad) + "], \"traceName\": \"t\"}");
    EXPECT_EQ(alone.size(), 0u) << bad;
    EXPECT_EQ(alone.metadata_value("traceName"), "\"t\"") << bad;
  }
}

TEST(KinetoBadInput, StrictMakesALossFatalAndNamesIt) {
  const std::string text = wrap(op("a", "1", "1") + ", 5");
  const Error e = must_fail(text, strict());
  EXPECT_THAT(e.message, HasSubstr("not an object"));
  EXPECT_GE(e.offset, 0);
  EXPECT_THAT(e.hint, HasSubstr("--strict"));
  EXPECT_EQ(must_load(wrap(op("a", "1", "-1")), strict()).size(), 1u) << "odd but nothing lost";
}

TEST(KinetoBadInput, DeepNestingEndsQuietly) {
  const std::string deep(200'000, '[');
  must_fail(deep);
  must_fail("{\"a\": " + deep);
  const Trace t =
      must_load(wrap(op("a", "1", "1") + ", {\"ph\": \"X\", \"ts\": 1, \"args\": {\"x\": " + std::string(5000, '[') +
                     std::string(5000, ']') + "}}," + op("b", "2", "1")));
  EXPECT_GE(t.size(), 2u);
  EXPECT_EQ(t.name(t.size() - 1), "b");
}

// Two traces in one file, or a tail of another: never dropped without a word.
TEST(KinetoBadInput, TextBehindTheEndIsNotIgnored) {
  for (const std::string& more : {std::string("garbage"), wrap(op("b", "2", "1"))}) {
    const auto result = trace::load_bytes(wrap(op("a", "1", "1")) + more, "test.json", with_threads(1));
    if (result) {
      EXPECT_EQ(result->size(), 1u);
      EXPECT_GT(result->diagnostics.lost_records(), 0u) << more;
    } else {
      EXPECT_GE(result.error().offset, 0) << more;
    }
  }
  EXPECT_THAT(problem_names(must_load(wrap(op("a", "1", "1")) + "\n \n")), testing::IsEmpty());
}

}  // namespace
}  // namespace foretrace::test
