// A record means the same whatever stands before it. The importer remembers what it saw (lanes, categories, the shape of
// arguments) to be fast; these tests give it neighbours that differ in as little as possible and compare each event with
// the same event read alone.

#include <fmt/format.h>

#include <cstring>
#include <random>
#include <vector>

#include "kineto_helpers.hpp"

namespace foretrace::test {
namespace {

using trace::Trace;

class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}

  std::string event() {
    const std::vector<std::string> cats = {"kernel",    "cpu_op",          "cuda_runtime",    "gpu_memcpy",
                                           "cuda_sync", "python_function", "user_annotation", ""};
    std::string s = "{";
    add(s, "ph", quoted(pick({"X", "X", "X", "X", "i", "s", "f", "C"})));
    const std::string& cat = cats[random_() % cats.size()];
    if (!cat.empty()) add(s, "cat", quoted(cat));
    add(s, "name", quoted(pick({"a", "ab", "abc", "a\\\"b", "[memory]", "ac2g", "ProfilerStep#1", "ProfilerStep#16"})));
    add(s, "pid", pick({"0", "1", "16", "161", "\"Spans\"", "\"\""}));
    add(s, "tid", pick({"7", "16", "161", "\"stream 7\"", "-1"}));
    if (random_() % 9 == 0) add(s, "id", pick({"1", "16", "161", "\"0x16\""}));
    add(s, "ts", pick({"1", "1.5", "16.001", "161.001", "1712195495505772.801", "1e3"}));
    if (random_() % 8 != 0) add(s, "dur", pick({"1", "1.6", "1.61", "1.612", "16.125", "0"}));
    if (random_() % 10 != 0) add(s, "args", arguments());
    if (random_() % 12 == 0) add(s, pick({"bp", "s", "tts"}), pick({"\"e\"", "\"t\"", "5"}));
    return s + "}";
  }

 private:
  std::string arguments() {
    // Mostly one of a few shapes, with small accidents.
    static const std::vector<std::vector<const char*>> kShapes = {
        {"External id", "device", "context", "stream", "correlation", "grid", "block"},
        {"External id", "cbid", "correlation"},
        {"External id", "Record function id", "Sequence number", "Ev Idx", "Input Dims"},
        {"Total Reserved", "Total Allocated", "Bytes", "Device Id", "Addr", "Ev Idx"},
        {"device", "stream", "correlation", "bytes", "memory bandwidth (GB/s)"},
        {"Python parent id", "Python id", "Ev Idx"},
        {"cuda_sync_kind", "stream", "correlation", "wait_on_stream", "wait_on_cuda_event_record_corr_id",
         "wait_on_cuda_event_id"},
    };
    std::string s = "{";
    for (const char* key : kShapes[random_() % kShapes.size()]) {
      if (random_() % 40 == 0) continue;
      add(s, key, value(key));
      if (random_() % 60 == 0) add(s, pick({"extra", "stream", "Ev Idx", "correlation"}), value("extra"));
    }
    return s + "}";
  }
  std::string value(std::string_view key) {
    if (random_() % 50 == 0)
      return pick({"null", "\"x\"", "\"16\"", "[1, {\"a\": 16}]", "{}", "1.5", "-16", "true", "\"a\\\\\""});
    if (key == "grid" || key == "block") return pick({"[1, 1, 1]", "[16, 1, 1]", "[161, 1, 1]", "[1,1,1]"});
    if (key == "Input Dims") return pick({"[[1, 6], []]", "[[1, 61], []]", "[[16]]", "[]"});
    if (key == "cuda_sync_kind") return pick({"\"Stream Sync\"", "\"Stream Wait Event\""});
    if (key == "memory bandwidth (GB/s)") return pick({"1.6", "1.61", "16"});
    return pick({"1", "16", "161", "1610", "0", "-1", "139796605274624"});
  }

  void add(std::string& s, std::string_view key, std::string_view value) {
    const bool first = s.size() == 1;
    const char* blank = random_() % 30 == 0 ? "\n      " : " ";
    s += fmt::format("{}\"{}\":{}{}",
                     first                 ? ""
                     : random_() % 30 == 0 ? ","
                                           : ", ",
                     key, random_() % 30 == 0 ? "" : blank, value);
    if (random_() % 60 == 0) s += ' ';
  }
  std::string pick(const std::vector<std::string>& from) { return from[random_() % from.size()]; }
  static std::string quoted(const std::string& text) { return "\"" + text + "\""; }

  std::mt19937 random_;
};

template <class T>
void expect_same_row(const T* a, const T* b, const char* what) {
  ASSERT_EQ(a == nullptr, b == nullptr) << what;
  if (a != nullptr) {
    EXPECT_EQ(std::memcmp(static_cast<const void*>(a), static_cast<const void*>(b), sizeof(T)), 0) << what;
  }
}

void expect_same_event(const Trace& a, std::size_t i, const Trace& b, std::size_t j) {
  EXPECT_EQ(a.events.start[i], b.events.start[j]);
  EXPECT_EQ(a.events.duration[i], b.events.duration[j]);
  EXPECT_EQ(a.events.ph[i], b.events.ph[j]);
  EXPECT_EQ(a.name(i), b.name(j));
  EXPECT_EQ(a.category_name(i), b.category_name(j));
  EXPECT_EQ(a.kind(i), b.kind(j));
  EXPECT_EQ(a.events.correlation[i], b.events.correlation[j]);
  EXPECT_EQ(a.events.external_id[i], b.events.external_id[j]);
  EXPECT_EQ(a.args.text(a.events.args[i]), b.args.text(b.events.args[j]));
  const trace::Lane& x = a.lanes[a.events.lane[i].index()];
  const trace::Lane& y = b.lanes[b.events.lane[j].index()];
  EXPECT_EQ(a.strings[x.pid], b.strings[y.pid]);
  EXPECT_EQ(a.strings[x.tid], b.strings[y.tid]);
  expect_same_row(a.op(i), b.op(j), "op");
  expect_same_row(a.python(i), b.python(j), "python");
  expect_same_row(a.memory(i), b.memory(j), "memory");
  expect_same_row(a.sync(i), b.sync(j), "sync");
  expect_same_row(a.copy(i), b.copy(j), "copy");
}

TEST(KinetoIndependence, EveryEventIsReadAsIfItStoodAlone) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    Maker maker(seed);
    std::vector<std::string> events;
    std::string all;
    for (int i = 0; i < 500; ++i) {
      events.push_back(maker.event());
      all += (i == 0 ? "" : ",\n") + events.back();
    }
    const Trace together = must_load(wrap(all));
    ASSERT_EQ(together.size(), events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Trace alone = must_load(wrap(events[i]));
      ASSERT_EQ(alone.size(), 1u) << events[i];
      expect_same_event(together, i, alone, 0);
      if (testing::Test::HasFailure()) {
        FAIL() << "seed " << seed << ", event " << i << ":\n"
               << events[i] << "\nafter:\n"
               << (i > 0 ? events[i - 1] : "(nothing)");
      }
    }
  }
}

TEST(KinetoIndependence, RepeatingATraceRepeatsItsRows) {
  Maker maker(9);
  std::string block;
  for (int i = 0; i < 200; ++i) block += (i == 0 ? "" : ",\n") + maker.event();
  const Trace once = must_load(wrap(block));
  const Trace thrice = must_load(wrap(block + "," + block + ",  " + block));
  ASSERT_EQ(thrice.size(), 3 * once.size());
  for (std::size_t i = 0; i < thrice.size(); ++i) expect_same_event(thrice, i, once, i % once.size());
  EXPECT_EQ(thrice.args.size(), once.args.size()) << "a tuple seen again is the same tuple";
  EXPECT_EQ(thrice.strings.size(), once.strings.size());
}

}  // namespace
}  // namespace foretrace::test
