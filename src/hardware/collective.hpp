#pragma once
// What a collective costs. Two models of one interface: the fabric's (algorithm and protocol chosen as NCCL chooses, with
// its latencies) and a table of measurements, which takes precedence where it is given.
//
//   FabricCollectives model(fabric);
//   CollectiveCost c = model.cost({Collective::kAllReduce, 100 << 20, 16});     c.ns;  c.how == "ring Simple";
//
// Sizes are bytes of the whole tensor: all-reduce and broadcast: the tensor; all-gather: what comes out; reduce-scatter:
// what goes in; all-to-all: what each rank holds; send/recv: the message; gather and scatter: all parts together, the root's too.
//
// The large-size limit of every algorithm is bytes on the busiest link over its bandwidth: for a ring all-reduce of S bytes
// over n ranks 2(n-1)/n S/B.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/hardware/device.hpp"

namespace foretrace::hardware {

enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSendRecv,
  kGather,  ///< all send their part to one: the push to a parameter server
  kScatter  ///< the way back
};
inline constexpr std::size_t kCollectives = 9;
std::string_view to_string(Collective collective);
/// "all_reduce", "allreduce", "AllReduce", "all_reduce_perf", …
std::optional<Collective> parse_collective(std::string_view text);
/// The one that a longer name contains, written in small letters: "nccldevkernelallgatherringll".
std::optional<Collective> collective_in(std::string_view letters);

struct CollectiveCall {
  Collective kind = Collective::kAllReduce;
  double bytes = 0;
  int ranks = 2;
};

struct CollectiveCost {
  Ns ns = 0;
  std::string how;        ///< "ring LL128", "measured", …
  bool measured = false;  ///< interpolated between measurements of the same collective and rank count
  double sigma = 0;       ///< spread of log(real / this)
  int channels = 0;       ///< thread blocks it occupies on each GPU
  int steps = 1;          ///< of its ring, one behind the other; 1: not made of equal steps
};

class CollectiveModel {
 public:
  virtual ~CollectiveModel() = default;
  [[nodiscard]] virtual CollectiveCost cost(const CollectiveCall& call) const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  /// GPUs of a node that share one port to other nodes.
  [[nodiscard]] virtual int sharing_a_port() const { return 1; }
};

enum class Algorithm : std::uint8_t {
  kRing,      ///< one ring through all ranks
  kTree,      ///< chains inside nodes, a double binary tree between them
  kTwoLevel,  ///< rings inside nodes and, on each GPU's part, between them; where Fabric::hierarchical says so
  kNvls,      ///< the switch of a node adds up
  kNvlsTree,  ///< the same inside nodes, a tree between them
  kCollNet,   ///< rings inside nodes, the switches between them add up (FabricLevel::sharp)
};
inline constexpr std::size_t kAlgorithms = 6;
enum class Protocol : std::uint8_t { kLL, kLL128, kSimple };
std::string_view to_string(Algorithm algorithm);
std::string_view to_string(Protocol protocol);

struct Protocols;  // what steps cost: src/hardware/protocols.hpp

/// Collectives over a fabric. Ranks fill nodes one after another.
class FabricCollectives : public CollectiveModel {
 public:
  explicit FabricCollectives(Fabric fabric);
  /// With other figures of protocols than those compiled in; they must outlive the model.
  FabricCollectives(Fabric fabric, const Protocols& protocols);
  [[nodiscard]] CollectiveCost cost(const CollectiveCall& call) const override;
  [[nodiscard]] std::string name() const override { return fabric_.name; }
  [[nodiscard]] int sharing_a_port() const override {
    return fabric_.levels.size() == 2 && fabric_.levels[1].per_node ? fabric_.gpus_per_node : 1;
  }
  /// One algorithm and protocol in microseconds; nothing where the fabric or the collective does not allow it.
  [[nodiscard]] std::optional<double> micros(const CollectiveCall& call, Algorithm algorithm, Protocol protocol) const;
  [[nodiscard]] const Fabric& fabric() const { return fabric_; }

 private:
  Fabric fabric_;
  const Protocols* protocols_;
};

/// One measured collective.
struct CollectiveRow {
  std::string tag;
  Collective kind = Collective::kAllReduce;
  int ranks = 0;
  int ranks_per_node = 0;  ///< 0: not said
  double bytes = 0;        ///< of the whole tensor, as above
  double ms = 0;
  int channels = 0;  ///< thread blocks of its kernel; 0: not said
};

/// Measured collectives: sizes between are interpolated; other rank counts and collectives are derived from the nearest
/// measured one, at the size where its busiest link carries as many bytes, by the steps they take.
class MeasuredCollectives : public CollectiveModel {
 public:
  /// At least one row of all-reduce, reduce-scatter or all-gather.
  static Result<MeasuredCollectives> make(std::vector<CollectiveRow> rows, std::string name);
  [[nodiscard]] CollectiveCost cost(const CollectiveCall& call) const override;
  [[nodiscard]] std::string name() const override { return name_; }

 private:
  struct Curve {
    Collective kind;
    int ranks;
    bool network;                                   // between nodes
    std::vector<std::pair<double, double>> points;  // bytes, ns; ascending
    [[nodiscard]] double ns(double bytes) const;
    // What becomes of so much of its latency in another collective, over other ranks.
    [[nodiscard]] double latency_ns(double of_this, Collective to, int to_ranks) const;
  };
  std::vector<Curve> curves_;
  int channels_ = 2;  // NCCL's over sockets, where the rows do not say it
  std::string name_;
};

/// Reads measurements: JSON lines ({"tag","world","coll","mb","ms"}; "channels" where known), CSV with a header, or what nccl-tests prints.
/// `tag`: only rows of that tag; required when the file holds several.
Result<std::vector<CollectiveRow>> read_collectives(std::string_view text, const std::string& origin,
                                                    const std::optional<std::string>& tag);
Result<std::vector<CollectiveRow>> load_collectives(const std::string& path, const std::optional<std::string>& tag);

/// The fabric whose level `level` reproduces two measurements of one collective: the largest size gives the bandwidth, the
/// smallest the latency. A latency far beyond what steps take is the host's and becomes the floor.
Fabric calibrate(Fabric fabric, std::size_t level, const CollectiveRow& smallest, const CollectiveRow& largest);

/// Steps a message takes around a ring of this many ranks: 2(n-1) for an all-reduce; 1 where there is no ring.
int ring_steps(Collective kind, int ranks);
/// Bytes the busiest link carries per byte of the tensor: 2(n-1)/n for an all-reduce.
double bus_factor(Collective kind, int ranks);

}  // namespace foretrace::hardware
