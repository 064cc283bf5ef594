// Nsight's tables through a reader of Parquet that somebody brings: here one that holds two tables in memory.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "foretrace/trace/load.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foretrace::trace {
namespace {

using testing::HasSubstr;

class ParquetFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("foretrace-parquet-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "StringIds.parquet") << "PAR1";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Kernels "gemm" and one whose name is not there; a column of the table is never written (graphId), one has a hole.
  static LoadOptions with_reader() {
    LoadOptions options;
    options.parquet.tables = [](const std::string&) -> Result<std::map<std::string, std::set<std::string>>> {
      return std::map<std::string, std::set<std::string>>{
          {"StringIds", {"id", "value"}},
          {"CUPTI_ACTIVITY_KIND_KERNEL", {"start", "end", "globalPid", "deviceId", "streamId", "demangledName"}}};
    };
    options.parquet.scan = [](const std::string&, const std::string& table, const std::vector<std::string>& columns,
                              const std::function<void(const ColumnBatch&)>& each) -> Status {
      static const std::int64_t ids[] = {5, 6};
      static const std::int64_t offsets[] = {0, 4, 4};
      static const std::map<std::string, std::vector<std::int64_t>> numbers = {
          {"start", {1'000, 2'000, 0}}, {"end", {1'500, 2'250, 10}},   {"globalPid", {1 << 24, 1 << 24, 1 << 24}},
          {"deviceId", {0, 0, 0}},      {"demangledName", {5, 99, 5}}, {"streamId", {7, 7, 7}}};
      static const std::uint8_t start_there[] = {1, 1, 0};
      ColumnBatch batch;
      batch.rows = table == "StringIds" ? 2 : 3;
      for (const std::string& column : columns) {
        ColumnBatch::Column c;
        if (column == "id") {
          c.numbers = ids;
        } else if (column == "value") {
          c.offsets = offsets;
          c.bytes = "gemm";
        } else {
          c.numbers = numbers.at(column).data();
          if (column == "start") c.present = start_there;
        }
        batch.columns.push_back(c);
      }
      each(batch);
      return {};
    };
    return options;
  }

  std::filesystem::path folder_;
};

TEST_F(ParquetFolder, WithoutAReaderItSaysWhatToDo) {
  const auto trace = load(folder_.string());
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, ErrorCode::kUnreadable);
  EXPECT_THAT(trace.error().hint, HasSubstr("python3 -m foretrace"));
  EXPECT_THAT(trace.error().hint, HasSubstr("nsys export --type sqlite"));
}

TEST_F(ParquetFolder, RowsAreThoseOfTheTables) {
  const auto files = find_trace_files({folder_.string()}, with_reader());
  ASSERT_TRUE(files);
  EXPECT_EQ(*files, std::vector<std::string>{folder_.string()});
  const auto trace = load(folder_.string(), with_reader());
  ASSERT_TRUE(trace) << trace.error().to_string();
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ(trace->name(0), "gemm");
  EXPECT_EQ(trace->name(1), "(string 99)");
  EXPECT_EQ(trace->events.duration[1], 250);
  EXPECT_EQ(trace->diagnostics.find("bad_row")->count, 1u);
  EXPECT_EQ(trace->args.launch(trace->events.args[0])->stream, 7);
}

TEST_F(ParquetFolder, AFolderOfFoldersIsAJob) {
  const auto job = folder_ / "job";
  for (const char* rank : {"rank0", "rank1"}) {
    std::filesystem::create_directories(job / rank);
    std::ofstream(job / rank / "NVTX_EVENTS.parquet") << "PAR1";
  }
  const auto files = find_trace_files({job.string()}, with_reader());
  ASSERT_TRUE(files);
  EXPECT_EQ(*files, (std::vector<std::string>{(job / "rank0").string(), (job / "rank1").string()}));
}

}  // namespace
}  // namespace foretrace::trace
