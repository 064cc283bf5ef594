// The examples of docs/internals/adding-a-format.md read what they say they read: one as a stream, one here and there.

#include "base/byte_source.hpp"
#include "base/seekable_source.hpp"
#include "gtest/gtest.h"
#include "trace/importers/importer.hpp"

namespace foretrace::trace {

Importer myprof_importer();
Importer boxprof_importer();

namespace {

Result<Trace> through(const Importer& importer, std::string_view bytes) {
  EXPECT_EQ(importer.sniff(bytes), 100);
  auto source = memory_source(bytes);
  if (importer.read != nullptr) return importer.read(**source, "example", {});
  auto seekable = make_seekable(**source);
  return importer.read_part(**seekable, "example", {}, {});
}

TEST(AddedFormat, AStream) {
  const auto trace = through(myprof_importer(), "#myprof\ngemm 7 10.5 200\nbroken\nrelu 7 300 20.001");
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ(trace->name(0), "gemm");
  EXPECT_EQ(trace->events.start[0], 10'500);
  EXPECT_EQ(trace->events.duration[1], 20'001);
  EXPECT_EQ(trace->kind(1), EventKind::kKernel);
  EXPECT_EQ(trace->diagnostics.lost_records(), 1u);
}

TEST(AddedFormat, HereAndThere) {
  std::string bytes = "BOXPROF1";
  const auto word = [&](std::int64_t n) { bytes.append(reinterpret_cast<const char*>(&n), sizeof n); };
  for (const std::int64_t n : {64, 1'000, 250, 0, 2'000, 50, 99}) word(n);
  bytes += std::string("gemm\0relu\0", 10);
  const auto trace = through(boxprof_importer(), bytes);
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->size(), 1u);
  EXPECT_EQ(trace->name(0), "gemm");
  ASSERT_NE(trace->args.launch(trace->events.args[0]), nullptr);
  EXPECT_EQ(trace->args.launch(trace->events.args[0])->grid[0], 264);
  EXPECT_EQ(trace->diagnostics.lost_records(), 1u);
  EXPECT_FALSE(through(boxprof_importer(), "BOXPROF1\xff\xff\xff\xff\xff\xff\xff\xff"));
}

}  // namespace
}  // namespace foretrace::trace
