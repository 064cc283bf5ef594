#pragma once
// What the steps of collectives cost, by protocol and kind of link: fabrics/protocols.csv, which tools/fit_collectives.py writes. The steps are those
// of NCCL's own tuning model, the rest was fitted to published runs; the table gives the source of each.

#include <array>
#include <string_view>

#include "hardware/collective.hpp"

namespace foretrace::hardware {

inline constexpr std::size_t kLinkKinds = 3;
inline constexpr std::size_t kProtocols = 3;
using ByProtocol = std::array<double, kProtocols>;

struct Protocols {
  ByProtocol node_base{};     ///< us before the first byte moves: inside a node, as NCCL's steps below stand
  ByProtocol network_base{};  ///< and between nodes
  std::array<ByProtocol, kLinkKinds> ring{}, tree{};  ///< us of a step to a neighbour, by kind of link
  ByProtocol peer_base{};  ///< us before a peer's message moves: less set-up than a ring; LL128 has none
  double nvls_base = 0;    ///< us beyond Simple's where the switch adds up
  double nvls_share = 0;   ///< of the links, that adding up in the switch reaches
  ByProtocol payload{};    ///< share of the links' bandwidth that flags leave
  double local_copy = 0;   ///< a rank's own part is copied in its memory, this many times as fast as a link
  double peers_share = 0;  ///< of the links inside a node, what messages to all peers at once reach
  double tree_share = 0;   ///< of a ring's bandwidth: a tree moves every byte up and down through one parent
  std::array<double, kLinkKinds> typical_scale{};  ///< latencies of the typical system over those above
  double slowest =
      0;  ///< steps take up to this many times NCCL's; a small message that takes longer waited for its launch
  /// Of log time, messages of a megabyte and more: a fabric by its file, a measured curve between its sizes, another collective or number of ranks.
  double fabric_spread = 0, measured_spread = 0, derived_spread = 0;
};
Protocols parse_protocols(std::string_view csv);
/// Those compiled in.
const Protocols& protocols();

}  // namespace foretrace::hardware
