// What the model of collectives gives on measured ones, as JSON lines for tools/collective_accuracy.py: for each system and
// level one bandwidth and one latency from the largest and the smallest message of one collective, everything else predicted;
// with a calibration of five sizes; and from the other collectives and numbers of ranks that were measured.
//
//   collective_figures CSV SYSTEMS            source,system,op,ranks,ranks_per_node,size,unit,ms
//                                             system,link,nvls,pairs: a node's links, whether its switch adds up, whether PCIe bridges pairs

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/csv.hpp"
#include "hardware/collective.hpp"
#include "report/json_writer.hpp"

namespace {

using namespace foretrace;  // NOLINT(google-build-using-namespace): a program, not a header
using hardware::Collective;
using hardware::CollectiveRow;
using hardware::Fabric;
using hardware::FabricCollectives;
using hardware::LinkKind;

// One collective over one layout of ranks.
struct Curve {
  Collective kind;
  int ranks, per_node;
  std::vector<CollectiveRow> rows;  // ascending sizes, one each
};

// The curve a level is calibrated on: all-reduce where there is one, over the most ranks (inside nodes) or the fewest
// (between nodes, where a node's own ports are not shared yet).
const Curve* reference(const std::vector<const Curve*>& curves, bool fewest) {
  const Curve* best = nullptr;
  const auto rank = [&](const Curve& c) {
    return std::pair(c.kind == Collective::kAllReduce ? 1 : 0, fewest ? -c.ranks : c.ranks);
  };
  for (const Curve* c : curves) {
    if (best == nullptr || rank(*c) > rank(*best)) best = c;
  }
  return best;
}

void emit(const std::string& system, const char* level, const Curve& c, const CollectiveRow& row, double predicted_ms,
          const char* how) {
  std::string out;
  report::JsonWriter json(out, 0);
  json.begin_object().member("system", system).member("level", level).member("coll", to_string(c.kind));
  json.member("ranks", c.ranks).member("per_node", c.per_node).member("bytes", row.bytes).member("ms", row.ms);
  json.member("predicted_ms", predicted_ms).member("how", how).end_object();
  fmt::print("{}\n", out);
}

void predict(const std::string& system, const char* level, const Fabric& fabric,
             const std::vector<const Curve*>& curves, const Curve* skip_ends_of) {
  const FabricCollectives model(fabric);
  for (const Curve* c : curves) {
    for (std::size_t i = 0; i < c->rows.size(); ++i) {
      if (c == skip_ends_of && (i == 0 || i + 1 == c->rows.size())) continue;
      const CollectiveRow& row = c->rows[i];
      emit(system, level, *c, row, static_cast<double>(model.cost({c->kind, row.bytes, c->ranks}).ns) * 1e-6,
           "two points");
    }
  }
}

// Five sizes of each curve, spread evenly over the logarithm of the size; the others interpolated.
void five_sizes(const std::string& system, const char* level, const std::vector<const Curve*>& curves) {
  constexpr std::size_t kSizes = 5;
  for (const Curve* c : curves) {
    if (c->rows.size() < 2 * kSizes) continue;
    std::vector<CollectiveRow> kept;
    std::set<std::size_t> used;
    for (std::size_t k = 0; k < kSizes; ++k) {
      const double at =
          std::log(c->rows.front().bytes) + (std::log(c->rows.back().bytes) - std::log(c->rows.front().bytes)) *
                                                static_cast<double>(k) / static_cast<double>(kSizes - 1);
      std::size_t nearest = 0;
      for (std::size_t i = 0; i < c->rows.size(); ++i) {
        if (std::abs(std::log(c->rows[i].bytes) - at) < std::abs(std::log(c->rows[nearest].bytes) - at)) nearest = i;
      }
      if (used.insert(nearest).second) kept.push_back(c->rows[nearest]);
    }
    const auto model = hardware::MeasuredCollectives::make(kept, "five sizes");
    if (!model) continue;
    for (std::size_t i = 0; i < c->rows.size(); ++i) {
      if (used.contains(i)) continue;
      const double ms = static_cast<double>(model->cost({c->kind, c->rows[i].bytes, c->ranks}).ns) * 1e-6;
      emit(system, level, *c, c->rows[i], ms, "five sizes");
    }
  }
}

// Each curve from all others of its level and layout: another collective, another number of ranks.
void derived(const std::string& system, const char* level, const std::vector<const Curve*>& curves) {
  for (const Curve* c : curves) {
    std::vector<CollectiveRow> others;
    for (const Curve* o : curves) {
      const bool alike = o->per_node == c->per_node || o->per_node >= o->ranks;
      if (alike && (o->kind != c->kind || o->ranks != c->ranks))
        others.insert(others.end(), o->rows.begin(), o->rows.end());
    }
    const auto model = hardware::MeasuredCollectives::make(others, "the others");
    if (!model) continue;
    for (const CollectiveRow& row : c->rows) {
      emit(system, level, *c, row, static_cast<double>(model->cost({c->kind, row.bytes, c->ranks}).ns) * 1e-6,
           "derived");
    }
  }
}

// How the GPUs of a node are joined.
struct System {
  std::string name;
  LinkKind link = LinkKind::kNvlink;
  bool nvls = false, pairs = false;
};

void judge(const System& system, const std::vector<Curve>& curves) {
  const std::string& name = system.name;
  std::vector<const Curve*> inside;
  std::vector<const Curve*> between;
  std::vector<const Curve*> bridged;  // pairs of NVLink over PCIe: a level of its own
  for (const Curve& c : curves) {
    if (c.per_node < c.ranks) {
      between.push_back(&c);
    } else if (system.pairs && c.ranks > 2) {
      bridged.push_back(&c);
    } else {
      inside.push_back(&c);
    }
  }
  const char* level = system.link == LinkKind::kPcie ? "pcie" : "nvlink";
  Fabric fabric;
  fabric.name = name;
  fabric.levels.push_back({"inside", system.link, 100, false, 1, 1, 0, system.nvls});
  if (const Curve* r = reference(inside, false)) {
    fabric = hardware::calibrate(fabric, 0, r->rows.front(), r->rows.back());
    predict(name, level, fabric, inside, r);
    five_sizes(name, level, inside);
    derived(name, level, inside);
  }
  if (const Curve* r = reference(bridged, false)) {
    Fabric pcie = fabric;
    pcie.floor_us = 0;
    pcie.levels[0].link = LinkKind::kPcie;
    pcie = hardware::calibrate(pcie, 0, r->rows.front(), r->rows.back());
    predict(name, "bridged", pcie, bridged, r);
    five_sizes(name, "bridged", bridged);
  }
  if (const Curve* r = reference(between, true)) {
    Fabric whole = fabric;
    whole.floor_us = 0;
    whole.levels.push_back({"between", LinkKind::kNetwork, 10, false, 1, 1, 0, false});
    const auto shaped = [&](int per_node) {
      Fabric f = whole;
      f.gpus_per_node = per_node;
      if (per_node == 1) f.levels.erase(f.levels.begin());
      return f;
    };
    const Fabric fitted =
        hardware::calibrate(shaped(r->per_node), r->per_node == 1 ? 0 : 1, r->rows.front(), r->rows.back());
    whole.levels[1] = fitted.levels.back();
    for (const Curve* c : between) predict(name, "network", shaped(c->per_node), {c}, r);
    five_sizes(name, "network", between);
    derived(name, "network", between);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: collective_figures CSV SYSTEMS\n");
    return 2;
  }
  std::ifstream file(argv[2]);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (CsvReader row(text); row.next();) {
    const System system{std::string(row["system"]), row["link"] == "pcie" ? LinkKind::kPcie : LinkKind::kNvlink,
                        row["nvls"] == "1", row["pairs"] == "1"};
    // Every system is a tag; the reader wants one at a time.
    const auto rows = hardware::load_collectives(argv[1], system.name);
    if (!rows) {
      fmt::print(stderr, "{}\n", rows.error().to_string());
      return 3;
    }
    std::map<std::tuple<Collective, int, int>, std::map<double, std::vector<double>>> by_curve;
    for (const CollectiveRow& row : *rows) {
      by_curve[{row.kind, row.ranks, row.ranks_per_node}][row.bytes].push_back(row.ms);
    }
    std::vector<Curve> curves;
    for (auto& [key, sizes] : by_curve) {
      Curve c{std::get<0>(key), std::get<1>(key), std::get<2>(key), {}};
      for (auto& [bytes, times] : sizes) {
        std::sort(times.begin(), times.end());
        c.rows.push_back({system.name, c.kind, c.ranks, c.per_node, bytes, times[times.size() / 2]});
      }
      curves.push_back(std::move(c));
    }
    judge(system, curves);
  }
  return 0;
}
