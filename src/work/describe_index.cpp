// Embeddings, index, gather and scatter: which rows of which table, and what is done with them.

#include <algorithm>

#include "base/saturate.hpp"
#include "base/text.hpp"
#include "work/describe_op.hpp"

namespace foretrace::work {

namespace {

using Operation = Gather::Operation;

// "index_put" of "aten::index_put_", "_index_put_impl" of "aten::_index_put_impl_".
std::string_view bare(std::string_view name) {
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos) name.remove_prefix(colon + 1);
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

Operation operation_of(std::string_view name, const OpView& op) {
  const std::string_view plain = bare(name);
  const auto is = [&](std::string_view names) { return is_one_of(plain, names); };
  if (is("index_put _index_put_impl")) return op.flag(3) ? Operation::kSorted : Operation::kWritten;
  if (is("embedding index_select index _unsafe_index gather take take_along_dim")) return Operation::kTaken;
  if (is("index_copy scatter")) return Operation::kWritten;
  if (is("index_add")) return Operation::kAdded;
  if (is("scatter_add scatter_reduce")) return Operation::kScattered;
  if (is("embedding_bag _embedding_bag")) return Operation::kBags;
  if (is("embedding_dense_backward embedding_backward")) return Operation::kTableGrad;
  if (is("_embedding_bag_dense_backward _embedding_bag_backward")) return Operation::kBagsGrad;
  return Operation::kOther;
}

std::int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  std::int64_t n = 1;
  for (; begin != end; ++begin) n = saturated_product(n, *begin);
  return n;
}

// What is before, along and behind one dimension of a tensor.
struct Split {
  std::int64_t before = 1, along = 0, behind = 1;
};

Split split(const Shape& shape, std::int64_t dim) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank) return {};
  const auto at = shape.begin() + dim;
  return {product(shape.begin(), at), *at, product(at + 1, shape.end())};
}

// An index that was expanded says the same for all elements of a row.
bool expanded(const Argument& index) {
  if (index.strides.empty() || index.shape().size() < 2 || index.strides.front().size() != index.shape().size())
    return false;
  for (std::size_t d = 1; d < index.shape().size(); ++d) {
    if (index.shape()[d] > 1 && index.strides.front()[d] != 0) return false;
  }
  return true;
}

// (self, dim, index, …): one index for a row of index_select, index_add and index_copy, one for each element of gather and scatter.
void along_dimension(Gather& g, std::string_view name, const OpView& op) {
  const std::int64_t dim = op.integer(1, 0);
  const Split table = split(op[0].shape(), dim);
  const Argument& index = op[2];
  g.table = table.along;
  const std::string_view plain = bare(name);
  if (plain == "gather" || plain == "take_along_dim" || plain.starts_with("scatter")) {
    const Split at = split(index.shape(), dim);
    const bool rows = dim == 0 && expanded(index);
    const bool whole = rows || g.operation != Operation::kTaken;
    g.sets = whole ? at.before : saturated_product(at.before, at.behind);
    g.columns = whole ? at.behind : 1;
    g.rows = whole ? saturated_product(at.before, at.along) : index.elements();
    return;
  }
  g.sets = table.before;
  g.columns = table.behind;
  g.rows = saturated_product(table.before, index.elements());
}

// (self, indices, values, …). Where the indices are is not recorded; dimensions that table and values share behind them are the
// rows', those before them are sets.
void index_put(Gather& g, const OpView& op) {
  const Shape& table = op[0].shape();
  const Shape& values = op[2].shape();
  auto t = table.end();
  auto v = values.end();
  // One dimension is the index's, whatever its size.
  while (t - 1 != table.begin() && v - 1 != values.begin() && *(t - 1) == *(v - 1)) --t, --v;
  auto first_t = table.begin();
  auto first_v = values.begin();
  while (first_t + 1 != t && first_v + 1 != v && *first_t == *first_v) ++first_t, ++first_v;
  g.columns = product(v, values.end());
  g.sets = product(values.begin(), first_v);
  g.rows = saturated_product(g.sets, product(first_v, v));
  g.table = product(first_t, t);
}

// Rows of a table for as many indices; bags: one row of sums for several.
void embedding(Gather& g, const OpView& op) {
  g.rows = op[1].elements();
  g.columns = op[0].shape().back();
  g.parameter = true;
  if (g.operation == Operation::kTableGrad) {
    g.table = op.integer(2, 0);
  } else if (g.operation == Operation::kBagsGrad) {
    // Behind indices and bags come how many there are of each: (…, number of rows, scaled by frequency, mode, …).
    g.bags = op[0].shape().front();
    g.table = op.integer(op.tensor(5) ? 6 : 5, 0);
  } else {
    g.table = op[0].shape().front();
  }
  if (g.operation == Operation::kBags) {
    const bool by_offsets = op.tensor(2, 1) && op[1].shape().size() == 1;
    g.bags = by_offsets ? op[2].elements() - (op.flag(7) ? 1 : 0) : op[1].shape().front();
  }
}

}  // namespace

void describe_embedding(Work& w, const OpClass& what, std::string_view name, const OpView& op) {
  Gather g{.operation = operation_of(name, op)};
  const std::size_t at = op.first_tensor();
  if (at == op.size()) {
    w.kind = g;
    return;
  }
  const Argument& table = op[at];
  w.dtype = w.out_dtype = parse_dtype(table.type);
  const bool looks_up = what.form == Form::kEmbedding || what.form == Form::kEmbeddingGrad;
  if (looks_up && op.tensor(0, 1) && op.tensor(1)) {
    embedding(g, op);
  } else if ((g.operation == Operation::kSorted || g.operation == Operation::kWritten) && op.tensor(0, 1) &&
             op.tensor(2, 1) && !op.tensor(1)) {
    index_put(g, op);
  } else if (g.operation != Operation::kOther && !looks_up && op.tensor(0, 1) && op.tensor(2)) {
    along_dimension(g, name, op);
  }
  w.elements = saturated_product(g.rows, g.columns);
  if (w.elements <= 0) {
    // Index records no index: its launch will tell (describe_index_launch). Others move as much as their largest operand holds.
    g.rows = g.columns = 0;
    std::int64_t moved = 0;
    for (std::size_t i = at + 1; i < op.size(); ++i) {
      if (op.tensor(i, 1)) moved = std::max(moved, op[i].elements());
      if (op[i].list()) {
        for (const Shape& s : op[i].shapes) moved = std::max(moved, elements_of(s));
      }
    }
    g.table = table.shape().front();
    w.elements = moved > 0 ? moved : table.elements();
  }
  w.kind = g;
  w.bytes_read = static_cast<double>(w.elements * bytes_of(w.dtype));
  add_written(w, w.elements, w.out_dtype);
  refresh(w);
}

void describe_index_launch(Work& w, std::string_view kernel, const trace::KernelLaunch& launch) {
  auto* g = std::get_if<Gather>(&w.kind);
  if (g == nullptr || g->rows > 0 || w.elements <= 0) return;
  const std::int64_t table = w.elements;
  if (contains(kernel, "vectorized_gather_kernel") && g->operation == Operation::kTaken && g->table > 0) {
    // A block for each index, more where a row is long.
    g->rows = launch.grid[0];
    g->columns = table / g->table;
  } else if (contains(kernel, "index_elementwise_kernel")) {
    constexpr std::int64_t kOfThread = 4;  // elements
    g->rows = saturated_product(saturated_product(launch.grid[0], launch.block[0]), kOfThread);
    g->columns = 1;
    g->table = table;
  }
  if (g->rows <= 0 || g->columns <= 0) {
    g->rows = g->columns = 0;
    return;
  }
  refresh(w);
}

}  // namespace foretrace::work
