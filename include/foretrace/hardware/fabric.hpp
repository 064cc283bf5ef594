#pragma once
// A network between GPUs: one TOML file in src/hardware/fabrics, compiled into the library, or a user's own file of the same
// form. Levels go from the innermost (NVLink inside a node) to the outermost (the network between nodes).
//
//   about = "eight H100 behind NVSwitch, one 400 Gb/s InfiniBand port per GPU"
//   source = "…"
//   gpus_per_node = 8
//   [[level]]
//   name = "NVLink 4"
//   link = "nvlink"            # nvlink, pcie, network: which of NCCL's latencies hold
//   gbs = 450                  # GB/s in one direction, per GPU (or per node: per_node = true)
//   efficiency = 0.82          # what large collectives reach of it
//   nvls = true                # the switch adds up (NVLink SHARP)
//   sharp = true               # of a network: its switches add up (SHARP, with NCCL's plugin for it)
//   [[level]]
//   name = "NDR"
//   …

#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"

namespace foretrace::hardware {

enum class LinkKind : std::uint8_t { kNvlink, kPcie, kNetwork };
std::string_view to_string(LinkKind kind);

struct FabricLevel {
  std::string name;
  LinkKind link = LinkKind::kNetwork;
  double gbs = 0;            ///< GB/s (bytes per ns), one direction
  bool per_node = false;     ///< `gbs` is shared by the GPUs of a node (one Ethernet port); else each GPU has it
  double efficiency = 1;     ///< share of `gbs` that large collectives reach
  double latency_scale = 1;  ///< of the steps' latencies, against what NCCL assumes for this kind of link
  double extra_us = 0;       ///< added to each step: the host's network stack (TCP)
  bool nvls = false;
  bool sharp = false;
};

struct Fabric {
  std::string name;
  std::string about;
  std::string source;
  int gpus_per_node = 1;  ///< joined by the innermost of two levels; with one level: all GPUs are joined by it
  std::vector<FabricLevel> levels;  ///< one or two
  double floor_us = 0;              ///< no collective takes less: what the host needs to launch one (benchmarks' loops)
  bool hierarchical = false;        ///< the library may reduce inside nodes first (Horovod's switch; NCCL does not)
  int channels = 0;                 ///< thread blocks a collective occupies; 0: NCCL's usual number for the link
};

/// All built-in fabrics, sorted by name.
const std::vector<Fabric>& fabrics();
/// By file stem, ignoring case and punctuation; an error with the closest names otherwise.
Result<Fabric> find_fabric(std::string_view name);
/// A user's file.
Result<Fabric> load_fabric(const std::string& path);
/// `text` is a built-in name or the path of a file.
Result<Fabric> fabric_from(const std::string& text);
/// From the text of a TOML file; `name` is its stem, `origin` names it in errors.
Result<Fabric> parse_fabric(std::string_view text, std::string name, const std::string& origin);

/// The same fabric with K GPUs in a node. A fabric that only has a network between nodes gets `inner` inside them.
Result<Fabric> with_gpus_per_node(const Fabric& fabric, int gpus, const FabricLevel& inner);

}  // namespace foretrace::hardware
