#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "base/byte_source.hpp"
#include "base/data_files.hpp"
#include "base/suggest.hpp"
#include "base/text.hpp"
#include "foretrace/hardware/device.hpp"
#include "hardware/toml_keys.hpp"

namespace foretrace::hardware {

namespace {

constexpr std::string_view kHint = "docs/reference/scale.md shows the form of a fabric file";

tl::unexpected<Error> bad_file(const std::string& file, std::string message) {
  return tl::unexpected<Error>(
      Error{ErrorCode::kUnreadable, std::move(message), file, Error::kNoOffset, std::string(kHint)});
}

std::string key_of(std::string_view name) { return name_key(name, {"nvidia", "mellanox", "infiniband"}); }

TomlForm form_of(const std::string& origin) { return {"a fabric file", origin, std::string(kHint)}; }

Result<FabricLevel> parse_level(const TomlTable& t, std::size_t index, const std::string& origin) {
  const std::string where = fmt::format("level {}: ", index + 1);
  using enum TomlType;
  static const std::vector<TomlKey> kKeys = {{"name", kText},       {"link", kText}, {"gbs"},
                                             {"per_node", kFlag},   {"efficiency"},  {"latency_scale"},
                                             {"extra_us", kNumber}, {"nvls", kFlag}, {"sharp", kFlag}};
  FORETRACE_TRY_VOID(only_known(t, kKeys, where, form_of(origin)));
  FabricLevel level;
  level.name = t.text("name").value_or(fmt::format("level {}", index + 1));
  const std::string link = t.text("link").value_or("");
  if (link == "nvlink") {
    level.link = LinkKind::kNvlink;
  } else if (link == "pcie") {
    level.link = LinkKind::kPcie;
  } else if (link == "network") {
    level.link = LinkKind::kNetwork;
  } else {
    return bad_file(origin, where + "link is missing or none of nvlink, pcie, network");
  }
  level.gbs = t.number("gbs").value_or(0);
  if (!(level.gbs > 0) || !std::isfinite(level.gbs)) {
    return bad_file(origin, where + "gbs is missing or not a positive number of GB/s");
  }
  level.per_node = t.flag("per_node");
  level.efficiency = t.number("efficiency").value_or(1);
  if (!(level.efficiency > 0 && level.efficiency <= 1)) {
    return bad_file(origin, where + "efficiency is a share of gbs: above 0, at most 1");
  }
  level.latency_scale = t.number("latency_scale").value_or(1);
  level.extra_us = t.number("extra_us").value_or(0);
  if (!(level.latency_scale > 0) || !std::isfinite(level.latency_scale) || !(level.extra_us >= 0) ||
      !std::isfinite(level.extra_us)) {
    return bad_file(origin, where + "latency_scale must be above 0 and extra_us not below 0");
  }
  level.nvls = t.flag("nvls");
  level.sharp = t.flag("sharp");
  if (level.nvls && level.link != LinkKind::kNvlink) return bad_file(origin, where + "nvls is for NVLink only");
  if (level.sharp && level.link != LinkKind::kNetwork) return bad_file(origin, where + "sharp is for networks only");
  return level;
}

}  // namespace

std::string_view to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvlink:
      return "nvlink";
    case LinkKind::kPcie:
      return "pcie";
    default:
      return "network";
  }
}

Result<Fabric> parse_fabric(std::string_view text, std::string name, const std::string& origin) {
  FORETRACE_TRY(const TomlTable t, parse_toml(text, origin, std::string(kHint)));
  using enum TomlType;
  static const std::vector<TomlKey> kKeys = {{"about", kText}, {"source", kText},       {"gpus_per_node"},
                                             {"channels"},     {"hierarchical", kFlag}, {"level", kTable}};
  FORETRACE_TRY_VOID(only_known(t, kKeys, "", form_of(origin)));
  Fabric f;
  f.name = std::move(name);
  f.about = t.text("about").value_or("");
  f.source = t.text("source").value_or("");
  const double gpus = t.number("gpus_per_node").value_or(1);
  const double channels = t.number("channels").value_or(0);
  constexpr double kMostGpus = 65536;  // a guard against damaged files
  if (!(gpus >= 1 && gpus <= kMostGpus) || gpus != std::floor(gpus)) {
    return bad_file(origin, "gpus_per_node is not a whole number from 1 to 65536");
  }
  if (!(channels >= 0 && channels <= 1024)) return bad_file(origin, "channels is not a number from 0 to 1024");
  f.gpus_per_node = static_cast<int>(gpus);
  f.channels = static_cast<int>(channels);
  f.hierarchical = t.flag("hierarchical");
  const auto levels = t.tables.find("level");
  if (levels == t.tables.end()) return bad_file(origin, "no [[level]]: a fabric has one or two");
  for (std::size_t i = 0; i < levels->second.size(); ++i) {
    FORETRACE_TRY(FabricLevel level, parse_level(levels->second[i], i, origin));
    f.levels.push_back(std::move(level));
  }
  if (f.levels.size() > 2) return bad_file(origin, "more than two levels: inside a node and between nodes");
  if (f.levels.size() == 2 && f.gpus_per_node < 2) {
    return bad_file(origin, "two levels need gpus_per_node of at least 2");
  }
  if (f.source.empty()) return bad_file(origin, "source is missing: every file says where its figures come from");
  return f;
}

const std::vector<Fabric>& fabrics() {
  static const std::vector<Fabric> kFabrics = [] {
    std::vector<Fabric> all;
    for (const DataFile& file : data_files_in("hardware/fabrics", ".toml")) {
      const std::string_view stem = file.stem(), text = file.text;
      Result<Fabric> f = parse_fabric(text, std::string(stem), std::string(stem) + ".toml");
      FORETRACE_CHECK(f.has_value());  // a test reads every built-in file
      all.push_back(std::move(*f));
    }
    std::sort(all.begin(), all.end(), [](const Fabric& a, const Fabric& b) { return key_of(a.name) < key_of(b.name); });
    return all;
  }();
  return kFabrics;
}

Result<Fabric> find_fabric(std::string_view name) {
  const std::string key = key_of(name);
  std::vector<std::string> names;
  for (const Fabric& f : fabrics()) {
    if (key_of(f.name) == key) return f;
    names.push_back(f.name);
  }
  std::string hint = did_you_mean(name, names);
  hint += hint.empty() ? "" : " ";
  hint += "`foretrace list fabrics` shows them all; a file of your own works too";
  return fail(ErrorCode::kUsage, fmt::format("no fabric is named '{}'", name), std::move(hint));
}

Result<Fabric> load_fabric(const std::string& path) {
  FORETRACE_TRY(const std::string text, read_file(path, kLargestToml));
  return parse_fabric(text, std::filesystem::path(path).stem().string(), path);
}

Result<Fabric> fabric_from(const std::string& text) {
  if (text.ends_with(".toml") || text.find('/') != std::string::npos) return load_fabric(text);
  return find_fabric(text);
}

Result<Fabric> with_gpus_per_node(const Fabric& fabric, int gpus, const FabricLevel& inner) {
  if (gpus < 1) return fail(ErrorCode::kUsage, "GPUs per node must be at least 1");
  Fabric f = fabric;
  if (gpus == f.gpus_per_node) return f;
  const bool network = f.levels.back().link == LinkKind::kNetwork;
  if (f.levels.size() == 2 && gpus == 1) {
    f.levels.erase(f.levels.begin());
  } else if (f.levels.size() == 1 && network && gpus > 1) {
    f.levels.insert(f.levels.begin(), inner);
  } else if (f.levels.size() == 1 && !network) {
    return fail(ErrorCode::kUsage, fmt::format("{} has no network between nodes", f.name),
                "name a fabric with one (a DGX, Ethernet, InfiniBand), or leave --gpus-per-node out");
  }
  f.gpus_per_node = gpus;
  return f;
}

}  // namespace foretrace::hardware
