// The one reader of CSV, and data files found by device.
#include <gmock/gmock.h>

#include "base/csv.hpp"
#include "base/data_files.hpp"

namespace foretrace {
namespace {

using ::testing::ElementsAre;

TEST(Csv, ColumnsAreFoundByName) {
  CsvReader row("# a comment\nname, value ,unit\r\n\nfirst,1.5,\"us\"\n# between\nsecond,fast\n");
  EXPECT_THAT(row.columns(), ElementsAre("name", "value", "unit"));
  ASSERT_TRUE(row.next());
  EXPECT_EQ(row["name"], "first");
  EXPECT_EQ(row.number("value"), 1.5);
  EXPECT_EQ(row["unit"], "us");
  EXPECT_EQ(row["price"], "");
  ASSERT_TRUE(row.next());
  EXPECT_EQ(row.line(), 6U);
  EXPECT_EQ(row.number("value"), std::nullopt);
  EXPECT_EQ(row["unit"], "");
  EXPECT_EQ(row.error("no number", "table.csv", "hint").value().message, "line 6: no number");
  EXPECT_FALSE(row.next());
}

TEST(Csv, WithoutAHeaderTheReaderNamesTheColumns) {
  CsvReader row("a,1\nb,2\n", {"name", "value"});
  ASSERT_TRUE(row.next());
  EXPECT_EQ(row["name"], "a");
  ASSERT_TRUE(row.next());
  EXPECT_EQ(row.number("value"), 2);
  EXPECT_TRUE(CsvReader("").columns().empty());
}

TEST(DataFiles, ATableIsTheDevicesOwnOrTheReferenceDevices) {
  const DataFiles files = DataFiles::shipped()
                              .with({"hardware/clocks/A1.csv", "a1"})
                              .with({"hardware/clocks/Z9.csv", "z9"})
                              .with({"hardware/kernels/Z9.softmax.csv", "soft"});
  EXPECT_EQ(files.measured("hardware/clocks", "A1").text, "a1");
  EXPECT_EQ(files.measured("hardware/clocks", "Z9").text, "z9");
  EXPECT_EQ(files.measured("hardware/clocks", "C3").device(), files.reference_device());
  EXPECT_EQ(files.measured("hardware/kernels", "Z9", "softmax").text, "soft");
  EXPECT_EQ(files.measured("hardware/kernels", "Z9", "conv").device(), files.reference_device());
}

TEST(DataFiles, AFileTakesThePlaceOfOneOfTheSamePath) {
  const std::string_view path = "hardware/devices/H200-SXM.toml";
  EXPECT_EQ(DataFiles::shipped().with({path, "other"}).at(path).text, "other");
  EXPECT_NE(DataFiles::shipped().at(path).text, "other");
}

}  // namespace
}  // namespace foretrace
