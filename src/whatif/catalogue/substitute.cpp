#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/rewrite/joined_convolutions.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {
namespace {

using work::Gemm;
using work::Work;

std::string_view parent_of(std::string_view layer) { return layer.substr(0, std::min(layer.rfind('.'), layer.size())); }

// The product as a linear layer makes it, forward or backward; null for all other work.
const Gemm* layer_product(const Work& w) {
  const auto* g = std::get_if<Gemm>(&w.kind);
  return g != nullptr && g->batch == 1 && g->m > 0 && g->n > 0 && g->k > 0 ? g : nullptr;
}

// Layers that read the same tensor: "attention.query", "attention.key" and "attention.value".
struct Siblings {
  std::vector<const Row*> forward;
  std::vector<std::uint32_t> layers;
};

// Products that follow each other directly, of parallel layers in one module, with inputs of one shape. A layer that reads
// what the one before it wrote has an activation between them, or is a numbered member of a Sequential.
std::vector<Siblings> find_siblings(const Model& m, const std::vector<Row>& rows) {
  std::vector<Siblings> found;
  const Graph& g = m.graph;
  const auto layer_of = [&](const Row& r) { return g.layer[r.tasks.front()]; };
  const auto name_of = [&](const Row& r) -> std::string_view { return g.strings[g.layers[layer_of(r).index()].name]; };
  const Row* last = nullptr;
  bool open = false;
  for (const Row& r : rows) {
    if (r.phase != Phase::kForward) continue;
    const Work& w = m.works[r.work];
    const Gemm* own = layer_product(w);
    // Autocast casts a layer's weights in front of its product.
    if (own == nullptr && w.family == work::Family::kCopy) continue;
    const bool product = own != nullptr && layer_of(r).valid() && !g.layers[layer_of(r).index()].synthetic;
    bool joins = false;
    if (product && last != nullptr) {
      const Work& before = m.works[last->work];
      const Gemm& neighbour = *layer_product(before);
      joins = neighbour.m == own->m && neighbour.k == own->k && before.dtype == w.dtype &&
              layer_of(*last) != layer_of(r) && parent_of(name_of(*last)) == parent_of(name_of(r));
      const std::string_view leaf = name_of(r).substr(std::min(name_of(r).rfind('.') + 1, name_of(r).size()));
      if (!leaf.empty() && leaf.find_first_not_of("0123456789") == std::string_view::npos) joins = false;
    }
    if (joins && !open) found.push_back({{last}, {layer_of(*last).value}});
    if (joins) {
      found.back().forward.push_back(&r);
      found.back().layers.push_back(layer_of(r).value);
    }
    open = joins;
    last = product ? &r : nullptr;
  }
  return found;
}

// What else parallel layers do one by one: casts of their weights, sums over the gradients of their biases. The sums of the gradients of
// their input are gone, except for one; the gradients of their results are concatenated first.
class Rest {
 public:
  Rest(Model& m, Draft& draft, const std::vector<Row>& rows, Selection& gone) : m_(m), draft_(draft), gone_(gone) {
    for (const Row& r : rows) {
      const graph::LayerId layer = m.graph.layer[r.tasks.front()];
      if (layer.valid() && layer_product(m.works[r.work]) == nullptr) of_[layer.value].push_back(&r);
    }
  }

  void join(const Siblings& s, const Gemm& input, std::int64_t results) {
    using Kind = std::tuple<Phase, work::Family, std::size_t>;
    std::map<Kind, std::vector<const Row*>> alike;
    std::size_t sums = s.layers.size() - 1;
    for (const std::uint32_t layer : s.layers) {
      const bool first = layer == s.layers.front();
      std::map<std::pair<Phase, work::Family>, std::size_t> seen;
      for (const Row* r : of_[layer]) {
        const Work& w = m_.works[r->work];
        if (r->phase == Phase::kBackward && w.family == work::Family::kElementwise && sums > 0 &&
            w.elements == input.m * input.k) {
          gone_.insert(gone_.end(), r->tasks.begin(), r->tasks.end());
          --sums;
        } else if (w.family == work::Family::kCopy && w.elements == input.m * input.k) {
          // Autocast casts the input for each of them, and each gradient back.
          if (first) continue;
          gone_.insert(gone_.end(), r->tasks.begin(), r->tasks.end());
          if (r->phase == Phase::kForward) forget(w.op_event);
        } else if (w.family == work::Family::kCopy || w.family == work::Family::kReduction) {
          alike[{r->phase, w.family, seen[{r->phase, w.family}]++}].push_back(r);
        }
      }
    }
    for (const auto& [kind, rows] : alike) {
      if (rows.size() == s.layers.size()) join_rows(m_, draft_, rows, together(rows), gone_);
    }
    const Row* first = first_backward(s);
    if (first == nullptr) return;
    Place at = place_before(m_.graph, first->tasks.front());
    insert_work(m_, draft_, at, "concatenated gradients",
                work::elementwise_work(results, 1, 1, m_.works[s.forward.front()->work].dtype),
                {.phase = Phase::kBackward,
                 .layer = m_.graph.layer[first->tasks.front()],
                 .cpu_cost = m_.launch_time(Phase::kBackward)});
  }

  /// The memory of casts that are no longer made.
  void release() {
    if (!m_.memory || forgotten_.empty()) return;
    std::erase_if(m_.memory->blocks, [&](const memory::Block& b) {
      if (b.op == kNone || b.kind == memory::Kind::kResident) return false;
      const Ns at = m_.trace->events.start[b.op];
      return std::any_of(forgotten_.begin(), forgotten_.end(),
                         [&](const auto& cast) { return cast.first <= at && at < cast.second; });
    });
    memory::recompute(*m_.memory);
  }

  void add_backward(std::uint32_t layer, const Row& r) { backward_[layer] = &r; }

 private:
  // From its copy up to the cast around it.
  void forget(std::uint32_t event) {
    std::uint32_t cast = event;
    for (std::uint32_t up = event; up != kNone; up = m_.chains->around(up)) {
      if (!contains_any(m_.trace->name(up), {"aten::copy_", "aten::_to_copy", "aten::to"})) break;
      cast = up;
    }
    if (cast != kNone) forgotten_.emplace_back(m_.trace->events.start[cast], m_.trace->end(cast));
  }

  [[nodiscard]] Work together(const std::vector<const Row*>& rows) const {
    Work all = m_.works[rows.front()->work];
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const Work& w = m_.works[rows[i]->work];
      all.elements += w.elements;
      all.flops += w.flops;
      all.bytes_read += w.bytes_read;
      all.bytes_written += w.bytes_written;
      if (auto* kind = std::get_if<work::Rows>(&all.kind)) kind->columns += std::get<work::Rows>(w.kind).columns;
    }
    return all;
  }

  [[nodiscard]] const Row* first_backward(const Siblings& s) const {
    const Row* first = nullptr;
    for (const std::uint32_t layer : s.layers) {
      const auto found = backward_.find(layer);
      if (found != backward_.end() && (first == nullptr || found->second->begin < first->begin)) first = found->second;
    }
    return first;
  }

  Model& m_;
  Draft& draft_;
  Selection& gone_;
  std::map<std::uint32_t, std::vector<const Row*>> of_;
  std::map<std::uint32_t, const Row*> backward_;
  std::vector<std::pair<Ns, Ns>> forgotten_;
};

// The products of each layer's backward pass.
std::map<std::uint32_t, std::vector<const Row*>> backward_products(const Model& m, const std::vector<Row>& rows) {
  std::map<std::uint32_t, std::vector<const Row*>> products;
  for (const Row& r : rows) {
    const graph::LayerId layer = m.graph.layer[r.tasks.front()];
    if (r.phase == Phase::kBackward && layer_product(m.works[r.work]) != nullptr && layer.valid()) {
      products[layer.value].push_back(&r);
    }
  }
  return products;
}

Status apply_substitute(Model& m, Draft& draft, const Parameters& parameters) {
  const std::vector<Row> rows = rows_of(m, draft);
  const std::vector<Siblings> all = find_siblings(m, rows);
  Selection gone;
  const std::size_t convolutions = join_convolutions(m, draft, parameters.text("enlarge") == "1", gone);
  if (all.empty() && convolutions == 0) return fail(ErrorCode::kDeclined, "no parallel layers read the same input");
  std::map<std::uint32_t, std::vector<const Row*>> backward = backward_products(m, rows);
  // All of them are products of layers.
  const auto sizes = [&](const Row* r) -> const Gemm& { return *layer_product(m.works[r->work]); };
  Rest rest(m, draft, rows, gone);
  for (const auto& [layer, products] : backward) rest.add_backward(layer, *products.front());
  for (const Siblings& s : all) {
    std::int64_t results = 0;
    for (const Row* r : s.forward) results += sizes(r).m * sizes(r).n;
    rest.join(s, sizes(s.forward.front()), results);
    Work joined = m.works[s.forward.front()->work];
    for (std::size_t i = 1; i < s.forward.size(); ++i) std::get<Gemm>(joined.kind).n += sizes(s.forward[i]).n;
    join_rows(m, draft, s.forward, joined, gone);
    for (const bool weights : {false, true}) {
      std::vector<const Row*> same;
      for (const std::uint32_t layer : s.layers) {
        for (const Row* r : backward[layer]) {
          if (sizes(r).weight_grad == weights) same.push_back(r);
        }
      }
      if (same.size() != s.layers.size()) continue;
      // The gradient of the input sums over all outputs at once; that of the weights has as many more rows.
      Work wide = m.works[same.front()->work];
      auto& gemm = std::get<Gemm>(wide.kind);
      for (std::size_t i = 1; i < same.size(); ++i) {
        (weights ? gemm.m : gemm.k) += weights ? sizes(same[i]).m : sizes(same[i]).k;
      }
      join_rows(m, draft, same, wide, gone);
    }
  }
  draft.remove(gone, Draft::kWithLaunch);
  rest.release();
  return {};
}

const Registered kRegistered(
    {.name = "substitute",
     .about = "layers that read the same input become one wider layer (query, key and value; convolutions)",
     .parameters = {{"enlarge",
                     "1: also convolutions whose kernels differ in size; the smaller ones get zeros around them",
                     "0",
                     {"0", "1"}}},
     .assumes = "their weights are stored as one tensor; the parts of the result are views of it",
     .source = "Jia et al. 2019 (MetaFlow); TASO (Daydream's table)",
     .not_modelled = "other substitutions; fewer and larger parameters in the update",
     .needs = {Need::kShapes, Need::kLayers},
     .changes = Changes::kKernels,
     .parts = {.memory = Part::kModelled},
     .code = "self.qkv = nn.Linear(d, 3 * d)  # then q, k, v = self.qkv(x).chunk(3, -1)",
     .effort = Effort::kWork,
     .stage = Stage::kKernels,
     .advise = {"substitute"},
     .validated = true,
     .apply = apply_substitute});

}  // namespace
}  // namespace foretrace::whatif
