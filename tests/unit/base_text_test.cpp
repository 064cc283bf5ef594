#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/byte_source.hpp"
#include "base/decimal.hpp"
#include "base/missing_file.hpp"
#include "base/text.hpp"
#include "compress.hpp"

namespace foretrace::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Text, SplitKeepsEmptyPartsAndTrims) {
  EXPECT_THAT(split("a, b,,c ", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split("one\r\ntwo", '\n'), ElementsAre("one", "two"));
}

TEST(Text, TrimmedLeavesInnerBlanks) {
  EXPECT_EQ(trimmed(" \t a b \r\n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
}

TEST(Text, NamesWithoutMakersAndSigns) {
  const auto key = [](std::string_view name) { return name_key(name, {"nvidia", "tesla"}); };
  EXPECT_EQ(key("NVIDIA H200"), "h200");
  EXPECT_EQ(key("nvidia-tesla_T4"), "t4");
  EXPECT_EQ(key("Tesla"), "tesla");  // nothing but a maker: it is the name
}

TEST(Text, ContainsAny) {
  EXPECT_TRUE(contains_any("aten::layer_norm", {"softmax", "_norm"}));
  EXPECT_FALSE(contains_any("aten::layer_norm", {"softmax"}));
  EXPECT_FALSE(contains_any("aten::layer_norm", {}));
}

TEST(Decimal, DoublesAllOrNothing) {
  EXPECT_EQ(parse_double("1e-3"), 1e-3);
  EXPECT_EQ(parse_double("-2.5"), -2.5);
  for (const char* text : {"", " 1", "1 ", "1x", "nan", "inf", "1e999", "--1"}) {
    EXPECT_FALSE(parse_double(text).has_value()) << text;
  }
}

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("base_text_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }
  fs::path folder_;
};

TEST_F(FilesTest, ReadWholeAndInflated) {
  const std::string text(200'000, 'x');
  EXPECT_EQ(read_file(write("plain", text)).value_or(""), text);
  EXPECT_EQ(read_file(write("packed", gzip(text))).value_or(""), text);
  EXPECT_EQ(read_file(write("empty", "")).value_or("?"), "");
}

TEST_F(FilesTest, TooLargeAndCutOffNameTheFile) {
  const std::string path = write("large", std::string(1000, 'x'));
  const Result<std::string> large = read_file(path, 999);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().file, path);
  EXPECT_TRUE(read_file(path, 1000).has_value());

  std::string noise;  // what does not pack, so that the cut falls behind the first read
  for (std::uint32_t i = 0, x = 1; i < 300'000; ++i) noise += static_cast<char>((x = x * 1664525u + 1013904223u) >> 24);
  const std::string packed = gzip(noise);
  const std::string cut = write("cut", packed.substr(0, packed.size() / 2));
  const Result<std::string> half = read_file(cut);
  ASSERT_FALSE(half.has_value());
  EXPECT_EQ(half.error().file, cut);
}

TEST_F(FilesTest, AMissingFileSaysWhatIsThere) {
  write("rank0.json.gz", "");
  const auto hint = [&](const fs::path& path) { return missing_file(path.string()).hint; };
  EXPECT_THAT(hint(folder_ / "rank0.jsn.gz"), HasSubstr("did you mean " + (folder_ / "rank0.json.gz").string()));
  EXPECT_THAT(hint(folder_ / "rank0"), HasSubstr("rank0.json.gz"));
  EXPECT_THAT(hint(folder_ / "something else entirely"), HasSubstr("nothing of a similar name"));
  EXPECT_THAT(hint(folder_ / "no" / "such" / "file"), HasSubstr("exists up to " + folder_.string()));
  EXPECT_THAT(missing_file("no-such-folder/file").message, HasSubstr("its folder no-such-folder does not exist"));
}

}  // namespace
}  // namespace foretrace::test
