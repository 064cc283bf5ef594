// The same trace from any number of threads, and from files cut into pieces at any place.

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <random>

#include "compress.hpp"
#include "kineto_helpers.hpp"

namespace foretrace::test {
namespace {

using trace::Trace;

// Records of every kind, of very different lengths, with names that appear first in different pieces.
std::string mixed_trace(std::size_t events, unsigned seed) {
  std::mt19937 random(seed);
  std::string text = R"({"schemaVersion": 1, "baseTimeNanoseconds": 1790857026000000000, "traceEvents": [)";
  for (std::size_t i = 0; i < events; ++i) {
    if (i > 0) text += random() % 3 == 0 ? "," : ",\n  ";
    switch (random() % 8) {
      case 0:
        text += fmt::format(
            R"({{"ph": "X", "cat": "kernel", "name": "kernel_{}", "pid": {}, "tid": {}, "ts": {}.{:03}, "dur": {}.5, "args": {{"External id": {}, "device": 0, "stream": {}, "correlation": {}, "grid": [{}, 1, 1], "block": [128, 1, 1]}}}})",
            random() % 300, random() % 4, 7 + random() % 5, i, random() % 1000, random() % 90, i, 7 + random() % 5, i,
            random() % 50);
        break;
      case 1:
        text += fmt::format(
            R"({{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 2, "ts": {}, "args": {{"Total Reserved": 9, "Total Allocated": {}, "Bytes": -{}, "Device Id": 0, "Device Type": 1, "Addr": {}, "Ev Idx": {}}}}})",
            i, random(), random(), random(), i);
        break;
      case 2:
        text += fmt::format(R"({{"ph": "{}", "id": {}, "pid": 1, "tid": {}, "ts": {}, "cat": "ac2g", "name": "ac2g"}})",
                            random() % 2 == 0 ? 's' : 'f', i, random() % 9, i);
        break;
      case 3:  // long, with all that looks like structure inside strings
        text += op("long }, {\\\"ph\\\": " + std::to_string(random() % 40), std::to_string(i), "3",
                   "{\"Call stack\": \"" + std::string(random() % 20'000, '{') + "\"}");
        break;
      case 4:
        text +=
            fmt::format(R"({{"ph": "M", "name": "thread_name", "pid": 1, "tid": {}, "args": {{"name": "worker {}"}}}})",
                        random() % 9, random() % 9);
        break;
      case 5:
        text += random() % 10 == 0 ? "{}" : op("plain", std::to_string(i), "-1");
        break;
      default:
        text += op(fmt::format("op_{}", random() % 2000), std::to_string(i) + ".25", "1.125",
                   fmt::format(R"({{"Ev Idx": {}, "Sequence number": {}, "Input Dims": [[{}, 3], []]}})", i, i / 3,
                               random() % 100));
        break;
    }
  }
  return text + "\n], \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\"}], \"traceName\": \"x\"}";
}

TEST(KinetoThreads, SameResultForAnyNumber) {
  const std::string text = mixed_trace(6'000, 1);
  ASSERT_GT(text.size(), 20u * 256 * 1024) << "must span many pieces";
  const Trace one = must_load(text, with_threads(1));
  EXPECT_GT(one.size(), 5'000u);
  for (const unsigned threads : {2u, 3u, 5u, 16u}) expect_same(one, must_load(text, with_threads(threads)));
}

TEST(KinetoThreads, SameResultFromCompressedInput) {
  const std::string text = mixed_trace(3'000, 2);
  const Trace one = must_load(text, with_threads(1));
  for (const unsigned threads : {1u, 2u, 5u}) {
    expect_same(one, must_load(gzip(text), with_threads(threads)));
    expect_same(one, must_load(zstd(text), with_threads(threads)));
  }
}

TEST(KinetoThreads, SameResultWithBadRecords) {
  std::string text = mixed_trace(4'000, 3);
  // Damage a record every so often: the repair must not depend on who reads which piece.
  for (std::size_t at = 100'000; at < text.size() - 100'000; at += 333'333) {
    const std::size_t name = text.find("\"name\": \"op_", at);
    if (name != std::string::npos) text[name + 6] = ' ';
  }
  const Trace one = must_load(text, with_threads(1));
  EXPECT_GT(problem_count(one, "malformed_record"), 5u);
  EXPECT_LT(problem_count(one, "malformed_record"), 100u);
  for (const unsigned threads : {2u, 5u}) expect_same(one, must_load(text, with_threads(threads)));
}

TEST(KinetoThreads, SameResultForARealTrace) {
  std::ifstream file(FORETRACE_SOURCE_DIR "/examples/resnet50-h200.json.gz", std::ios::binary);
  const std::string packed{std::istreambuf_iterator<char>(file), {}};
  const Trace one = must_load(packed, with_threads(1));
  EXPECT_GT(one.size(), 30'000u);
  EXPECT_THAT(problem_names(one), testing::IsEmpty());
  for (const unsigned threads : {2u, 5u}) expect_same(one, must_load(packed, with_threads(threads)));
}

// A record of each length in turn moves all boundaries of pieces by one byte.
TEST(KinetoPieces, RecordsAcrossBordersOfPieces) {
  const std::string filler = op("filler", "1", "1", "{\"k\": \"" + std::string(900, '.') + "\"}");
  for (std::size_t shift = 0; shift < 64; ++shift) {
    std::string text = "{\"traceEvents\": [" + op(std::string(shift + 1, 'n'), "0", "1");
    std::size_t count = 1;
    while (text.size() < 600'000) {
      text += ",\n" + filler;
      ++count;
    }
    text += "]}";
    const Trace t = must_load(text, with_threads(2));
    ASSERT_EQ(t.size(), count) << shift;
    ASSERT_TRUE(t.diagnostics.problems().empty()) << shift;
  }
}

TEST(KinetoPieces, ARecordLargerThanManyPieces) {
  const std::string large(3 << 20, 'x');
  const Trace t = must_load(wrap(op("a", "1", "1") + "," + op("b", "2", "1", "{\"text\": \"" + large + "\"}") + "," +
                                 op(large, "3", "1") + "," + op("d", "4", "1")),
                            with_threads(2));
  ASSERT_EQ(t.size(), 4u);
  EXPECT_EQ(t.name(2).size(), large.size());
  EXPECT_EQ(t.name(3), "d");
  EXPECT_TRUE(t.diagnostics.problems().empty());
}

// Lists of objects inside arguments look like records; when a cut falls there, the import must notice and recover.
TEST(KinetoPieces, NestedListsOfObjectsThatLookLikeEvents) {
  std::string list;
  for (int i = 0; i < 20'000; ++i)
    list += fmt::format("{}{{\"name\": \"part {}\", \"ts\": {}}}", i == 0 ? "" : ", ", i, i);
  const std::string nested = op("holder", "2", "1", "{\"parts\": [" + list + "], \"Ev Idx\": 5}");
  ASSERT_GT(nested.size(), 600'000u);
  const std::string text = wrap(op("a", "1", "1") + ", " + nested + ", " + op("z", "3", "1"));
  const Trace one = must_load(text, with_threads(1));
  ASSERT_EQ(one.size(), 3u);
  EXPECT_EQ(one.name(1), "holder");
  EXPECT_EQ(one.op(1)->event_index, 5);
  EXPECT_EQ(one.name(2), "z");
  EXPECT_TRUE(one.diagnostics.problems().empty());
  expect_same(one, must_load(text, with_threads(2)));
}

TEST(KinetoPieces, LongMetadataBehindTheEvents) {
  std::string list;
  for (int i = 0; i < 30'000; ++i)
    list += fmt::format("{}{{\"name\": \"rank {}\", \"pid\": {}}}", i == 0 ? "" : ",\n", i, i);
  const std::string text =
      "{\"traceEvents\": [" + op("a", "1", "1") + "], \"hosts\": [" + list + "], \"traceName\": \"t\"}";
  for (const unsigned threads : {1u, 2u}) {
    const Trace t = must_load(text, with_threads(threads));
    ASSERT_EQ(t.size(), 1u);
    EXPECT_EQ(t.metadata_value("hosts").size(), list.size() + 2);
    EXPECT_EQ(t.metadata_value("traceName"), "\"t\"");
    EXPECT_TRUE(t.diagnostics.problems().empty());
  }
}

TEST(KinetoPieces, LongMetadataBeforeTheEvents) {
  const std::string log(2 << 20, 'w');
  const Trace t = must_load("{\"WARNING\": [\"" + log + "\"], \"traceEvents\": [" + op("a", "1", "1") + "]}");
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t.metadata_value("WARNING").size(), log.size() + 4);
}

}  // namespace
}  // namespace foretrace::test
