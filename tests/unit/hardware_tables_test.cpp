// A second measured device beside the one that is shipped: each uses its own tables.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/byte_source.hpp"
#include "base/data_files.hpp"
#include "base/text.hpp"
#include "hardware/estimate.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {
namespace {

constexpr std::string_view kKernels = "hardware/kernels/H200-SXM.softmax.csv";

// A board like the H200, but for its name.
std::string_view device_file() { return data_file("hardware/devices/H200-SXM.toml"); }

// The same table with all times three times as long.
std::string slower_softmax() {
  std::string out;
  bool header = true;
  for (const std::string_view line : split(data_file(kKernels), '\n')) {
    const bool comment = line.empty() || line.front() == '#';
    if (comment || header) {
      header = header && comment;
      out.append(line).append("\n");
      continue;
    }
    const std::vector<std::string_view> cells = split(line, ',');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const bool time = i >= 2 && !cells[i].empty();  // rows,c, then times
      out.append(i > 0 ? "," : "").append(time ? std::to_string(3 * std::stod(std::string(cells[i]))) : cells[i]);
    }
    out.append("\n");
  }
  return out;
}

Work softmax() {
  Work w(Family::kSoftmax);
  w.kind = Rows{.rows = 4096, .columns = 1024};
  w.elements = std::int64_t{4096} * 1024;
  w.bytes_read = w.bytes_written = 4.0 * static_cast<double>(w.elements);
  return w;
}

class SecondDevice : public ::testing::TestWithParam<const char*> {
 protected:
  // Before and behind the reference device in the alphabet: the order of files decides nothing.
  const std::string name_ = GetParam();
  const std::string file_ = "hardware/devices/" + name_ + ".toml";
  const std::string kernels_ = "hardware/kernels/" + name_ + ".softmax.csv", softmax_ = slower_softmax();
  const Tables tables_{DataFiles::shipped().with({file_, device_file()}).with({kernels_, softmax_})};
};

TEST_P(SecondDevice, EachDeviceUsesItsOwnKernels) {
  const Device h200 = tables_.device("H200-SXM"), other = tables_.device(name_);
  const double here = predict(softmax(), h200, tables_).ns;
  EXPECT_DOUBLE_EQ(here, predict(softmax(), h200, Tables::shipped()).ns);
  EXPECT_NEAR(predict(softmax(), other, tables_).ns / here, 3, 0.01);
  // What was not measured there is the reference device's.
  const Work product = work::gemm_work(1, 4096, 4096, 4096, Dtype::kBf16);
  EXPECT_DOUBLE_EQ(predict(product, other, tables_).ns, predict(product, h200, tables_).ns);
  EXPECT_EQ(tables_.of(other).convolutions_on.name, "H200-SXM");
}

TEST_P(SecondDevice, ParametersMeasuredOnADeviceAreItsOwn) {
  const std::string laws = "hardware/laws/" + name_ + ".csv";
  const std::string rows =
      "law,kind,architecture,parameter,value\nstreaming,plain fp32,any,start,50\nstreaming,plain fp32,any,overlap,2\n";
  const Tables tables(DataFiles::shipped().with({file_, device_file()}).with({laws, rows}));
  const auto start = [&](std::string_view device) {
    return tables.laws().streaming("plain fp32", tables.device(device))->start;
  };
  EXPECT_EQ(start(name_), 50);
  EXPECT_EQ(start("H200-SXM"), Laws::shipped().streaming("plain fp32", tables.device("H200-SXM"))->start);
  EXPECT_EQ(start("A100-SXM4-80GB"), start("H200-SXM"));
}

// The files of docs/internals/adding-a-device.md: a path in backticks, a colon, and a block.
std::map<std::string, std::string> files_of_the_guide() {
  const Result<std::string> page = read_file(FORETRACE_SOURCE_DIR "/docs/internals/adding-a-device.md");
  EXPECT_TRUE(page.has_value());
  std::map<std::string, std::string> files;
  std::string path;
  bool inside = false;
  for (const std::string_view line : split(*page, '\n')) {
    if (line.starts_with("```")) {
      inside = !inside && !path.empty();
      if (!inside) path.clear();
    } else if (inside) {
      files[path].append(line).append("\n");
    } else {
      path = line.starts_with("`src/") && line.ends_with("`:") ? line.substr(5, line.size() - 7) : "";
    }
  }
  return files;
}

TEST(AddingADevice, TheGuideWorksAsItStands) {
  std::map<std::string, std::string> added = files_of_the_guide();
  ASSERT_EQ(added.size(), 2U);
  DataFiles files = DataFiles::shipped();
  for (const auto& [path, text] : added) files = files.with({path, text});
  const Tables tables(files);
  const Device device = tables.device("X1");
  EXPECT_EQ(device.full_name, "NVIDIA X1 96GB");
  EXPECT_NEAR(predict(softmax(), device, tables).ns, 80e3, 4e3);
  EXPECT_LT(predict(softmax(), tables.device("H200-SXM"), tables).ns, 40e3);
}

INSTANTIATE_TEST_SUITE_P(Alphabet, SecondDevice, ::testing::Values("A0", "Z9"));

}  // namespace
}  // namespace foretrace::hardware
