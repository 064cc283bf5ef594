#pragma once
// A strategy: everything that is decided about how a step runs, as a file people can read, change and give back.
//
//   {
//     "schema": 1,
//     "whatifs": [
//       {"whatif": "amp", "dtype": "bf16"},
//       {"whatif": "checkpoint", "layers": ["encoder.layer.0", "encoder.layer.1"]},
//       {"whatif": "accumulate", "n": 2}
//     ],
//     "communication": {
//       "workers": 16, "fabric": "10GbE", "scheme": "ddp", "compression": "none",
//       "buckets": [{"gradients": [0, 41], "mb": 25.3, "partitions": 1}, {"gradients": [42, 160], "mb": 72.1}]
//     }
//   }
//
// What-ifs are applied in order; one may also be written as text ("amp:dtype=bf16"), and lists as arrays. Gradients are
// numbered in the order backward makes them; a bucket holds a range of them, first and last.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::search {

/// Gradients [first, last] reduced together.
struct PlannedBucket {
  std::uint32_t first = 0, last = 0;
  double mb = 0;       ///< MiB, for people; nothing is computed from it
  int partitions = 1;  ///< parts reduced one after another
  friend bool operator==(const PlannedBucket&, const PlannedBucket&) = default;
};

struct Communication {
  int workers = 1;
  std::string fabric;       ///< name or file
  std::string collectives;  ///< file of measured collectives instead
  std::string collectives_tag;
  int gpus_per_node = 0;  ///< 0: the fabric's own
  std::string scheme = "ddp";
  std::string compression = "none";
  double bucket_mb = 25;  ///< without a plan: as PyTorch fills buckets
  std::optional<double> first_bucket_mb;
  std::vector<PlannedBucket> buckets;
  friend bool operator==(const Communication&, const Communication&) = default;
};

/// The same workers and network with what PyTorch does unasked: DistributedDataParallel with its own buckets.
Communication plain_communication(const Communication& communication);

struct Strategy {
  std::vector<std::string> whatifs;  ///< as on the command line, in order
  std::optional<Communication> communication;
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

/// `origin` names the input in errors. Unknown keys, what-ifs and parameters are errors: a strategy is never half used.
Result<Strategy> parse_strategy(std::string_view text, const std::string& origin);
Result<Strategy> load_strategy(const std::string& path);

/// The what-ifs of a strategy, checked against the catalogue.
Result<std::vector<whatif::Use>> uses_of(const Strategy& strategy);

/// A use of a what-if for people: of long lists the first entry and how many, "checkpoint:layers=h.0|… (8)".
std::string short_use(std::string_view use);
/// "amp:dtype=bf16 + fused-optimizer, ddp in 4 buckets"; "as it is" when nothing changes.
std::string describe(const Strategy& strategy);
/// A text that differs between different strategies.
std::string key_of(const Strategy& strategy);

}  // namespace foretrace::search
