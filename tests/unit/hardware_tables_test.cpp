// A second measured device next to the one that is shipped: each uses its own tables.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/byte_source.hpp"
#include "base/data_files.hpp"
#include "base/text.hpp"
#include "hardware/estimate.hpp"
#include "hardware/tables.hpp"
#include "whatif/predict/residuals.hpp"
#include "whatif/rewrite/generated_kernels.hpp"

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

TEST_P(SecondDevice, ErrorsOfItsStepsAreItsOwn) {
  using whatif::read_residuals, whatif::Residuals;
  const std::string path = "whatif/residuals/" + name_ + ".csv";
  // Every family of the reference device, each with an error that none has there.
  std::string rows = "# family,model,residual\n";
  for (const Residuals::Row& row : Residuals::built_in("H200-SXM").rows()) rows += row.family + ",a,3\n";
  const DataFiles files = DataFiles::shipped().with({path, rows});
  const Residuals here = read_residuals(files, "H200-SXM"), other = read_residuals(files, name_);
  for (const Residuals::Row& row : other.rows()) {
    EXPECT_EQ(here.sigma(row.family), Residuals::built_in("H200-SXM").sigma(row.family)) << row.family;
    EXPECT_EQ(here.models(row.family), Residuals::built_in("H200-SXM").models(row.family)) << row.family;
    EXPECT_GT(other.sigma(row.family), 3) << row.family;
  }
  // A device without measured steps errs like the reference device, not like both together.
  EXPECT_EQ(read_residuals(files, "A100-SXM4-80GB").rows().size(), here.rows().size());
}

TEST_P(SecondDevice, ErrorsOfItsKernelsAreItsOwn) {
  const std::string path = "hardware/spreads/" + name_ + ".kernels.csv";
  const Tables tables(DataFiles::shipped().with({file_, device_file()}).with({path, "name,value\nown_kernel,3\n"}));
  EXPECT_EQ(tables.of(tables.device(name_)).own_kernel, 3);
  const double shipped = Tables::shipped().of(tables.device("H200-SXM")).own_kernel;
  EXPECT_EQ(tables.of(tables.device("H200-SXM")).own_kernel, shipped);
  EXPECT_EQ(tables.of(tables.device("A100-SXM4-80GB")).own_kernel, shipped);
}

TEST_P(SecondDevice, CompiledKernelsAreItsOwn) {
  const std::string path = "whatif/compilers/" + name_ + ".inductor.csv";
  std::string slow;  // the same figures, but a kernel that only moves data starts after a millisecond
  for (const std::string_view line : split(data_file("whatif/compilers/H200-SXM.inductor.csv"), '\n')) {
    slow.append(line.starts_with("copy_start_us,") ? "copy_start_us,1000,made up" : line).append("\n");
  }
  const DataFiles files = DataFiles::shipped().with({path, slow});
  const Device h200 = tables_.device("H200-SXM");
  const whatif::Generated copy{.bytes = 1e6, .copy = true};
  const auto time_on = [&](std::string_view device) {
    return time_of(copy, h200, whatif::read_compiler_figures(files, device));
  };
  EXPECT_GT(time_on(name_), 1e6);
  EXPECT_EQ(time_on("H200-SXM"), time_of(copy, h200));
  EXPECT_EQ(time_on("A100-SXM4-80GB"), time_on("H200-SXM"));
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
