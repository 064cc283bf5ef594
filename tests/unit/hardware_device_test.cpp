// Device files: the built-in ones, finding them by name, a user's own, and the GPU of a trace.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "foretrace/hardware/device.hpp"
#include "trace/gpu.hpp"

namespace foretrace::hardware {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kGood = R"(
driver_names = ["NVIDIA X1", "X1"]
[compute]
capability = "9.0"
sms = 100
clock_mhz = 2000
[tflops]
fp32 = 50
fp16 = 800
[memory]
gb = 96
bandwidth_gbs = 4000
[link]
pcie_generation = 4
[board]
source = "a test"
)";

Result<Device> parse(std::string_view text) { return parse_device(text, "x1", "x1.toml"); }

std::string without(std::string_view line) {
  std::string text(kGood);
  const std::size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.erase(at, text.find('\n', at) - at);
}

TEST(Devices, ReportedMemoryAndSustainedClocksAreOptional) {
  const Result<Device> plain = parse(kGood);
  ASSERT_TRUE(plain.has_value());
  EXPECT_NEAR(plain->reported_gb, 96 * 1.073741824 * device_defaults().reported_share, 1e-9);
  EXPECT_EQ(plain->sustained_half, 0);
  std::string text(kGood);
  text.replace(text.find("gb = 96"), 7, "gb = 96\nreported_gb = 100.5");
  text += "[sustained]\nfp32 = 0.5\nhalf = 1.1\n";
  const Result<Device> full = parse(text);
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->reported_gb, 100.5);
  EXPECT_EQ(full->sustained_fp32, 0.5);
  EXPECT_EQ(full->sustained_half, 1.1);
  EXPECT_FALSE(parse(std::string(kGood) + "[sustained]\nfp32 = 50\n").has_value());
  EXPECT_FALSE(same_device(*plain, *full));
}

TEST(Devices, AMisspeltKeyOrAValueOfAnotherTypeIsAnError) {
  const auto changed = [](std::string_view from, std::string_view to) {
    std::string text(kGood);
    text.replace(text.find(from), from.size(), to);
    const Result<Device> d = parse(text);
    EXPECT_FALSE(d.has_value()) << to;
    return d ? std::string() : d.error().to_string();
  };
  ASSERT_TRUE(parse(kGood).has_value());
  EXPECT_THAT(changed("clock_mhz", "clock_mzh"), HasSubstr("compute.'clock_mzh' is not a key of a device file"));
  EXPECT_THAT(changed("clock_mhz", "clock_mzh"), HasSubstr("did you mean 'clock_mhz'?"));
  EXPECT_THAT(changed("[link]", "[links]"), HasSubstr("'links' is not a key"));
  EXPECT_THAT(changed("clock_mhz = 2000", "clock_mhz = \"2000\""), HasSubstr("compute.clock_mhz is not a number"));
  EXPECT_THAT(changed("[board]", "[board]\nusd = 3"), HasSubstr("board.'usd'"));
}

TEST(Devices, BuiltInFilesAreComplete) {
  EXPECT_GE(devices().size(), 25U);
  for (const Device& d : devices()) {
    EXPECT_FALSE(d.full_name.empty()) << d.name;
    EXPECT_FALSE(d.source.empty()) << d.name;
    EXPECT_GT(d.pcie_gbs, 5) << d.name;
    EXPECT_GT(d.clock_mhz, 500) << d.name;
    EXPECT_GT(d.achievable_bandwidth, 0.5) << d.name;
    // Tensor cores are never slower than what they replace, and half precision is at least as fast as TF32.
    EXPECT_GE(d.tflops(work::Dtype::kTf32), d.tflops_fp32) << d.name;
    EXPECT_GE(d.tflops(work::Dtype::kFp16), d.tflops(work::Dtype::kTf32)) << d.name;
    EXPECT_TRUE(d.vendor == "nvidia" || d.vendor == "amd") << d.name;
    // Traces that leave it out are read by compute capability.
    if (d.vendor == "nvidia") {
      EXPECT_EQ(trace::threads_per_sm(d.compute_major, d.compute_minor), d.threads_per_sm) << d.name;
    }
  }
  EXPECT_TRUE(std::is_sorted(devices().begin(), devices().end(), [](const Device& a, const Device& b) {
    return std::lexicographical_compare(a.name.begin(), a.name.end(), b.name.begin(), b.name.end(),
                                        [](char x, char y) { return std::tolower(x) < std::tolower(y); });
  }));
}

TEST(Devices, FoundByNameIgnoringCaseAndVendor) {
  for (const char* name : {"H200-SXM", "h200-sxm", "NVIDIA H200", "nvidia h200", "H200"}) {
    const Result<Device> d = find_device(name);
    ASSERT_TRUE(d) << name;
    EXPECT_EQ(d->name, "H200-SXM");
    EXPECT_EQ(d->sm_count, 132);
  }
  EXPECT_EQ(find_device("Tesla V100-SXM2-16GB")->name, "V100-SXM2-16GB");
  EXPECT_EQ(find_device("rtx 4090")->name, "RTX-4090");
}

TEST(Devices, UnknownNamesAreAnswered) {
  const Result<Device> several = find_device("A100");
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().code, ErrorCode::kUsage);
  EXPECT_THAT(several.error().hint, HasSubstr("A100-SXM4-80GB"));
  const Result<Device> typo = find_device("RTX-4009");
  ASSERT_FALSE(typo);
  EXPECT_THAT(typo.error().hint, HasSubstr("RTX-4090"));
  for (const auto& [name, near] : {std::pair("B200-SXM", "'B200'"), {"H300", "H200-SXM"}, {"MI400X", "MI300X"}}) {
    const Result<Device> other = find_device(name);
    ASSERT_FALSE(other) << name;
    EXPECT_THAT(other.error().hint, HasSubstr(near)) << name;
  }
  // Of the same family before one that differs by a letter.
  EXPECT_THAT(find_device("H300").error().hint, testing::Not(HasSubstr("B300")));
  EXPECT_THAT(find_device("P400").error().hint, testing::Not(HasSubstr("'P4'")));
  for (const char* name : {"RTX 4070", "NVIDIA GeForce RTX 2070 SUPER", "Quadro RTX 5000", "L40", "P40"}) {
    EXPECT_TRUE(find_device(name)) << name;
  }
  const Result<Device> nothing = find_device("abacus");
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().hint, HasSubstr("foretrace list devices"));
}

TEST(Devices, OwnFileIsRead) {
  const Result<Device> d = parse(kGood);
  ASSERT_TRUE(d) << d.error().to_string();
  EXPECT_EQ(d->full_name, "NVIDIA X1");
  EXPECT_EQ(d->compute_major, 9);
  EXPECT_DOUBLE_EQ(d->achievable_bandwidth, hardware::device_defaults().bandwidth_share);
  EXPECT_DOUBLE_EQ(d->pcie_gbs, 31.5 * hardware::device_defaults().pcie_share);
  EXPECT_DOUBLE_EQ(d->tflops(work::Dtype::kBf16), 50);  // no such tensor cores
  EXPECT_DOUBLE_EQ(d->tflops(work::Dtype::kFp16), 800);

  const std::filesystem::path path = std::filesystem::temp_directory_path() / "foretrace_device_test_x2.toml";
  std::ofstream(path) << kGood;
  const Result<Device> loaded = load_device(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->name, "foretrace_device_test_x2");
  EXPECT_FALSE(load_device(path.string()));
}

TEST(Devices, BadFilesSayWhatIsWrong) {
  const auto message = [](const std::string& text) {
    const Result<Device> d = parse(text);
    EXPECT_FALSE(d) << text;
    if (d) return std::string();
    EXPECT_EQ(d.error().file, "x1.toml");
    return d.error().message;
  };
  EXPECT_THAT(message("[compute"), HasSubstr("line 1"));
  EXPECT_THAT(message(without("capability")), HasSubstr("compute.capability"));
  EXPECT_THAT(message(without("sms")), HasSubstr("compute.sms"));
  EXPECT_THAT(message(without("bandwidth_gbs")), HasSubstr("memory.bandwidth_gbs"));
  EXPECT_THAT(message(without("source")), HasSubstr("board.source"));
  EXPECT_THAT(message(std::string(kGood) + "usd_per_hour = 2\n"), HasSubstr("price_source"));
  std::string share(kGood);
  share.replace(share.find("gb = 96"), 7, "gb = 96\nachievable_bandwidth = 1.5");
  EXPECT_THAT(message(share), HasSubstr("achievable_bandwidth"));
}

trace::Trace recorded_on(std::string name, int major, int minor, std::int64_t sms, double gb) {
  trace::Trace t;
  trace::DeviceProperties p;
  p.name = std::move(name);
  p.compute_major = major;
  p.compute_minor = minor;
  p.sm_count = sms;
  p.total_memory_bytes = static_cast<std::int64_t>(gb * 1e9);
  t.devices.push_back(p);
  return t;
}

TEST(DeviceOfTrace, ByName) {
  const Result<DeviceMatch> m = device_of(recorded_on("NVIDIA H100 80GB HBM3", 9, 0, 132, 85));
  ASSERT_TRUE(m);
  EXPECT_EQ(m->device.name, "H100-SXM5");
  EXPECT_THAT(m->how, HasSubstr("by name"));
  EXPECT_NEAR(m->device.memory_gb, 85, 1e-6);  // the trace's figure wins
}

TEST(DeviceOfTrace, PartitionHasItsShareOfTheRates) {
  const Result<DeviceMatch> m = device_of(recorded_on("NVIDIA H200", 9, 0, 66, 150));
  ASSERT_TRUE(m);
  EXPECT_EQ(m->device.sm_count, 66);
  EXPECT_NEAR(m->device.tflops_fp16, find_device("H200-SXM")->tflops_fp16 / 2, 1e-9);
  EXPECT_THAT(m->how, HasSubstr("66 of 132 SMs"));
}

TEST(DeviceOfTrace, UnknownNameByProperties) {
  const Result<DeviceMatch> m = device_of(recorded_on("NVIDIA A100-XYZ", 8, 0, 108, 80));
  ASSERT_TRUE(m) << m.error().to_string();
  EXPECT_EQ(m->device.memory_gb, 80);
  EXPECT_THAT(m->device.name, HasSubstr("A100"));
  EXPECT_THAT(m->how, HasSubstr("by properties"));
}

TEST(DeviceOfTrace, AnUnknownCapabilityIsThatOfItsMajorVersion) {
  const auto found = [](const char* name, int major, int minor, int sms, double gb) {
    const Result<DeviceMatch> m = device_of(recorded_on(name, major, minor, sms, gb));
    return m ? m->device.name + ", " + m->how : m.error().to_string();
  };
  EXPECT_THAT(found("NVIDIA Foo", 8, 7, 84, 48), ::testing::AnyOf(HasSubstr("A40"), HasSubstr("A6000")));
  EXPECT_THAT(found("NVIDIA Foo", 12, 1, 170, 32), HasSubstr("RTX-5090"));
  EXPECT_THAT(found("NVIDIA Foo", 10, 7, 148, 180), HasSubstr("B200"));
  EXPECT_THAT(found("NVIDIA Foo", 11, 0, 148, 180), HasSubstr("no device file is like"));  // another major version
  EXPECT_EQ(trace::threads_per_sm(8, 7), 1536);
  EXPECT_EQ(trace::threads_per_sm(12, 1), 1536);
  EXPECT_EQ(trace::threads_per_sm(10, 7), 2048);
}

// No file describes it, and no board comes near: its architecture tells what an SM does, the rest is guessed and said to be.
TEST(DeviceOfTrace, AGuessFromArchitectureAndSms) {
  const Result<DeviceMatch> m = device_of(recorded_on("NVIDIA RTX 700 Ada Generation Laptop GPU", 8, 9, 12, 40));
  ASSERT_TRUE(m) << m.error().to_string();
  EXPECT_EQ(m->device.sm_count, 12);
  EXPECT_THAT(m->how, HasSubstr("guessed"));
  EXPECT_GT(m->device.guessed_sigma, 0);
  EXPECT_GT(m->device.tflops_bf16, m->device.tflops_fp32);  // an Ada has tensor cores
  EXPECT_LT(m->device.bandwidth_gbs, 500);
  EXPECT_EQ(device_of(recorded_on("NVIDIA H200", 9, 0, 132, 150))->device.guessed_sigma, 0);
}

TEST(DeviceOfTrace, DeclinedWhenNothingIsNear) {
  const Result<DeviceMatch> m = device_of(recorded_on("Foo", 3, 5, 13, 12));
  ASSERT_FALSE(m);
  EXPECT_EQ(m.error().code, ErrorCode::kDeclined);
  EXPECT_THAT(m.error().hint, HasSubstr("adding-a-device"));
  EXPECT_FALSE(device_of(trace::Trace{}));
}

}  // namespace
}  // namespace foretrace::hardware
