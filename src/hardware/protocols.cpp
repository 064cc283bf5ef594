#include "hardware/protocols.hpp"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/csv.hpp"
#include "base/data_files.hpp"

namespace foretrace::hardware {

Protocols parse_protocols(std::string_view csv) {
  Protocols p;
  std::vector<std::pair<std::string, double*>> named = {{"nvls_base", &p.nvls_base},
                                                        {"nvls_share", &p.nvls_share},
                                                        {"local_copy", &p.local_copy},
                                                        {"peers_share", &p.peers_share},
                                                        {"tree_share", &p.tree_share},
                                                        {"slowest", &p.slowest},
                                                        {"fabric_spread", &p.fabric_spread},
                                                        {"measured_spread", &p.measured_spread},
                                                        {"derived_spread", &p.derived_spread},
                                                        {"peer_base_ll", p.peer_base.data()},
                                                        {"peer_base_simple", &p.peer_base.back()}};
  const auto by_protocol = [&](std::string_view name, ByProtocol& values) {
    std::size_t i = 0;
    for (const char* protocol : {"ll", "ll128", "simple"}) {
      named.emplace_back(std::string(name).append("_").append(protocol), &values.at(i++));
    }
  };
  by_protocol("node_base", p.node_base);
  by_protocol("network_base", p.network_base);
  by_protocol("payload", p.payload);
  for (const LinkKind link : {LinkKind::kNvlink, LinkKind::kPcie, LinkKind::kNetwork}) {
    const auto i = static_cast<std::size_t>(link);
    const std::string name(to_string(link));
    by_protocol(name + "_step", p.ring.at(i));
    by_protocol(name + "_tree", p.tree.at(i));
    named.emplace_back(name + "_typical_scale", &p.typical_scale.at(i));
  }
  const std::vector<std::pair<std::string_view, double*>> places(named.begin(), named.end());
  read_values(csv, places);
  return p;
}

const Protocols& protocols() {
  static const Protocols kShipped = parse_protocols(data_file("hardware/fabrics/protocols.csv"));
  return kShipped;
}

}  // namespace foretrace::hardware
