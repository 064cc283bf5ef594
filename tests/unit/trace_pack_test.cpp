// A packed trace is the trace: every verb that reads it says the same.

#include <gtest/gtest.h>

#include <cstring>

#include "foretrace/trace/load.hpp"

namespace foretrace::trace {
namespace {

template <class T>
bool same(const Column<T>& a, const Column<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

TEST(Pack, GivesTheSameTrace) {
  for (const char* const file :
       {"/examples/resnet50-h200.json.gz", "/data/h200-ranks/resnet50.mps.ddp@5.w2.r0.json.gz"}) {
    const Result<Trace> read = load(std::string(FORETRACE_SOURCE_DIR) + file);
    ASSERT_TRUE(read.has_value());
    const std::string bytes = pack(*read);
    const Result<Trace> again = unpack(bytes);
    ASSERT_TRUE(again.has_value()) << again.error().to_string();
    EXPECT_EQ(pack(*again), bytes);
    EXPECT_TRUE(same(read->events.start, again->events.start));
    EXPECT_TRUE(same(read->events.args, again->events.args));
    EXPECT_TRUE(same(read->memory_ids, again->memory_ids));
    EXPECT_EQ(read->metadata, again->metadata);
    EXPECT_EQ(read->devices.size(), again->devices.size());
    for (std::size_t e = 0; e < read->size(); e += 97) {
      EXPECT_EQ(read->name(e), again->name(e));
      EXPECT_EQ(read->args.text(read->events.args[e]), again->args.text(again->events.args[e]));
      const KernelLaunch* a = read->launch(e);
      const KernelLaunch* b = again->launch(e);
      ASSERT_EQ(a == nullptr, b == nullptr);
      if (a != nullptr) {
        EXPECT_EQ(a->grid, b->grid);
      }
    }
  }
}

TEST(Pack, DamagedBytesAreRefused) {
  const Result<Trace> read = load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz");
  ASSERT_TRUE(read.has_value());
  const std::string bytes = pack(*read);
  EXPECT_FALSE(unpack("").has_value());
  EXPECT_FALSE(unpack("{}").has_value());
  for (const std::size_t at : {std::size_t{0}, std::size_t{20}, bytes.size() / 2, bytes.size() - 1}) {
    EXPECT_FALSE(unpack(std::string_view(bytes).substr(0, at)).has_value()) << at;
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    EXPECT_FALSE(unpack(changed).has_value()) << at;
  }
}

}  // namespace
}  // namespace foretrace::trace
